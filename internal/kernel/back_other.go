//go:build !amd64 || purego

package kernel

func rmsRows(dst []float32, ldd int, x []float32, ldx int, gain []float32, n, rows int, eps float32, inv []float32) {
	rmsRowsGeneric(dst, ldd, x, ldx, gain, n, rows, eps, inv)
}

func rmsBackRows(dx []float32, lddx int, dgain, dy []float32, lddy int, x []float32, ldx int, gain, inv []float32, n, rows int, add bool) {
	rmsBackRowsGeneric(dx, lddx, dgain, dy, lddy, x, ldx, gain, inv, n, rows, add)
}

func swiGLUBack(dgate, dup, dy, gate, up []float32) { swiGLUBackGeneric(dgate, dup, dy, gate, up) }

func relu2Back(dx, dy, x []float32)                          { relu2BackGeneric(dx, dy, x) }
func geluBack(dx, dy, x []float32)                           { geluBackGeneric(dx, dy, x) }
func addScaled(dst, x []float32, s float32)                  { addScaledGeneric(dst, x, s) }
func addProduct(dst, a, b []float32)                         { addProductGeneric(dst, a, b) }
func lerp(dst, x []float32, t float32)                       { lerpGeneric(dst, x, t) }
func capTanh(x []float32, limit, inv float32)                { capTanhGeneric(x, limit, inv) }
func capBack(dx, y []float32, inv float32)                   { capBackGeneric(dx, y, inv) }
func softmaxBack(s, dp []float32, lse, d, f float32)         { softmaxBackGeneric(s, dp, lse, d, f) }
func scaleRowsWhole(x []float32, ld, n int, s []float32) int { return 0 }
func adamW(w, g, m, v []float32, c *[12]float32)             { adamWGeneric(w, g, m, v, c) }
func dotLanes(s *[normLanes]float32, x, y []float32)         { dotLanesGeneric(s, x, y) }
func softmaxStats(x []float32, stats *[Panel + 1]float32)    { softmaxStatsGeneric(x, stats) }
