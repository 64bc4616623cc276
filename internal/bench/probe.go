package bench

import (
	"bytes"
	"context"
	"slices"
	"time"

	"tinyloop/internal/kernel"
	"tinyloop/internal/machine"
	"tinyloop/internal/par"
)

// Machine is what the machine can do, measured here and now.
type Machine struct {
	Read     []ReadRate    `json:"read"`
	Products []ProductRate `json:"products"`
}

// ReadRate is the rate at which all threads together read a working set again and again.
type ReadRate struct {
	Threads int    `json:"threads"`
	Bytes   int64  `json:"bytes"` // working set of all threads together
	GBs     Spread `json:"gb_per_second"`
}

// ProductRate is the arithmetic rate of a many-row product whose weights lie in the cache.
type ProductRate struct {
	Threads int    `json:"threads"`
	Type    string `json:"type"`           // number format of the weights
	Gops    Spread `json:"gop_per_second"` // a multiplication and an addition are two
}

const (
	probeTime   = 15 * time.Millisecond // of one sample
	probeRounds = 5
)

// read gives the median read rate in GB/s at a working set, 0 if it was not measured.
func (m *Machine) read(threads int, bytes int64) float64 {
	for _, r := range m.Read {
		if r.Threads == threads && r.Bytes == bytes {
			return r.GBs.Median
		}
	}
	return 0
}

// largestSet is well beyond every cache.
const largestSet = 512 << 20

// probe measures the read rate at working sets from 1 MiB to the largest and at extra ones, and the rates of products.
func probe(ctx context.Context, threads []int, largest int64, extra []int64) (*Machine, error) {
	var sets []int64
	for n := int64(1 << 20); n <= largest; n *= 2 {
		sets = append(sets, n)
	}
	for _, n := range extra {
		if n >= 1<<16 && n < machine.Available()/2 {
			sets = append(sets, n)
		}
	}
	slices.Sort(sets)
	sets = slices.Compact(sets)
	mem, free, err := newRegion(int(slices.Max(sets)))
	if err != nil {
		return nil, err
	}
	defer free()
	m := &Machine{}
	for _, n := range threads {
		p := par.New(n)
		err := m.measure(ctx, p, mem, sets)
		p.Close()
		if err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *Machine) measure(ctx context.Context, p *par.Pool, mem []byte, sets []int64) error {
	for _, n := range sets {
		if ctx.Err() != nil {
			return canceled()
		}
		gbs := repeat(p, reader(mem[:n]), float64(n)/1e9)
		m.Read = append(m.Read, ReadRate{Threads: p.Size(), Bytes: n, GBs: gbs})
	}
	for _, t := range []kernel.Type{kernel.F32, kernel.F16, kernel.Q8_0, kernel.Q4_0} {
		if ctx.Err() != nil {
			return canceled()
		}
		gops, err := product(p, t)
		if err != nil {
			return err
		}
		m.Products = append(m.Products, ProductRate{Threads: p.Size(), Type: t.String(), Gops: gops})
	}
	return nil
}

// repeat gives units per second of f, which does so many.
func repeat(p *par.Pool, f func(*par.Worker), units float64) Spread {
	p.Run(f)
	var samples []float64
	for range probeRounds {
		n := 0
		begin := time.Now()
		for time.Since(begin) < probeTime {
			p.Run(f)
			n++
		}
		samples = append(samples, units*float64(n)/time.Since(begin).Seconds())
	}
	return spread(samples)
}

// reader makes every worker read its part of mem, as two streams that are far apart. Comparing two equal halves is the fastest reading that there is without
// code of our own for it: the runtime does it with the widest loads of the machine and stores nothing.
func reader(mem []byte) func(*par.Worker) {
	return func(w *par.Worker) {
		lo, hi := w.Split(len(mem) / 128)
		part := mem[lo*128 : hi*128]
		half := len(part) / 2
		if !bytes.Equal(part[:half], part[half:]) {
			panic("bench: the region is not uniform")
		}
	}
}

// touch writes every page, so that no two of them are the same zero page.
func touch(mem []byte) {
	for i := range mem {
		mem[i] = 1
	}
}

// product gives the rate of 64 rows by a matrix of 1024 by 1024 values.
func product(p *par.Pool, t kernel.Type) (Spread, error) {
	const rows, n = 64, 1024
	w, err := kernel.NewMatrix(t, n, n, make([]byte, n*n/t.Block()*t.BlockBytes()))
	if err != nil {
		return Spread{}, err
	}
	defer w.Free()
	in := kernel.NewInput(rows, n)
	for r := range rows {
		for i, x := 0, in.F32(r); i < n; i++ {
			x[i] = float32(i%17) - 8
		}
	}
	in.Prepare(w, 0, rows)
	const stride = n + 16
	out := make([]float32, rows*stride)
	f := func(wk *par.Worker) {
		lo, hi := wk.Split(w.Panels())
		kernel.MatMul(out, stride, in, rows, w, lo, hi)
	}
	return repeat(p, f, 2*rows*n*n/1e9), nil
}
