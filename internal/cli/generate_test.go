package cli

import (
	"context"
	"io"
	"strings"
	"testing"

	"tinyloop/internal/fault"
)

// endless gives the letter a for ever.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'a'
	}
	return len(p), nil
}

func TestReadPrompt(t *testing.T) {
	if got, err := readPrompt(t.Context(), strings.NewReader("Once\n")); got != "Once\n" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	if got, err := readPrompt(t.Context(), io.LimitReader(endless{}, maxPrompt)); len(got) != maxPrompt || err != nil {
		t.Errorf("the longest prompt: %d bytes, %v", len(got), err)
	}
	if _, err := readPrompt(t.Context(), endless{}); fault.Of(err) != fault.Invalid {
		t.Errorf("an endless prompt: %v", err)
	}
	waiting, w := io.Pipe()
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := readPrompt(ctx, waiting); fault.Of(err) != fault.Canceled {
		t.Errorf("an interrupt while nothing comes: %v", err)
	}
}
