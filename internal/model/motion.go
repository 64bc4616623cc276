package model

import (
	"math"

	"tinyloop/internal/kernel"
)

// Motion is how a pass moved the state of a row, for rules that end the passes early. The state is the one that the readout sees: of a model whose
// final norm stands between the passes, the normed one.
type Motion struct {
	Change float32   // |s' - s| / |s'|: infinite after the first pass of a row that starts at zero
	Accel  float32   // |(s' - s) - (s - s before)| / |s'|; infinite after the first pass
	Gate   float32   // sigmoid(w . s' + b) of the exit gate, 0 without one (Ouro, arXiv 2510.25741)
	State  []float32 // [Dim] s', the scratch's: valid until the next Turn
}

// watch is the memory of states before a pass.
type watch struct {
	on            bool
	before, delta []float32 // [MaxRows][Dim]: state before the pass; its last change
	moved         []Motion  // by row of the last Turn
	now           []float32 // [Dim]
}

// look keeps the states of the watched rows before a pass.
func (s *Scratch) look(rows []Row) {
	s.watch.on = false
	for i := range rows {
		s.watch.on = s.watch.on || rows[i].Watch
	}
	if !s.watch.on {
		return
	}
	dim := s.m.Spec.Dim
	if s.watch.before == nil {
		s.watch.before, s.watch.delta = make([]float32, s.o.MaxRows*dim), make([]float32, s.o.MaxRows*dim)
		s.watch.moved, s.watch.now = make([]Motion, s.o.MaxRows), make([]float32, dim)
	}
	for i := range rows {
		if rows[i].Watch {
			at := int(rows[i].State) * dim
			s.seen(s.watch.before[at:at+dim], i, rows[i].Loop > 0)
		}
	}
}

// seen is the state of row i of the running call as the readout would see it.
func (s *Scratch) seen(dst []float32, i int, norm bool) {
	h := s.h.Row(i)
	if norm && s.m.Spec.LoopNorm == LoopNormBetween {
		s.m.W.FinalNorm.Apply(dst, h)
		return
	}
	copy(dst, h)
}

// measure compares the watched rows with what they were.
func (s *Scratch) measure(rows []Row) {
	dim := s.m.Spec.Dim
	for i := range rows {
		if !rows[i].Watch {
			continue
		}
		at := int(rows[i].State) * dim
		before, delta := s.watch.before[at:at+dim], s.watch.delta[at:at+dim]
		s.seen(s.watch.now, i, true)
		var size, change, accel float64
		for k, v := range s.watch.now {
			d := v - before[k]
			a := float64(d - delta[k])
			size, change, accel = size+float64(v)*float64(v), change+float64(d)*float64(d), accel+a*a
			delta[k] = d
		}
		copy(before, s.watch.now)
		m := Motion{Change: float32(math.Sqrt(change / size)), Accel: float32(math.Sqrt(accel / size)), State: before}
		if rows[i].Loop == 0 { // there was no pass before to compare with
			m.Accel = float32(math.Inf(1))
			if s.m.Spec.StateInit == StateZero {
				m.Change = m.Accel
			}
		}
		if g := s.m.W.Gate; g != nil {
			m.Gate = float32(1 / (1 + math.Exp(-float64(kernel.Dot(g, s.watch.now)+s.m.W.GateBias[0]))))
		}
		s.watch.moved[i] = m
	}
}

// Moved implements Runner.
func (s *Scratch) Moved(i int) Motion { return s.watch.moved[i] }

// CopyCell implements Runner.
func (s *Scratch) CopyCell(dst, src int32, lane int) { s.kv.CopyLane(dst, src, lane) }

// MeanCells implements Runner.
func (s *Scratch) MeanCells(pages []int32, from, to int) { s.kv.MeanLanes(pages, from, to) }
