package train

import (
	"context"

	"tinyloop/internal/chat"
	"tinyloop/internal/engine"
	"tinyloop/internal/gen"
	"tinyloop/internal/kernel"
	"tinyloop/internal/model"
)

// samples lets weights answer the questions of the recipe, greedily and at the default depth, through the engine that serves models. A question that
// cannot be answered, since the window is too small for it, is a sample with an error: no reason to end a run.
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
		text, err := answer(ctx, g, c.Eval.Tokens, r)
		if ctx.Err() != nil {
			return interrupted()
		}
		s := Sample{Prompt: prompt, Chat: isChat, Text: text}
		if err != nil {
			s.Error = err.Error()
		}
		out = append(out, s)
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

// answer writes the most probable text of at most so many tokens.
func answer(ctx context.Context, g *gen.Generator, most int, r *gen.Request) (string, error) {
	greedy := 0.0
	r.Temperature, r.MaxTokens = &greedy, &most
	st, err := g.Generate(ctx, r)
	if err != nil {
		return "", err
	}
	defer st.Close()
	answers, err := gen.Fold(ctx, st)
	if err != nil {
		return "", err
	}
	return answers[0].Text, nil
}
