package model

import "tinyloop/internal/nn"

// blueprint is where every weight lies in the flat array and in the packed matrices.
type blueprint struct {
	spec  Spec
	size  int
	packs int // length of the packed matrices
	mats  []nn.Mat

	embed, positions                                      nn.Mat
	embedNorm, preludeNorm, loopNorm, codaNorm, finalNorm nn.NormAt
	prelude, core, coda                                   []blockAt
	diagonal                                              nn.Diagonal
	alpha                                                 nn.Vec
	inject, readout, head                                 nn.Mat
	factors                                               nn.Vec
	heads                                                 nn.Heads
}

// blockAt is one block; halves are attention and MLP.
type blockAt struct {
	pre, post [2]nn.NormAt
	attn      nn.AttentionAt
	mlp       nn.MLPAt
}

// drafter finds the places: the list of slots says which tensor is which by the address of its field.
type drafter struct {
	b       *blueprint
	at      map[any]Param
	packLen func(n, k int) int
}

func draft(s *Spec, packLen func(n, k int) int) *blueprint {
	w := &Weights{}
	d := &drafter{b: &blueprint{spec: *s, heads: s.heads()}, at: map[any]Param{}, packLen: packLen}
	layout := s.Layout()
	for i, t := range w.Slots(s) {
		if t.Matrix != nil {
			d.at[t.Matrix] = layout[i]
		} else {
			d.at[t.Vector] = layout[i]
		}
	}
	d.whole(w)
	return d.b
}

func (d *drafter) whole(w *Weights) {
	b, s := d.b, &d.b.spec
	b.size = s.Size()
	b.embed = d.plain(&w.Embed)
	b.positions = d.plain(&w.Positions)
	b.embedNorm, b.preludeNorm, b.loopNorm = d.norm(&w.EmbedNorm), d.norm(&w.PreludeNorm), d.norm(&w.LoopNorm)
	b.codaNorm, b.finalNorm = d.norm(&w.CodaNorm), d.norm(&w.FinalNorm)
	b.prelude, b.core, b.coda = d.blocks(w.Prelude), d.blocks(w.Core), d.blocks(w.Coda)
	b.diagonal = nn.Diagonal{ALog: d.vec(&w.ALog), DtBias: d.vec(&w.DtBias)}
	b.alpha = d.vec(&w.Alpha)
	b.inject, b.readout = d.mat(&w.Inject), d.mat(&w.Readout)
	if s.TiedHead {
		b.head = d.mat(&w.Embed)
	} else {
		b.head = d.mat(&w.Head)
	}
	b.factors = d.vec(&w.RopeFactors)
}

// plain gives a matrix that no product reads.
func (d *drafter) plain(key any) nn.Mat {
	p := d.at[key]
	return nn.Mat{N: p.N, K: p.K, Off: p.Off}
}

// mat gives a matrix with its places among the packed ones.
func (d *drafter) mat(key any) nn.Mat {
	m := d.plain(key)
	if m.N == 0 {
		return m
	}
	m.NT = d.b.packs
	m.NN = m.NT + d.packLen(m.N, m.K)
	d.b.packs = m.NN + d.packLen(m.K, m.N)
	d.b.mats = append(d.b.mats, m)
	return m
}

func (d *drafter) vec(key *[]float32) nn.Vec {
	p := d.at[key]
	return nn.Vec{Off: p.Off, N: p.N}
}

func (d *drafter) dense(l *nn.Linear) nn.Dense { return nn.Dense{W: d.mat(&l.W), Bias: d.vec(&l.Bias)} }

func (d *drafter) norm(n *nn.Norm) nn.NormAt {
	at := nn.NormAt{Gain: d.vec(&n.Gain), Bias: d.vec(&n.Bias)}
	if at.Gain.N == 0 {
		return at
	}
	at.Kind, at.Eps = nn.RMS, float64(d.b.spec.Block.Eps)
	if d.b.spec.Block.Norm == LayerNorm {
		at.Kind = nn.LayerNorm
	}
	return at
}

func (d *drafter) blocks(list []BlockWeights) []blockAt {
	out := make([]blockAt, len(list))
	for i := range list {
		w, a := &list[i], &list[i].Attn
		out[i] = blockAt{
			pre:  [2]nn.NormAt{d.norm(&w.AttnNorm), d.norm(&w.MLPNorm)},
			post: [2]nn.NormAt{d.norm(&w.AttnPost), d.norm(&w.MLPPost)},
			attn: nn.AttentionAt{Q: d.dense(&a.Q), K: d.dense(&a.K), V: d.dense(&a.V), Out: d.dense(&a.Out),
				QGain: d.vec(&a.QGain), KGain: d.vec(&a.KGain), QHeadBias: d.vec(&a.QHeadBias), KHeadBias: d.vec(&a.KHeadBias)},
			mlp: nn.MLPAt{Act: d.b.spec.activation(), Gate: d.dense(&w.MLP.Gate), Up: d.dense(&w.MLP.Up), Down: d.dense(&w.MLP.Down)},
		}
	}
	return out
}
