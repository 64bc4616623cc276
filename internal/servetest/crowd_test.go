package servetest

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tinyloop/internal/engine"
)

// 64 streams at once of all dialects and many loop counts; a third of the clients leave at some point. Whoever stays
// gets exactly what they get alone, and at the end nothing is held (World checks).
func TestCrowdWithDisconnects(t *testing.T) { Timed(t, crowdWithDisconnects) }

func crowdWithDisconnects(t *testing.T) {
	w := New(t, Options{Random: true, Engine: engine.Config{QueueLimit: 256, MaxSeqs: 16}})
	ts := w.Listen()
	type client struct {
		wire   *Wire
		body   string
		leaves bool
		want   string
	}
	rng := rand.New(rand.NewPCG(1, 2))
	clients := make([]client, 64)
	for i := range clients {
		d := Wires()[i%4]
		extra := map[string]any{"seed": i, "temperature": 0.9, "max_tokens": 5 + rng.IntN(30)}
		if !d.Limited {
			extra["loops"] = 1 + rng.IntN(8)
		}
		c := client{wire: d, body: d.Body(Ask{Prompt: fmt.Sprint("prompt ", i%5), Stream: true, Extra: extra}), leaves: i%3 == 2}
		c.want, _ = d.Streamed(t, w.Post(d.Path, c.body, 200).Body)
		clients[i] = c
	}
	w.Model.SetDelay(50 * time.Microsecond)
	var wg sync.WaitGroup
	for _, c := range clients {
		after := rng.IntN(400)
		wg.Go(func() {
			resp, cancel := w.Open(ts, c.wire.Path, c.body)
			if c.leaves {
				io.ReadFull(resp.Body, make([]byte, after))
				cancel()
				return
			}
			b, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("%s: %v", c.wire.Name, err)
				return
			}
			if err := framing(string(b)); err != nil {
				t.Errorf("%s: %v", c.wire.Name, err)
				return
			}
			if got, _ := c.wire.Streamed(t, string(b)); got != c.want {
				t.Errorf("%s: %q in the crowd, %q alone", c.wire.Name, got, c.want)
			}
		})
	}
	wg.Wait()
}
