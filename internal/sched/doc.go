// Package sched decides what the next step computes: admission, fair shares of the step budget, page accounting, prefix index. Pure data: no
// clock, lock, goroutine or model.
//
// # Pages
//
// A page is PageLen positions of one slot. A sequence that runs R loops has prelude + R*core + coda slots, so one block of PageLen positions
// takes that many pages:
//
//	            block 0   block 1   block 2        a page is in exactly one of three states
//	prelude 0   [page]    [page]    [page]           free    on the free list
//	core 0.0    [page]    [page]    [page]           held    in the table of one or more sequences (refs > 0)
//	core 0.1    [page]    [page]    [page]           cached  in no table, kept by the prefix index
//	...
//	coda 0      [page]    [page]    [page]           free + held + cached == total, always
//
// # A sequence
//
//	tokens:  0 ......... Computed ......... Entered ......... len(Tokens)
//	         K/V complete         in flight          to enter
//
// These three numbers cover everything: a prompt in prefill (far apart), decoding (one apart), a preempted sequence (Computed and Entered
// back at zero, every token kept, so that it is recomputed without sampling again). A draft-and-verify schedule is tokens beyond those agreed;
// a wavefront is several rows of one sequence in flight at different loops. Neither needs another state here.
package sched
