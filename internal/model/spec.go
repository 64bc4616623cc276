// Package model is the blueprint, the weights and the forward pass of every model TinyLoop runs. There is no per-model forward code: a model
// is a value of Spec, a loop is a program over shared blocks, and the only calls are Enter, Turn and Leave over rows.
package model

// Spec is the whole architecture of a model as plain data.
//
// A model has Prelude blocks (run once, in Enter), Core blocks (run once per loop, in Turn) and Coda blocks (run once, in Leave). A plain
// transformer is a core of all its layers with Loops fixed at 1. The zero value of every option is "off", so that a plain model says nothing of
// loops. The forward pass of one position, with Norm standing for the kind of Block.Norm:
//
//	x = Embed.Scale * embedding[token] (+ table[pos] if Learned);  x = Norm(x) if Embed.NormAfter
//	x = Prelude(x);  e = Norm(x) if PreludeNorm, else x
//	h = e (StateInput) or 0 (StateZero)
//	for t = 0 .. loops-1:
//	    h = finalNorm(h)        if LoopNormBetween and t > 0
//	    h = inject(h, e)        see Injection
//	    h = Core(h)             K/V of loop t
//	    h = loopNorm(h)         if LoopNormOwn
//	x = C h if Readout, else h
//	x = finalNorm(x) or its own norm, by CodaNorm
//	x = Coda(x)
//	logits = LogitSoftcap(LogitScale * head(finalNorm(x)))
type Spec struct {
	Family string // "llama", "nanbeige", "tinyloop", …: only for display and for writing files back

	Vocab   int // rows of the embedding and of the head
	Dim     int // width of the residual stream
	Context int // longest sequence the model was trained for

	Prelude, Core, Coda int // number of blocks of each part

	Block        Block // every block has the same shape
	Embed        Embed
	PreludeNorm  bool // a norm of its own on the prelude's output e
	Injection    Injection
	InjectMatrix bool // InjectDiagonal only: B is a matrix; off means the identity
	StateInit    StateInit
	LoopNorm     LoopNorm
	Readout      bool     // a square matrix C between the last pass and the coda (Parcae)
	CodaNorm     CodaNorm // norm between the last pass and the coda
	ExitGate     bool     // the weights carry an exit gate: sigmoid(w . h + b) after each pass (Ouro)
	Loops        Loops

	TiedHead     bool    // the head is the embedding
	LogitScale   float32 // 0 means 1
	LogitSoftcap float32 // 0 means none: c*tanh(x/c)
}

// Block is the shape of one transformer block.
type Block struct {
	Norm      Norm
	NormPlace NormPlace
	Eps       float32

	Heads, KVHeads, HeadDim int
	QKVBias, OutBias        bool
	QKNorm                  bool    // RMS norm of each query and key head, with gain, before RoPE
	QKBias                  bool    // per-head bias on q and k, after QKNorm and before RoPE (Huginn)
	AttnScale               float32 // 0 means 1/sqrt(HeadDim)
	AttnSoftcap             float32 // 0 means none
	Window                  int     // the model's own sliding window, 0 means none

	Pos       Pos
	RopeTheta float32
	RopeDim   int // rotated part of a head; 0 means HeadDim
	// RopeFactors: the weights carry a divisor of each rotation's frequency (Llama 3's long contexts).
	RopeFactors bool

	MLP     MLP
	Hidden  int // width inside the MLP
	MLPBias bool

	ResidualScale float32 // factor on each branch; 0 means 1
}

type Norm uint8

const (
	RMS Norm = iota
	LayerNorm
)

// NormPlace says where a block's norms stand.
type NormPlace uint8

const (
	PreNorm          NormPlace = iota // x + f(norm(x))
	BranchSandwich                    // x + norm2(f(norm1(x)))    (Ouro)
	ResidualSandwich                  // norm2(x + f(norm1(x)))    (Huginn)
	PostNorm                          // norm2(x + f(x))
)

type Pos uint8

const (
	RopeHalf        Pos = iota // pairs (j, j+dim/2)
	RopeInterleaved            // pairs (2j, 2j+1)
	Learned                    // a table added to the embedding
	NoPos
)

type MLP uint8

const (
	SwiGLU MLP = iota
	GELU       // tanh form, two matrices
	ReLU2      // max(0,x)^2, two matrices
	GeGLU      // as SwiGLU with GELU in its tanh form
)

// Gated says whether the layer has a third matrix.
func (m MLP) Gated() bool { return m == SwiGLU || m == GeGLU }

type Embed struct {
	Scale     float32 // factor on the token embedding; 0 means 1
	NormAfter bool    // norm after the embedding
}

// Injection says how the prelude's output e enters the state h before each core pass.
type Injection uint8

const (
	InjectNone Injection = iota
	InjectAdd            // h + e
	// InjectDiagonal is decay*h + dt*(B e) with dt = softplus(dtBias) and decay = exp(-dt*exp(aLog)), which lies in (0,1) by construction
	// (Parcae, arXiv 2604.12946). aLog and dtBias are the stored weights, one value a component.
	InjectDiagonal
	InjectConcat // W [h ; e], state first (Huginn, arXiv 2502.05171)
	InjectScaled // h + alpha*e, alpha a learned weight of each component
)

type StateInit uint8

const (
	StateInput StateInit = iota // h starts as e
	StateZero
)

// LoopNorm says what happens between core passes.
type LoopNorm uint8

const (
	LoopNormNone    LoopNorm = iota
	LoopNormBetween          // the final norm before every pass but the first (Nanbeige, Ouro); Leave applies it after the last
	LoopNormOwn              // a norm of its own after every pass, the last one included
)

// CodaNorm says what is normed between the last pass and the coda.
type CodaNorm uint8

const (
	CodaNormNone  CodaNorm = iota
	CodaNormFinal          // the final norm's weights, which so act twice (Huginn)
	CodaNormOwn            // a norm of its own
)

// Loops is the range of depth. A model without a loop has all four at 1.
type Loops struct{ Default, TrainedMin, TrainedMean, TrainedMax, HardMax int }

// Slots gives the number of KV slots of a sequence that runs the given number of loops: prelude, then core per loop, then coda.
//
//	slot of prelude block b           b
//	slot of core block b in loop t    Prelude + t*Core + b
//	slot of coda block b              Prelude + loops*Core + b
func (s *Spec) Slots(loops int) int { return s.Prelude + loops*s.Core + s.Coda }

// Step is one application of one block.
type Step struct {
	Part  Part
	Block int // index within its part
	Loop  int // core pass, 0 outside the core
	Slot  int // KV slot
}

// Program is the order in which a position passes through the blocks at a given number of loops.
func (s *Spec) Program(loops int) []Step {
	steps := make([]Step, 0, s.Slots(loops))
	add := func(p Part, n, loop int) {
		for b := range n {
			steps = append(steps, Step{p, b, loop, len(steps)})
		}
	}
	add(Prelude, s.Prelude, 0)
	for t := range loops {
		add(Core, s.Core, t)
	}
	add(Coda, s.Coda, 0)
	return steps
}

// Part is one of the three groups of blocks.
type Part uint8

const (
	Prelude Part = iota
	Core
	Coda
)

var partNames = [...]string{"prelude", "core", "coda"}

func (p Part) String() string { return partNames[p] }
