//go:build !race

package tok_test

const raceOn = false
