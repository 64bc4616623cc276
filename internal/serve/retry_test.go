package serve

import (
	"testing"
	"time"
)

func TestRetryAfterGrowsWithTheQueue(t *testing.T) {
	last := 0
	for _, waiting := range []int{0, 8, 64, 256} {
		n := retryAfter(2*time.Second, waiting, 4)
		if n < last || n < 1 || n > 60 {
			t.Errorf("%d waiting: %d s after %d s", waiting, n, last)
		}
		last = n
	}
	if last != 60 || retryAfter(2*time.Second, 8, 4) != 5 || retryAfter(0, 1000, 0) != 1 || retryAfter(time.Hour, 0, 1) != 60 {
		t.Errorf("%d, %d", last, retryAfter(2*time.Second, 8, 4))
	}
}
