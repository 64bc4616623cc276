package par

import "time"

// crowd decides how many workers a Run gets, from how long worker 0 waited for the others.
//
// Of n workers with equal shares each is busy for the n-th part of what one alone would need. If worker 0 is busy for b and waits for more than (n-1)*b, the Run took longer than n*b, and
// worker 0 alone would have been sooner done: the others are not running when they are needed, because other programs hold their processors, or because waking them
// takes longer than the work. One such window may be a hiccup; after two in a row the pool runs alone for a while, then tries all workers for one window again. The time alone is
// several times what the trial cost and doubles with every trial that fails, so that under lasting load trials stay cheap, and on a machine that grows quiet all workers are back within a
// second or a few trials.
//
// A model whose weights fit the caches of all processors together but not that of one runs alone far slower than that. So the time alone is judged too: where a Run takes longer than
// in the window that led to it, it ends at once, and it takes more bad windows to begin the next.
type crowd struct {
	runs        int           // of the running window
	total, wait time.Duration // of the running window
	mean        time.Duration // of a Run in the last window that sent the others away
	strikes     int           // times alone in a row that were slower
	bad         int           // windows in a row that one worker would have finished sooner
	until       time.Time     // worker 0 runs alone until then; zero while all run
	trial       bool          // the running window is the first with all workers after a time alone
	fails       int           // trials failed in a row
}

const (
	window    = 2 * time.Millisecond  // shortest sum of Runs that is judged,
	runsMin   = 6                     // and their smallest number: a few tokens, since the Runs of one differ
	strikeMax = 5                     // 2^5 times the bad windows before the next time alone
	badInARow = 2                     // windows
	alone     = 10 * time.Millisecond // first time alone
	mostFails = 5                     // 2^5 * alone is the longest time alone of cheap trials
	trialCost = 8                     // time alone per time of a failed trial
)

// workers gives the number of workers for a Run that begins now, of n.
func (c *crowd) workers(n int, now time.Time) int {
	if c.until.IsZero() {
		return n
	}
	if now.Before(c.until) {
		return 1
	}
	c.until, c.trial = time.Time{}, true
	c.runs, c.total, c.wait = 0, 0, 0
	return n
}

// note adds a Run of n workers that took so long and of which worker 0 waited a part.
func (c *crowd) note(n int, begin time.Time, took, waited time.Duration) {
	c.runs++
	c.total += took
	c.wait += waited
	if c.total < window || c.runs < runsMin {
		return
	}
	if n == 1 {
		c.compare()
	} else {
		c.judge(n, begin.Add(took))
	}
	c.runs, c.total, c.wait = 0, 0, 0
}

// compare decides at the end of a window alone whether it was worth it.
func (c *crowd) compare() {
	if c.total/time.Duration(c.runs) <= c.mean {
		c.strikes = 0
		return
	}
	c.until, c.fails = time.Time{}, 0
	c.strikes = min(c.strikes+1, strikeMax)
}

// judge decides at the end of a window.
func (c *crowd) judge(n int, now time.Time) {
	if busy := c.total - c.wait; c.wait <= time.Duration(n-1)*busy {
		c.bad, c.fails, c.trial = 0, 0, false
		return
	}
	c.bad++
	if c.bad < badInARow<<c.strikes && !c.trial {
		return
	}
	if c.trial {
		c.fails = min(c.fails+1, mostFails)
	}
	c.mean = c.total / time.Duration(c.runs)
	c.until, c.bad, c.trial = now.Add(max(alone<<c.fails, trialCost*c.total)), 0, false
}
