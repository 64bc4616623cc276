package train

import "time"

// Plan is what a run is going to do, told before its first step.
type Plan struct {
	Dir        string
	Config     Config
	Params     int64 // stored
	Unrolled   int64 // applied to a token at the default depth
	Steps      int   // 0 = by time
	Rows       int   // of a step
	Context    int
	PerPass    int // steps of one pass over the corpus
	Memory     Memory
	From       int    // step that the run goes on from
	Init       string // where the weights come from
	Workers    int
	Validation bool
}

// Memory is the plan's memory in bytes, all of it but Evaluation taken before the first step.
type Memory struct {
	Weights     int64 // parameters, their average, the noisy copy, the packed form
	Gradients   int64
	Optimizer   int64
	Activations int64
	Batches     int64
	Evaluation  int64 // the model that writes samples, with its keys and values; taken at each evaluation
}

// Total adds them up.
func (m *Memory) Total() int64 {
	return m.Weights + m.Gradients + m.Optimizer + m.Activations + m.Batches + m.Evaluation
}

// StepMetrics is one line of metrics.jsonl.
type StepMetrics struct {
	Step      int       `json:"step"` // steps done, this one included
	Loss      float64   `json:"loss"` // nats a target, at the drawn loop counts
	Accuracy  float64   `json:"accuracy"`
	TraceLoss float64   `json:"trace_loss,omitempty"`
	TraceAcc  float64   `json:"trace_accuracy,omitempty"`
	Loops     float64   `json:"loops"` // mean
	MaxLoops  int       `json:"max_loops"`
	Level     int       `json:"level,omitempty"` // of the curriculum
	Passes    float64   `json:"passes"`          // over the rows of that level since it began: many mean that they are learned by heart
	LR        float64   `json:"lr"`              // factor of the schedule
	Norm      float64   `json:"grad_norm"`
	Hidden    []float64 `json:"hidden_rms,omitempty"` // of the state after each loop
	Tokens    int64     `json:"tokens"`               // positions so far
	Rate      float64   `json:"tokens_per_second"`
	Skipped   bool      `json:"skipped,omitempty"`
	Progress  float64   `json:"progress"`

	Left time.Duration `json:"-"`
}

// EvalMetrics is one evaluation.
type EvalMetrics struct {
	Step    int       `json:"step"`
	Valid   []AtLoops `json:"valid,omitempty"`
	Answers []Answers `json:"answers,omitempty"`
	Samples []Sample  `json:"samples,omitempty"`
	Best    bool      `json:"best,omitempty"` // the best so far at the default depth
	// Agreement is the calibration of the best weights, see arch.Info.
	Agreement []float32 `json:"agreement,omitempty"`
	Seconds   float64   `json:"seconds"` // since the start of the run, pauses left out
}

// Sample is a text that the model wrote.
type Sample struct {
	Prompt string `json:"prompt"`
	Chat   bool   `json:"chat,omitempty"`
	Text   string `json:"text"`
	Error  string `json:"error,omitempty"` // why there is no text
}

// View is told how a run goes, on the run's goroutine.
type View interface {
	Start(p *Plan)
	Step(m *StepMetrics)
	Eval(m *EvalMetrics)
	Note(text string)
}
