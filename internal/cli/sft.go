package cli

import (
	"fmt"

	"tinyloop/internal/data"
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
	return c.run(io, train.SFT(), c.Recipe, c.From, c.Set, conversations)
}

// conversations looks for what a fine-tune is made of. Of a corpus that has only plain text, every token would be learned, which is pretraining; a mixture is meant to be one.
func conversations(io *IO, dir string) error {
	if dir == "" {
		return nil // told elsewhere
	}
	m, err := data.ReadManifest(dir)
	if err != nil {
		return err
	}
	docs := m.Splits[data.Train].Docs
	text := m.Groups["text"][data.Train].Docs
	switch {
	case text > 0 && text == docs:
		return fault.New(fault.Invalid, "data", "the corpus %s has no conversations, only plain text (%d documents): lines for a fine-tune have \"messages\", or \"prompt\" and \"completion\"; "+
			"tinyloop train --from goes on with plain text", printable(dir), text)
	case text > 0:
		fmt.Fprintf(io.Err, "tinyloop: %d of %d documents are plain text without messages: all of what they say is learned\n", text, docs)
	}
	return nil
}
