package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// SamplingFlags are the parameters of an answer on the command line. Absent ones take the model's defaults.
type SamplingFlags struct {
	MaxTokens     int      `help:"Most tokens to generate; -1 = until the model ends or the window is full." default:"-1"`
	Temperature   float64  `help:"0 = always the most probable token, up to 2." default:"0"`
	TopK          int      `help:"Sample among the K most probable tokens; 0 = off." default:"0"`
	TopP          float64  `help:"Sample among the most probable tokens that make up this share; 1 = off." default:"1"`
	MinP          float64  `help:"Drop tokens below this share of the most probable one; 0 = off." default:"0"`
	Seed          *uint64  `help:"Same seed, same tokens. Absent = random."`
	Loops         *int     `help:"Passes through the looped core. Absent = the model's default." placeholder:"R"`
	Mode          string   `help:"Decoding mode: ${enum}. All give the same tokens." enum:"autoregressive,speculative,tree_speculative,wavefront,auto" default:"autoregressive"`
	DraftLoops    *int     `help:"Passes before a token is guessed. Absent = by the calibration of the file, else a quarter of the loops." placeholder:"R"`
	DraftAhead    *int     `help:"Most guesses in flight a branch, up to 16." placeholder:"N"`
	KBranches     *int     `name:"k-branches" help:"Branches of tree_speculative, up to 8." placeholder:"K"`
	Verify        string   `help:"How guesses are judged: ${enum}. Only replay keeps the tokens of plain decoding." enum:"replay,rejection,typical" default:"replay"`
	Exit          string   `help:"Let positions leave the core early by this rule: ${enum}." enum:"none,gate,latent,accel,kl,entropy,argmax" default:"none"`
	ExitThreshold *float64 `help:"Threshold of --exit. Absent = the rule's default." placeholder:"X"`
	ExitMinLoops  *int     `help:"Passes that are made in any case." placeholder:"R"`
	ExitKV        string   `name:"exit-kv" help:"What later tokens see of passes left out: ${enum} (exact: they are made up for) or the deepest pass made (lossy)." enum:"complete,deepest" default:"complete"`
	CacheWindow   *int     `help:"Attend to the first few and the last W positions only (at least 16)." placeholder:"W"`
	Stop          []string `help:"End before this text (repeatable)." sep:"none" placeholder:"TEXT"`
}

func (f *SamplingFlags) fill(r *gen.Request) {
	r.MaxTokens, r.Temperature, r.TopK, r.TopP, r.MinP = &f.MaxTokens, &f.Temperature, &f.TopK, &f.TopP, &f.MinP
	r.Seed, r.Loops, r.CacheWindow, r.Stop = f.Seed, f.Loops, f.CacheWindow, f.Stop
	if f.Exit != "none" && f.Exit != "" {
		r.Exit = &gen.Exit{Rule: f.Exit, Threshold: f.ExitThreshold, MinLoops: f.ExitMinLoops, KV: f.ExitKV}
	}
	r.Mode, r.DraftLoops, r.DraftAhead, r.Branches, r.Verify = f.Mode, f.DraftLoops, f.DraftAhead, f.KBranches, f.Verify
}

// GenerateCmd prints the continuation of a prompt to standard output and nothing else.
type GenerateCmd struct {
	ModelFlag
	EngineFlags
	SamplingFlags
	Prompt     string `help:"Text to continue; empty = from the start token."`
	PromptFile string `help:"Read the text to continue from this file; - = standard input." placeholder:"FILE" xor:"prompt"`
	JSON       bool   `name:"json" help:"Print one JSON object with text, tokens and statistics instead of the text."`
}

// Run generates and prints as it goes. An interrupt ends the answer, prints what there is and fails.
func (c *GenerateCmd) Run(io *IO) error {
	prompt, err := c.prompt(io)
	if err != nil {
		return err
	}
	m, err := c.load(&c.EngineFlags, nil)
	if err != nil {
		return err
	}
	defer closeModel(m)
	r := &gen.Request{Prompt: &prompt}
	c.fill(r)
	s, err := m.Generate(io.Ctx, r)
	if err != nil {
		return err
	}
	if c.JSON {
		return c.printJSON(io, s)
	}
	return printText(io, s)
}

