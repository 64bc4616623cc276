package train

import (
	"context"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
)

// samples lets weights answer the questions of the recipe, greedily and at the default depth, through the engine that serves models.
func samples(ctx context.Context, c *Config, id *identity, s *model.Spec, flat []float32, threads int) ([]Sample, error) {
	if len(c.Eval.Chat)+len(c.Eval.Continue) == 0 {
		return nil, nil
	}
	m, err := model.FromParams(s, flat)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	windows := 2 * ((s.Context+model.PagePositions-1)/model.PagePositions + 1)
	scratch, err := m.NewScratch(model.Options{Threads: threads, KVType: kernel.F32, MaxRows: 64, Context: s.Context, MaxLoops: s.Loops.Default, Pages: windows * s.Slots(s.Loops.Default)})
	if err != nil {
		return nil, err
	}
	defer scratch.Close()
	e := engine.New(scratch, engine.Config{})
	defer e.Close()
	tmpl, err := chat.Compile(id.template)
	if err != nil {
		return nil, err
	}
	info := gen.Info{Name: id.name, Vocab: s.Vocab, Context: s.Context}
	info.Loops.Default, info.Loops.HardMax = s.Loops.Default, s.Loops.Default
	g := gen.New(e, id.tok, tmpl, info, gen.Limits{})
	var out []Sample
	ask := func(prompt string, isChat bool, r *gen.Request) error {
		greedy, most := 0.0, c.Eval.Tokens
		r.Temperature, r.MaxTokens = &greedy, &most
		st, err := g.Generate(ctx, r)
		if err != nil {
			return err
		}
		defer st.Close()
		answers, err := gen.Fold(ctx, st)
		if err != nil {
			return err
		}
		out = append(out, Sample{Prompt: prompt, Chat: isChat, Text: answers[0].Text})
		return nil
	}
	for _, q := range c.Eval.Chat {
		if err := ask(q, true, &gen.Request{Messages: []chat.Message{{Role: "user", Content: q}}}); err != nil {
			return out, err
		}
	}
	for _, p := range c.Eval.Continue {
		if err := ask(p, false, &gen.Request{Prompt: &p}); err != nil {
			return out, err
		}
	}
	return out, nil
}
