package serve

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"tinyloop/internal/gen"
	"tinyloop/internal/host"
)

// The names and types follow Prometheus' own rules: no colons, units at the end, counters end in _total.
func TestMetricsAreClean(t *testing.T) {
	m := newMetrics(host.New())
	x := &exchange{model: "m", outcome: "stop", route: "/generate", status: 200, prompt: 3, completion: 4}
	m.answered(x, "POST")
	m.generation(x, 0.5)
	m.choice("m", &gen.Stats{CompletionTokens: 4, TTFT: 1e6, Decode: 3e6}, true)
	problems, err := testutil.GatherAndLint(m.reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	if n, err := testutil.GatherAndCount(m.reg, "tinyloop_requests_total", "tinyloop_time_to_first_token_seconds"); err != nil || n != 2 {
		t.Errorf("%d series, %v", n, err)
	}
}