func (c *GenerateCmd) prompt(io_ *IO) (string, error) {
	if c.PromptFile == "" {
		return c.Prompt, nil
	}
	if c.Prompt != "" {
		return "", fault.New(fault.Invalid, "prompt", "give --prompt or --prompt-file, not both")
	}
	if c.PromptFile == "-" {
		return readPrompt(io_.Ctx, io_.In)
	}
	f, err := os.Open(c.PromptFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return readPrompt(io_.Ctx, f)
}

// maxPrompt bounds a prompt that is read, as a request's body is bounded in the server.
const maxPrompt = 8 << 20

// readPrompt reads r to its end. A reader may wait for ever, for a pipe or a person: an interrupt ends the wait, not the read.
func readPrompt(ctx context.Context, r io.Reader) (string, error) {
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		b, err := io.ReadAll(io.LimitReader(r, maxPrompt+1))
		done <- result{b, err}
	}()
	select {
	case <-ctx.Done():
		return "", fault.New(fault.Canceled, "", "interrupted while reading the prompt")
	case got := <-done:
		if len(got.text) > maxPrompt {
			return "", fault.New(fault.Invalid, "prompt-file", "the prompt is longer than %d MiB", maxPrompt>>20)
		}
		return string(got.text), got.err
	}
}

// printText streams the text of the first choice and ends it with a newline.
func printText(io_ *IO, s *gen.Stream) error {
	defer s.Close()
	var last gen.Event
	err := each(io_.Ctx, s, func(e gen.Event) error {
		last = e
		_, err := io.WriteString(io_.Out, e.Text)
		return err
	})
	if _, werr := io.WriteString(io_.Out, "\n"); err == nil {
		err = werr
	}
	if err != nil {
		return err
	}
	return outcome(last)
}

// outcome turns the last event of a choice into the command's result.
func outcome(e gen.Event) error {
	switch e.Finish {
	case gen.FinishError:
		return e.Err
	case gen.FinishCancel:
		return fault.New(fault.Canceled, "", "interrupted after %d tokens", e.Stats.CompletionTokens)
	case gen.FinishTimeout:
		return fault.New(fault.Timeout, "", "timed out after %d tokens", e.Stats.CompletionTokens)
	}
	return nil
}

// each calls f for every event of a stream, in order.
func each(ctx context.Context, s *gen.Stream, f func(gen.Event) error) error {
	var buf []gen.Event
	for {
		var err error
		// The stream ends by itself when the context does: its Done says so, and nothing that was generated is lost.
		buf, err = s.Next(context.WithoutCancel(ctx), buf[:0])
		for _, e := range buf {
			if ferr := f(e); ferr != nil {
				return ferr
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *GenerateCmd) printJSON(io *IO, s *gen.Stream) error {
	defer s.Close()
	answers, err := gen.Fold(context.WithoutCancel(io.Ctx), s)
	if err != nil {
		return err
	}
	a := answers[0]
	st := a.Stats
	out := map[string]any{
		"text": a.Text, "tokens": a.IDs, "finish_reason": finishName(a.Finish), "prompt_tokens": st.PromptTokens,
		"completion_tokens": st.CompletionTokens, "loops": st.Loops, "seed": st.Seed, "wall_ms": ms(st.Wall), "ttft_ms": ms(st.TTFT),
		"mode": st.Mode, "mean_loops": st.MeanLoops, "core_calls": st.Turns, "prefill_ms": ms(st.Prefill), "tokens_per_second": st.TokensPerSecond, "warnings": append([]string{}, st.Warnings...),
	}
	if d := st.Draft; d.Drafted > 0 {
		out["drafted"], out["accepted"], out["rounds"] = d.Drafted, d.Accepted, d.Rounds
	}
	if st.Histogram != nil {
		out["loop_histogram"] = st.Histogram[1:]
	}
	e := json.NewEncoder(io.Out)
	e.SetEscapeHTML(false)
	if err := e.Encode(out); err != nil {
		return err
	}
	return outcome(gen.Event{Finish: a.Finish, Stats: st, Err: fmt.Errorf("generation failed: %s", strings.Join(st.Warnings, "; "))})
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func finishName(f gen.Finish) string {
	switch f {
	case gen.FinishStop:
		return "stop"
	case gen.FinishLength, gen.FinishWindow:
		return "length"
	case gen.FinishTimeout:
		return "timeout"
	case gen.FinishCancel:
		return "cancel"
	}
	return "error"
}
