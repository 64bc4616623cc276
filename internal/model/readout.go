package model

import "tinyloop/internal/nn"

// readout measures the loss of one state: readout matrix, coda norm, coda, final norm, head, cross entropy. Only the rows of the micro-batch that hold a
// goal pass through the coda, and only the positions with a goal through the head.
type readout[F nn.Float] struct {
	chunk int // positions that pass through the head together

	x, r, f        []F // [rows][Dim] gathered state; after the readout matrix; input of the final norm
	df             []F // [rows][Dim] gradient of the latter, then of the state
	codaNorm       nn.NormTrace[F]
	in, din        []F // [chunk][Dim] input of the head
	logits, capped []F // [chunk][Vocab]; [Vocab] under a soft cap
	final          nn.NormTrace[F]
	goals          []goal
	seqs, seqAt    []int32 // rows with a goal; the place of each row among them, -1 = none
	start          []int32
	sight          nn.Sight[F]
	shape          nn.LogitShape
}

// goal is one position with what it should say.
type goal struct {
	nn.Goal
	pos  int32
	kind int32 // >= 0 extra readout, else
}

const (
	goalLast  = -1
	goalTrace = -2
)

// mostLogits bounds the memory of a chunk of logits, in floats.
const mostLogits = 1 << 20

func (o *readout[F]) plan(t *tape[F], a *arena[F]) {
	sp, rows := t.sp, t.sh.Rows*t.sh.T
	o.chunk = min(rows, 256, max(16, mostLogits/sp.Vocab))
	if sp.Readout || sp.CodaNorm != CodaNormNone {
		o.x = a.floats(rows * sp.Dim)
	}
	if sp.Readout && sp.CodaNorm != CodaNormNone {
		o.r = a.floats(rows * sp.Dim)
	}
	o.f, o.df = a.floats(rows*sp.Dim), a.floats(rows*sp.Dim)
	o.codaNorm = t.normTrace(a, t.b.finalNorm, rows)
	o.in, o.din = a.floats(o.chunk*sp.Dim), a.floats(o.chunk*sp.Dim)
	o.logits = a.floats(o.chunk * sp.Vocab)
	if sp.LogitSoftcap != 0 {
		o.capped = a.floats(sp.Vocab)
	}
	o.final = t.normTrace(a, t.b.finalNorm, o.chunk)
	o.goals = make([]goal, 0, rows)
	o.seqs, o.seqAt, o.start = make([]int32, 0, t.sh.Rows), make([]int32, t.sh.Rows), make([]int32, rows)
	o.sight, o.shape = t.sight, nn.LogitShape{Scale: sp.LogitScale, Cap: sp.LogitSoftcap}
}

func (o *readout[F]) begin(t *tape[F]) { o.sight.T = t.pass.T }

// readAt measures what is asked of the state h after l loops. With gradients in the pass those of the weights are added to, and, if dh is not nil, that
// of h to dh.
func (t *tape[F]) readAt(l int, h, dh []F) {
	o := &t.read
	t.collect(l)
	if len(o.goals) == 0 {
		return
	}
	t.gather()
	rows := o.sight.Rows * o.sight.T
	t.readForward(h)
	back := t.w.Grad != nil
	if back {
		clear(o.df[:rows*t.sp.Dim])
	}
	for lo := 0; lo < len(o.goals); lo += o.chunk {
		t.headChunk(o.goals[lo:min(lo+o.chunk, len(o.goals))], back)
	}
	if back {
		t.readBack(dh)
	}
}

// collect lists the goals after l loops.
func (t *tape[F]) collect(l int) {
	o, p := &t.read, t.pass
	o.goals = o.goals[:0]
	if l == p.Loops {
		t.targets(goalLast, 1)
		return
	}
	for i, x := range p.Extra {
		if x.Loops == l {
			t.targets(int32(i), x.Weight)
		}
	}
	if p.TraceWeight == 0 {
		return
	}
	for _, x := range p.Traces {
		if int(x.Step) == l {
			o.goals = append(o.goals, goal{nn.Goal{ID: x.ID, Weight: p.TraceWeight, Z: p.ZLoss}, x.Pos, goalTrace})
		}
	}
}

func (t *tape[F]) targets(kind int32, weight float32) {
	o := &t.read
	for i, id := range t.pass.Target {
		if id >= 0 {
			o.goals = append(o.goals, goal{nn.Goal{ID: id, Weight: weight, Z: t.pass.ZLoss}, int32(i), kind})
		}
	}
}

