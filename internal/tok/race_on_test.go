//go:build race

package tok_test

// raceOn: under the race detector sync.Pool throws objects away at random, so allocations cannot be counted.
const raceOn = true
