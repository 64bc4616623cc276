package kernel

// The portable products: the definition of every format, and what vector code is tested against.

// mulPlainGeneric multiplies rows of x by whole panels of an unquantised format.
func mulPlainGeneric(dst []float32, ldd int, x []float32, ldx, rows int, w plainPanels) {
	switch w.lay {
	case layF32:
		mulF32Generic(dst, ldd, x, ldx, rows, w.f32, w.k)
	case layF16:
		mulHalfGeneric(dst, ldd, x, ldx, rows, w.half, w.k, F16ToF32)
	default:
		mulHalfGeneric(dst, ldd, x, ldx, rows, w.half, w.k, BF16ToF32)
	}
}

// chains is the number of partial sums of one output of a product with f32 weights: term k adds to chain k mod 4, and the result is
// (s0+s1) + (s2+s3). One long sum would be twice as far from the exact value.
const chains = 4

// mulF32Generic multiplies rows of x, ldx floats apart, by whole panels: k ascends, and each step is rounded once.
func mulF32Generic(dst []float32, ldd int, x []float32, ldx, rows int, w []float32, k int) {
	for p := range len(w) / (k * Panel) {
		panel := w[p*k*Panel : (p+1)*k*Panel]
		for r := range rows {
			var s [chains][Panel]float32
			for i, v := range x[r*ldx : r*ldx+k] {
				acc, col := &s[i%chains], (*[Panel]float32)(panel[i*Panel:])
				for l, wv := range col {
					acc[l] = fma32(wv, v, acc[l])
				}
			}
			foldChains(dst[r*ldd+p*Panel:], &s)
		}
	}
}

// mulHalfGeneric is the product with 16-bit weights, widened exactly by conv: one sum over ascending k, each step rounded once.
func mulHalfGeneric(dst []float32, ldd int, x []float32, ldx, rows int, w []uint16, k int, conv func(uint16) float32) {
	for p := range len(w) / (k * Panel) {
		panel := w[p*k*Panel : (p+1)*k*Panel]
		for r := range rows {
			var acc [Panel]float32
			for i, v := range x[r*ldx : r*ldx+k] {
				col := (*[Panel]uint16)(panel[i*Panel:])
				for l, wv := range col {
					acc[l] = fma32(conv(wv), v, acc[l])
				}
			}
			copy(dst[r*ldd+p*Panel:], acc[:])
		}
	}
}

func foldChains(dst []float32, s *[chains][Panel]float32) {
	for l := range dst[:Panel] {
		dst[l] = (s[0][l] + s[1][l]) + (s[2][l] + s[3][l])
	}
}

// mulQuantGeneric multiplies quantised rows [r0, r1) by quantised panels [p0, p1): exact integer dots of a block, then, blocks ascending,
// acc += dot*(ws*as) and, with minima, acc += (min*as)*sum, every operation rounded to f32.
func mulQuantGeneric(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	if w.inSupers() {
		mulSuperGeneric(dst, ldd, a, r0, r1, w, p0, p1)
		return
	}
	per := 4 * w.wordsPerBlock()
	for p := p0; p < p1; p++ {
		for r := r0; r < r1; r++ {
			var acc [Panel]float32
			for b := range a.blocks {
				wb, ab := p*a.blocks+b, r*a.blocks+b
				m := a.sums[ab]
				dot := blockDots(w.lay, w.code[wb*per:(wb+1)*per], (*[qk]int8)(a.q[ab*qk:]), m.sum)
				addBlock(&acc, &dot, w.scales[wb*Panel:], m.scale)
				if len(w.mins) > 0 {
					addMins(&acc, w.mins[wb*Panel:], m)
				}
			}
			copy(dst[(r-r0)*ldd+(p-p0)*Panel:], acc[:])
		}
	}
}

func addBlock(acc *[Panel]float32, dot *[Panel]int32, scales []uint16, as float32) {
	for l, s := range scales[:Panel] {
		acc[l] += float32(float32(dot[l]) * float32(F16ToF32(s)*as))
	}
}

func addMins(acc *[Panel]float32, mins []uint16, a blockMeta) {
	for l, m := range mins[:Panel] {
		acc[l] += float32(float32(F16ToF32(m)*a.scale) * float32(a.sum))
	}
}

