//go:build !invariants

// Package invariants holds checks that exist only under the build tag "invariants", which every test run sets.
package invariants

// Enabled says whether the checks are compiled in.
const Enabled = false

// Check panics with the message when ok is false, under the build tag only.
func Check(ok bool, msg string) {}
