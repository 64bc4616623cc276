package kernel

// CopyLane makes one position of page dst equal to that of page src.
func (kv *KV) CopyLane(dst, src int32, lane int) {
	kv.check(dst, lane)
	kv.check(src, lane)
	switch kv.t {
	case F32:
		copyLane(kv, kv.f32, dst, src, lane)
	case F16:
		copyLane(kv, kv.half, dst, src, lane)
	default:
		copyLane(kv, kv.code, dst, src, lane)
		for h := range kv.heads {
			kv.scales[kv.keyScaleAt(dst, h)+lane] = kv.scales[kv.keyScaleAt(src, h)+lane]
			kv.scales[kv.valueScaleAt(dst, h)+lane] = kv.scales[kv.valueScaleAt(src, h)+lane]
		}
	}
}

func copyLane[T float32 | uint16 | int8](kv *KV, mem []T, dst, src int32, lane int) {
	for h := range kv.heads {
		d, s := mem[kv.keyAt(dst, h):], mem[kv.keyAt(src, h):]
		for i := lane; i < kv.dim*Panel; i += Panel {
			d[i] = s[i]
		}
		copy(mem[kv.valueAt(dst, h, lane):][:kv.dim], mem[kv.valueAt(src, h, lane):])
	}
}

// MeanLanes replaces positions [from, to) of every page of the list by their mean over the list. The sum runs in the order of the list, in float32;
// halves and codes are widened first, and the mean is rounded as Put rounds.
func (kv *KV) MeanLanes(pages []int32, from, to int) {
	var k, v, kx, vx [maxHeadDim]float32
	for h := range kv.heads {
		for lane := from; lane < to; lane++ {
			clear(k[:kv.dim])
			clear(v[:kv.dim])
			for _, p := range pages {
				kv.get(kx[:kv.dim], vx[:kv.dim], p, lane, h)
				Add(k[:kv.dim], k[:kv.dim], kx[:kv.dim])
				Add(v[:kv.dim], v[:kv.dim], vx[:kv.dim])
			}
			n := float32(len(pages))
			for d := range kv.dim {
				k[d] /= n
				v[d] /= n
			}
			for _, p := range pages {
				kv.putHead(p, lane, h, k[:kv.dim], v[:kv.dim])
			}
		}
	}
}

// get widens the keys and values of one position of one head.
func (kv *KV) get(k, v []float32, page int32, lane, head int) {
	kv.check(page, lane)
	for d, at := 0, kv.keyAt(page, head)+lane; d < len(k); d++ {
		kv.widen(k[d:d+1], at+d*Panel)
	}
	kv.widen(v, kv.valueAt(page, head, lane))
	if kv.t == Q8_0 {
		scaleGeneric(k, k, kv.scales[kv.keyScaleAt(page, head)+lane])
		scaleGeneric(v, v, kv.scales[kv.valueScaleAt(page, head)+lane])
	}
}
