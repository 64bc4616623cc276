// Package host keeps several models in one process: names, load, unload, budget.
package host

import (
	"log/slog"
	"time"

	"tinyloop/internal/arch"
)

// Options say how models are loaded.
type Options struct {
	Threads       int           // compute workers a model; 0 = one per CPU
	MaxSeqLen     int           // longest sequence; 0 = what the model was trained for
	KVType        string        // number format of keys and values: "f32" (also ""), "f16", "q8"
	KVMode        string        // sharing of K/V between loops where a request names none; see gen.ParseKVMode
	KVBudget      int64         // bytes for keys and values a model; 0 = chosen from memory
	Memory        int64         // bytes that weights, keys and values may take together; 0 = what the system says is free
	MaxLoops      int           // most loops a request may ask for; 0 = the model's own bound
	Loop          arch.Range    // layers to loop over, in a model that has no loop
	QueueLimit    int           // waiting requests; 0 = 256
	MaxSeqs       int           // choices that decode at a time; 0 = 64
	StepRows      int           // rows in flight in a step; 0 = 64
	Timeout       time.Duration // deadline of requests that name none; 0 = none
	NoPrefixCache bool          // never share keys and values between requests
	Log           *slog.Logger  // nil = silent
}