// gather lists the rows with a goal and what they see.
func (t *tape[F]) gather() {
	o, n := &t.read, t.pass.T
	for r := range o.seqAt {
		o.seqAt[r] = -1
	}
	for i := range o.goals {
		o.seqAt[int(o.goals[i].pos)/n] = 0
	}
	o.seqs = o.seqs[:0]
	for r, at := range o.seqAt {
		if at < 0 {
			continue
		}
		o.seqAt[r] = int32(len(o.seqs))
		if t.pass.Start != nil {
			copy(o.start[len(o.seqs)*n:], t.pass.Start[r*n:(r+1)*n])
		}
		o.seqs = append(o.seqs, int32(r))
	}
	o.sight.Rows, o.sight.T, o.sight.Start = len(o.seqs), n, nil
	if t.pass.Start != nil {
		o.sight.Start = o.start[:len(o.seqs)*n]
	}
}

// at gives the place of a position among the gathered ones.
func (o *readout[F]) at(pos int32) int {
	return int(o.seqAt[int(pos)/o.sight.T])*o.sight.T + int(pos)%o.sight.T
}

func (t *tape[F]) readForward(h []F) {
	o, d := &t.read, t.sp.Dim
	rows, wide := o.sight.Rows*o.sight.T, o.sight.T*d
	end := entry(t.coda, o.f)
	x := o.x
	if x == nil {
		x = end
	}
	for i, r := range o.seqs {
		copy(x[i*wide:(i+1)*wide], h[int(r)*wide:])
	}
	if t.sp.Readout {
		y := o.r
		if y == nil {
			y = end
		}
		t.w.Mul(t.b.readout, y, d, x, d, rows, false)
		x = y
	}
	if n := t.codaNorm(); n != nil {
		t.w.Norm(n, &o.codaNorm, end, x, rows)
	}
	t.blocks(t.b.coda, t.coda, o.f, &o.sight)
}

// codaNorm gives the norm before the coda, nil for none.
func (t *tape[F]) codaNorm() *nn.NormAt {
	switch t.sp.CodaNorm {
	case CodaNormFinal:
		return &t.b.finalNorm
	case CodaNormOwn:
		return &t.b.codaNorm
	}
	return nil
}

func (t *tape[F]) readBack(dh []F) {
	o, d := &t.read, t.sp.Dim
	rows, wide := o.sight.Rows*o.sight.T, o.sight.T*d
	dx := o.df
	t.blocksBack(t.b.coda, t.coda, dx, &o.sight)
	if n := t.codaNorm(); n != nil {
		x := o.x
		if t.sp.Readout {
			x = o.r
		}
		t.w.NormBack(n, &o.codaNorm, dx, dx, x, rows, false)
	}
	if t.sp.Readout {
		t.w.MatGrad(t.b.readout, dx, d, o.x, d, rows)
		t.w.MulBack(t.b.readout, t.dn, d, dx, d, rows, false)
		dx = t.dn
	}
	if dh == nil {
		return
	}
	for i, r := range o.seqs {
		to := dh[int(r)*wide : (int(r)+1)*wide]
		t.w.Add(to, to, dx[i*wide:])
	}
}

// headChunk takes some goals through final norm, head and loss, and with back returns their gradient to df.
func (t *tape[F]) headChunk(goals []goal, back bool) {
	o, d, v := &t.read, t.sp.Dim, t.sp.Vocab
	for i := range goals {
		at := o.at(goals[i].pos)
		one := row(&o.final, i)
		t.w.Norm(&t.b.finalNorm, &one, o.in[i*d:], o.f[at*d:], 1)
	}
	t.w.Mul(t.b.head, o.logits, v, o.in, d, len(goals), false)
	for i := range goals {
		x := o.logits[i*v : (i+1)*v]
		t.count(&goals[i], t.w.Loss(x, o.shape, goals[i].Goal, t.pass.Scale, o.capped))
	}
	if !back {
		return
	}
	t.w.MatGrad(t.b.head, o.logits, v, o.in, d, len(goals))
	t.w.MulBack(t.b.head, o.din, d, o.logits, v, len(goals), false)
	for i := range goals {
		at := o.at(goals[i].pos)
		one := row(&o.final, i)
		t.w.NormBack(&t.b.finalNorm, &one, o.df[at*d:], o.din[i*d:], o.f[at*d:], 1, true)
	}
}

// row is the trace of one row.
func row[F nn.Float](t *nn.NormTrace[F], i int) nn.NormTrace[F] {
	if t.Inv == nil {
		return *t
	}
	return nn.NormTrace[F]{Inv: t.Inv[i : i+1]}
}

func (t *tape[F]) count(g *goal, l nn.Loss) {
	t.res.Objective += float64(t.pass.Scale) * float64(g.Weight) * (l.Nats + float64(g.Z)*l.LogSum*l.LogSum)
	correct := 0
	if l.Correct {
		correct = 1
	}
	switch g.kind {
	case goalLast:
		t.res.Loss += l.Nats
		t.res.Targets++
		t.res.Correct += correct
	case goalTrace:
		t.res.TraceLoss += l.Nats
		t.res.Traces++
		t.res.TraceCorrect += correct
	default:
		t.res.ExtraLoss[g.kind] += l.Nats
	}
}
