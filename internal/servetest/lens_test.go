package servetest

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestLensOfOneWhoLeft: a look into the loops ends when its client leaves; one who left before it began costs the model nothing.
func TestLensOfOneWhoLeft(t *testing.T) {
	w := New(t, Options{})
	for _, left := range []bool{false, true} {
		ctx, leave := context.WithCancel(context.Background())
		if left {
			leave()
		}
		before := w.Engine.Health().Requests
		r := httptest.NewRequestWithContext(ctx, "POST", "/lens", strings.NewReader(`{"prompt":"a"}`))
		r.Host, r.Header = "localhost", map[string][]string{"Content-Type": {"application/json"}}
		a := httptest.NewRecorder()
		w.Server.Handler().ServeHTTP(a, r)
		leave()
		if ran := w.Engine.Health().Requests > before; ran == left {
			t.Errorf("left %v: the engine ran it: %v (status %d, %s)", left, ran, a.Code, a.Body)
		}
	}
}
