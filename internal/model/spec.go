// Package model is the blueprint, the weights and the forward pass of every model TinyLoop runs. There is no per-model forward code: a model
// is a value of Spec, a loop is a program over shared blocks, and the only calls are Enter, Turn and Leave over rows.
package model

// Spec is the whole architecture of a model as plain data.
//
// A model has Prelude blocks (run once, in Enter), Core blocks (run once per loop, in Turn) and Coda blocks (run once, in Leave). A plain
// transformer is a core of all its layers with Loops fixed at 1.
type Spec struct {
	Family string // "llama", "nanbeige", "tinyloop", …: only for display and for writing files back

	Vocab   int // rows of the embedding and of the head
	Dim     int // width of the residual stream
	Context int // longest sequence the model was trained for

	Prelude, Core, Coda int // number of blocks of each part

	Block     Block // every block has the same shape
	Embed     Embed
	Injection Injection
	StateInit StateInit
	LoopNorm  LoopNorm
	Loops     Loops

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
	QKBias                  bool    // per-head bias on q and k (Huginn)
	AttnScale               float32 // 0 means 1/sqrt(HeadDim)
	AttnSoftcap             float32 // 0 means none
	Window                  int     // the model's own sliding window, 0 means none

	Pos       Pos
	RopeTheta float32
	RopeDim   int // rotated part of a head; 0 means HeadDim

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
	PostNorm                          // norm(x + f(x))
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
)

type Embed struct {
	Scale     float32 // factor on the token embedding; 0 means 1
	NormAfter bool    // norm after the embedding
}

// Injection says how the prelude's output e enters the state h before each core pass.
type Injection uint8

const (
	InjectNone     Injection = iota
	InjectAdd                // h + e
	InjectDiagonal           // decay*h + dt*(B e); B nil means the identity (Parcae)
	InjectConcat             // W [h ; e]            (Huginn)
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
	LoopNormBetween          // the final norm after every pass but the last (Nanbeige); Leave applies it after the last
	LoopNormOwn              // a norm of its own after every pass
)

// Loops is the range of depth. A model without a loop has all four at 1.
type Loops struct{ Default, TrainedMin, TrainedMean, TrainedMax, HardMax int }

// Slots gives the number of KV slots of a sequence that runs the given number of loops: prelude, then core per loop, then coda.
//
//	slot of prelude block b           b
//	slot of core block b in loop t    Prelude + t*Core + b
//	slot of coda block b              Prelude + loops*Core + b
func (s *Spec) Slots(loops int) int { return s.Prelude + loops*s.Core + s.Coda }
