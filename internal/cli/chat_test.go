package cli

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"tinyloop/internal/fixture"
)

// TestChatInterruptAtPrompt: an interrupt while nothing is being answered leaves, as it does in any program that waits for a line.
func TestChatInterruptAtPrompt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		in, feed := io.Pipe()
		v := &conversation{io: &IO{In: in, Out: io.Discard, Err: io.Discard, Ctx: ctx}}
		done := make(chan error)
		go func() { done <- v.loop() }()
		io.WriteString(feed, "/help\n")
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatal("left before the interrupt: ", err)
		default:
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		feed.Close()
		synctest.Wait()
	})
}

// TestChatAfterInterrupt: a context that has ended before, by an interrupt that stopped an answer, does not end the conversation.
func TestChatAfterInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out bytes.Buffer
	c := ChatCmd{File: fixture.Path(t, "stories260K", "stories260K-f32.gguf"), Quiet: true}
	c.MaxTokens, c.TopP, c.KVDtype, c.KVMode = 5, 1, "f32", "per_loop"
	if err := c.Run(&IO{In: strings.NewReader("Once upon a time\n"), Out: &out, Err: io.Discard, Ctx: ctx}); err != nil {
		t.Fatal(err)
	}
	if len(strings.TrimSpace(out.String())) < 5 {
		t.Errorf("no answer: %q", out.String())
	}
}
