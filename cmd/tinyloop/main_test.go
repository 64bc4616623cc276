package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// The first collection sets the usual pace again; GOGC keeps its say.
func TestCollectLater(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	pace := func() uint64 {
		s := []metrics.Sample{{Name: "/gc/gogc:percent"}}
		metrics.Read(s)
		return s[0].Value.Uint64()
	}
	t.Setenv("GOGC", "100")
	collectLater()
	if p := pace(); p != 100 {
		t.Errorf("with GOGC set the pace is %d", p)
	}
	t.Setenv("GOGC", "")
	collectLater()
	if p := pace(); p != 800 {
		t.Errorf("before the first collection the pace is %d", p)
	}
	for end := time.Now().Add(10 * time.Second); pace() != 100; time.Sleep(time.Millisecond) {
		runtime.GC()
		if time.Now().After(end) {
			t.Fatalf("after a collection the pace is %d", pace())
		}
	}
}
