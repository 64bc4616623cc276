package serve

import (
	"math"
	"sync/atomic"
	"time"
)

// pace is the usual time of an answer once it runs: an average that forgets, one part in eight with each answer.
type pace struct{ ns atomic.Int64 }

func (p *pace) add(d time.Duration) {
	old := p.ns.Load()
	if old == 0 {
		p.ns.Store(int64(d))
		return
	}
	p.ns.Store(old + (int64(d)-old)/8) // of two at once one may be lost: it is an average
}

func (p *pace) mean() time.Duration { return time.Duration(p.ns.Load()) }

// retryAfter is in how many seconds a place is likely free again: the time of those that wait, if as many run at a time as now. 1 to 60.
func retryAfter(mean time.Duration, waiting, running int) int {
	seconds := mean.Seconds() * float64(waiting+1) / float64(max(running, 1))
	return int(math.Ceil(min(max(seconds, 1), 60)))
}

// retryAfter looks at all engines: the one that refused is among them.
func (s *Server) retryAfter() int {
	n := 1
	for _, m := range s.host.List() {
		h := m.Engine().Health()
		n = max(n, retryAfter(s.pace.mean(), h.Waiting, h.Running))
	}
	return n
}