// blockDots gives the integer dots of one block of 16 rows with the activation codes a.
func blockDots(lay layout, code []int8, a *[qk]int8, sum int32) (dot [Panel]int32) {
	switch lay {
	case layQ8: // even codes lie 128 up
		for g := range 8 {
			a0, a1, a2, a3 := int32(a[4*g]), int32(a[4*g+1]), int32(a[4*g+2]), int32(a[4*g+3])
			w := (*[4 * Panel]int8)(code[g*4*Panel:])
			for l := range dot {
				dot[l] += int32(w[4*l]^-128)*a0 + int32(w[4*l+1])*a1 + int32(w[4*l+2]^-128)*a2 + int32(w[4*l+3])*a3
			}
		}
	case layQ8Min:
		return plainDots(code, a, 0)
	default:
		for g := range 4 {
			lo, hi := (*[4]int8)(a[4*g:]), (*[4]int8)(a[4*g+16:])
			w := (*[4 * Panel]int8)(code[g*4*Panel:])
			for l := range dot {
				for i := range 4 {
					v := uint8(w[4*l+i])
					dot[l] += int32(v&15)*int32(lo[i]) + int32(v>>4)*int32(hi[i])
				}
			}
		}
		if lay == layQ4 {
			for l := range dot {
				dot[l] -= 8 * sum
			}
		}
	}
	return dot
}

// plainDots gives the integer dots of one block of 16 rows with codes that are held as bytes, lift above their values.
func plainDots(code []int8, a *[qk]int8, lift int32) (dot [Panel]int32) {
	for g := range 8 {
		a0, a1, a2, a3 := int32(a[4*g]), int32(a[4*g+1]), int32(a[4*g+2]), int32(a[4*g+3])
		w := (*[4 * Panel]int8)(code[g*4*Panel:])
		off := lift * (a0 + a1 + a2 + a3)
		for l := range dot {
			dot[l] += int32(w[4*l])*a0 + int32(w[4*l+1])*a1 + int32(w[4*l+2])*a2 + int32(w[4*l+3])*a3 - off
		}
	}
	return dot
}

// mulSuperGeneric multiplies quantised rows by panels of a K layout: per block of 32, blocks ascending, the exact integer factor*dot times d*as, and, with minima,
// factor*sum times min*as, every operation rounded to f32.
func mulSuperGeneric(dst []float32, ldd int, a *quantRows, r0, r1 int, w *Matrix, p0, p1 int) {
	const per = superLen / qk
	code, halves := 4*w.wordsPerBlock(), w.halvesPerSuper()
	for p := p0; p < p1; p++ {
		for r := r0; r < r1; r++ {
			var acc [Panel]float32
			for b := range a.blocks {
				wb, ab := p*a.blocks+b, r*a.blocks+b
				m, steps, scales := a.sums[ab], (*[2 * Panel]int8)(w.steps[wb*2*Panel:]), w.scales[wb/per*halves:]
				dot := superDots(w.lay, w.code[wb*code:(wb+1)*code], steps, (*[qk]int8)(a.q[ab*qk:]))
				addBlock(&acc, &dot, scales, m.scale)
				if w.lay != layK6 {
					for l := range dot {
						dot[l] = int32(steps[Panel+l]) * m.sum
					}
					addBlock(&acc, &dot, scales[Panel:], m.scale)
				}
			}
			copy(dst[(r-r0)*ldd+(p-p0)*Panel:], acc[:])
		}
	}
}

// superDots gives factor*dot of one block of 16 rows, with a factor for each half in layK6.
func superDots(lay layout, code []int8, steps *[2 * Panel]int8, a *[qk]int8) (dot [Panel]int32) {
	if lay == layK4 {
		dot = blockDots(layQ4Min, code, a, 0)
		for l := range dot {
			dot[l] *= int32(steps[l])
		}
		return dot
	}
	lo, hi := *a, *a
	clear(lo[qk/2:])
	clear(hi[:qk/2])
	var lift int32
	if lay == layK6 {
		lift = 32
	}
	first, second := plainDots(code, &lo, lift), plainDots(code, &hi, lift)
	for l := range dot {
		s0, s1 := int32(steps[l]), int32(steps[Panel+l])
		if lay == layK8 {
			s1 = s0
		}
		dot[l] = s0*first[l] + s1*second[l]
	}
	return dot
}
