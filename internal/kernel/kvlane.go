package kernel

import "tinyloop/internal/invariants"

// CopyLane makes one position of page dst equal to that of page src.
func (kv *KV) CopyLane(dst, src int32, lane int) {
	invariants.Check(lane >= 0 && lane < Panel && int(max(dst, src)) < kv.pages && min(dst, src) >= 0, "kernel: position outside the KV store")
	if kv.half != nil {
		copyLane(kv, kv.half, dst, src, lane)
		return
	}
	copyLane(kv, kv.f32, dst, src, lane)
}

func copyLane[T float32 | uint16](kv *KV, mem []T, dst, src int32, lane int) {
	for h := range kv.heads {
		d, s := mem[int(dst)*kv.page+h*kv.head:], mem[int(src)*kv.page+h*kv.head:]
		for i := lane; i < kv.dim*Panel; i += Panel {
			d[i] = s[i]
		}
		v := kv.dim*Panel + lane*kv.vdim
		copy(d[v:v+kv.dim], s[v:v+kv.dim])
	}
}

// MeanLanes replaces positions [from, to) of every page of the list by their mean over the list. The sum runs in the order of the list, in float32;
// halves are widened first and the mean is rounded to nearest even.
func (kv *KV) MeanLanes(pages []int32, from, to int) {
	for _, p := range pages {
		invariants.Check(from >= 0 && to <= Panel && int(p) < kv.pages && p >= 0, "kernel: position outside the KV store")
	}
	for h := range kv.heads {
		for d := range kv.dim {
			for lane := from; lane < to; lane++ {
				kv.mean(pages, h*kv.head+d*Panel+lane)
				kv.mean(pages, h*kv.head+kv.dim*Panel+lane*kv.vdim+d)
			}
		}
	}
}

// mean replaces one value of every page by their mean.
func (kv *KV) mean(pages []int32, at int) {
	sum, n := float32(0), float32(len(pages))
	for _, p := range pages {
		if i := int(p)*kv.page + at; kv.half != nil {
			sum += F16ToF32(kv.half[i])
		} else {
			sum += kv.f32[i]
		}
	}
	for _, p := range pages {
		if i := int(p)*kv.page + at; kv.half != nil {
			kv.half[i] = F32ToF16(sum / n)
		} else {
			kv.f32[i] = sum / n
		}
	}
}
