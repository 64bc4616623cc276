package cli

import (
	"tinyloop/internal/fault"
	"tinyloop/internal/train"
)

// SFTCmd fine-tunes a model on conversations: of those, only what the assistant says is learned, the end of its turn included.
type SFTCmd struct {
	From   string `arg:"" optional:"" help:"Run, checkpoint, or any model file to begin with. Of a run the optimizer's moments come along." type:"place" placeholder:"MODEL"`
	Recipe string `help:"Recipe (TOML) on top of the defaults of a fine-tune: one pass, learning rates 0.8 of pretraining's, falling to 0." type:"place" placeholder:"FILE"`
	RunFlags
}

// Run fine-tunes. The result is best.tinyloop in --out, with the chat template in it.
func (c *SFTCmd) Run(io *IO) error {
	if c.From == "" && !c.Resume {
		return fault.New(fault.Invalid, "model", "no model to fine-tune: name a run, a checkpoint or a model file")
	}
	return c.run(io, train.SFT(), c.Recipe, c.From, c.Set)
}
