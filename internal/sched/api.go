// Package sched decides what the next step computes: admission, fair shares of the step budget, page accounting, prefix index. Pure data: no clock,
// lock, goroutine or model.
package sched
