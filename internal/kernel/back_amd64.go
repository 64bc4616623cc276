//go:build !purego

package kernel

// callValues bounds the values of one call of a vector kernel: assembly cannot be interrupted.
const callValues = 1 << 16

// runs calls f with the bounds of parts of n values, in eights, and gives how many f has seen; the rest is for the portable form.
func runs(n int, f func(lo, n int)) int {
	whole := vecWhole(n)
	for lo := 0; lo < whole; lo += callValues {
		f(lo, min(callValues, whole-lo))
	}
	return whole
}

// pairRuns is runs in sixteens.
func pairRuns(n int, f func(lo, n int)) int { return runs(n&^15, f) }

func rmsRows(dst []float32, ldd int, x []float32, ldx int, gain []float32, n, rows int, eps float32, inv []float32) {
	if !useAVX2 || n%normLanes != 0 {
		rmsRowsGeneric(dst, ldd, x, ldx, gain, n, rows, eps, inv)
		return
	}
	for step := max(1, callValues/n); rows > 0; rows -= step {
		rmsRowsAVX2(&dst[0], 4*ldd, &x[0], 4*ldx, &gain[0], n, min(step, rows), eps, &inv[0])
		if rows > step {
			dst, x, inv = dst[step*ldd:], x[step*ldx:], inv[step:]
		}
	}
}

func rmsBackRows(dx []float32, lddx int, dgain, dy []float32, lddy int, x []float32, ldx int, gain, inv []float32, n, rows int, add bool) {
	if !useAVX2 || n%normLanes != 0 {
		rmsBackRowsGeneric(dx, lddx, dgain, dy, lddy, x, ldx, gain, inv, n, rows, add)
		return
	}
	sum := 0
	if add {
		sum = 1
	}
	for step := max(1, callValues/n); rows > 0; rows -= step {
		rmsBackRowsAVX2(&dx[0], 4*lddx, &dgain[0], &dy[0], 4*lddy, &x[0], 4*ldx, &gain[0], &inv[0], n, min(step, rows), sum)
		if rows > step {
			dx, dy, x, inv = dx[step*lddx:], dy[step*lddy:], x[step*ldx:], inv[step:]
		}
	}
}

func relu2Back(dx, dy, x []float32) {
	n := runs(len(x), func(i, n int) { relu2BackAVX2(&dx[i], &dy[i], &x[i], n) })
	relu2BackGeneric(dx[n:], dy[n:], x[n:])
}

func geluBack(dx, dy, x []float32) {
	n := pairRuns(len(x), func(i, n int) { geluBackAVX2(&dx[i], &dy[i], &x[i], n) })
	geluBackGeneric(dx[n:], dy[n:], x[n:])
}

func swiGLUBack(dgate, dup, dy, gate, up []float32) {
	n := pairRuns(len(dy), func(i, n int) { swiGLUBackAVX2(&dgate[i], &dup[i], &dy[i], &gate[i], &up[i], n) })
	swiGLUBackGeneric(dgate[n:], dup[n:], dy[n:], gate[n:], up[n:])
}

func addScaled(dst, x []float32, s float32) {
	n := runs(len(dst), func(i, n int) { addScaledAVX2(&dst[i], &x[i], n, s) })
	addScaledGeneric(dst[n:], x[n:], s)
}

func addProduct(dst, a, b []float32) {
	n := runs(len(dst), func(i, n int) { addProductAVX2(&dst[i], &a[i], &b[i], n) })
	addProductGeneric(dst[n:], a[n:], b[n:])
}

func lerp(dst, x []float32, t float32) {
	n := runs(len(dst), func(i, n int) { lerpAVX2(&dst[i], &x[i], n, t) })
	lerpGeneric(dst[n:], x[n:], t)
}

func capTanh(x []float32, limit, inv float32) {
	n := runs(len(x), func(i, n int) { capTanhAVX2(&x[i], n, limit, inv) })
	capTanhGeneric(x[n:], limit, inv)
}

func capBack(dx, y []float32, inv float32) {
	n := runs(len(dx), func(i, n int) { capBackAVX2(&dx[i], &y[i], n, inv) })
	capBackGeneric(dx[n:], y[n:], inv)
}

func softmaxBack(s, dp []float32, lse, d, f float32) {
	n := pairRuns(len(s), func(i, n int) { softmaxBackAVX2(&s[i], &dp[i], n, lse, d, f) })
	softmaxBackGeneric(s[n:], dp[n:], lse, d, f)
}

// scaleRowsWhole does the first values of each row and says how many.
func scaleRowsWhole(x []float32, ld, n int, s []float32) int {
	whole := vecWhole(n)
	if whole > 0 {
		scaleRowsAVX2(&x[0], 4*ld, whole, len(s), &s[0])
	}
	return whole
}

func adamW(w, g, m, v []float32, c *[12]float32) {
	n := runs(len(w), func(i, n int) { adamWAVX2(&w[i], &g[i], &m[i], &v[i], n, &c[0]) })
	adamWGeneric(w[n:], g[n:], m[n:], v[n:], c)
}

func dotLanes(s *[normLanes]float32, x, y []float32) {
	whole := 0
	if useAVX2 {
		whole = len(x) &^ (normLanes - 1)
	}
	if whole > 0 {
		dotLanesAVX2(&s[0], &x[0], &y[0], whole)
	}
	dotLanesGeneric(s, x[whole:], y[whole:])
}

func softmaxStats(x []float32, stats *[Panel + 1]float32) {
	if !useAVX2 || len(x)%Panel != 0 || len(x) == 0 {
		softmaxStatsGeneric(x, stats)
		return
	}
	softmaxRowAVX2(&x[0], len(x), &stats[0])
}
