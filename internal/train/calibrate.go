package train

import (
	"tinyloop/internal/data"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
	"tinyloop/internal/tensorfile"
	"tinyloop/internal/tok"
)

// keyAgreement is where a model file states its calibration, see arch.Info.
const keyAgreement = "tinyloop.calibration.agreement"

// calibrated is the most positions that a calibration looks at.
const calibrated = 1024

// calibration gives, for each depth up to the default one, the share of validation positions whose most probable token is that of the default depth:
// what an early exit would cost. It runs the weights as they will be served. nil for a model without loops or a corpus without validation.
func calibration(s *model.Spec, flat []float32, rows *data.Loader, threads int) ([]float32, error) {
	depth := s.Loops.Default
	if depth < 2 || rows == nil {
		return nil, nil
	}
	m, err := model.FromParams(s, flat)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	r, err := newReader(m, threads)
	if err != nil {
		return nil, err
	}
	defer r.s.Close()
	same, all := make([]int, depth), 0
	var b data.Batch
	var want, got []int32
	for step := 0; step < rows.Steps() && all < calibrated; step++ {
		if err := rows.Next(uint64(step), &b); err != nil {
			return nil, err
		}
		for lo, hi := 0, 0; lo < len(b.Input) && all < calibrated; lo = hi {
			for hi = lo + 1; hi < len(b.Input) && hi%b.T != 0 && b.Start[hi] == b.Start[lo]; hi++ {
			}
			if hi-lo < 2 {
				continue // padding
			}
			want = r.read(want[:0], b.Input[lo:hi], depth)
			all += len(want)
			same[depth-1] += len(want)
			for d := 1; d < depth; d++ {
				got = r.read(got[:0], b.Input[lo:hi], d)
				for i := range got {
					if got[i] == want[i] {
						same[d-1]++
					}
				}
			}
		}
	}
	if all == 0 {
		return nil, nil
	}
	out := make([]float32, depth)
	for i, n := range same {
		out[i] = float32(n) / float32(all)
	}
	return out, nil
}

// reader runs whole sequences, one after the other.
type reader struct {
	s     *model.Scratch
	spec  *model.Spec
	pages [][]int32 // of every slot, the same for each sequence
	rows  []model.Row
}

const readerRows = 64

func newReader(m *model.Model, threads int) (*reader, error) {
	r := &reader{spec: &m.Spec, rows: make([]model.Row, readerRows)}
	depth := m.Spec.Loops.Default
	n := (m.Spec.Context + model.PagePositions - 1) / model.PagePositions
	for slot := range m.Spec.Slots(depth) {
		list := make([]int32, n)
		for i := range list {
			list[i] = int32(slot*n + i)
		}
		r.pages = append(r.pages, list)
	}
	var err error
	r.s, err = m.NewScratch(model.Options{Threads: threads, KVType: kernel.F32, MaxRows: readerRows, Context: m.Spec.Context, MaxLoops: depth, Pages: n * len(r.pages)})
	return r, err
}

// read appends the most probable token after each position.
func (r *reader) read(dst []int32, ids []tok.ID, depth int) []int32 {
	for lo := 0; lo < len(ids); lo += readerRows {
		rows := r.rows[:min(readerRows, len(ids)-lo)]
		for i := range rows {
			rows[i] = model.Row{Token: ids[lo+i], Pos: int32(lo + i), Depth: int32(depth), State: int32(i), Pages: r.pages, Want: true}
		}
		r.s.Enter(rows)
		for range depth {
			r.s.Turn(rows)
		}
		r.s.Leave(rows)
		for i := range rows {
			dst = append(dst, greatest(r.s.Logits(i)))
		}
	}
	return dst
}

// greatest gives the index of the largest value, the first of equals.
func greatest(x []float32) int32 {
	at := 0
	for i, v := range x {
		if v > x[at] {
			at = i
		}
	}
	return int32(at)
}

// agreementKeys is a calibration as metadata.
func agreementKeys(a []float32) []tensorfile.KV {
	if a == nil {
		return nil
	}
	return []tensorfile.KV{{Key: keyAgreement, Value: a}}
}
