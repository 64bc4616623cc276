// Package scripted is a model.Runner for tests: it needs no weights, answers at once, and is strict where the real model is silent.
//
// # What it answers
//
// Without a Script the logits are a pseudo-random function of exactly what the row could see: its token, its position, its depth, and
// the contents of every page cell visible to it, block by block and loop by loop. Two runs of a request agree only if every page, copy,
// window and loop was right.
//
// With a Script the logits come from a table of steps:
//
//	m := scripted.New(scripted.Options{Vocab: 256, Answers: []scripted.Answer{
//	    {Prompt: ids("hi"), Steps: scripted.Say(0xE2, 0x82, 0xAC, end)},                // exactly this prompt
//	    {Steps: []scripted.Step{{{ID: 7, P: 0.75}, {ID: 9, P: 0.25}}, {{ID: end, P: 1}}}}, // any other prompt
//	}})
//
// A Step is the distribution of one output position; what it leaves of the probability is spread over the other tokens, and with a sum of
// one they get minus infinity. After the last step the last one repeats. An Answer without Prompt begins at the first position that a
// sequence asks logits for: the end of its prompt. Where that is not enough (prompt log-probabilities ask for every position; one prompt
// continues another by a single token) give the Prompt, or set Options.After: then the answer begins after the last such token.
//
// # What an early readout says
//
// A row that is read out before its full depth answers with other logits. With Options.Agree its favourite is that of the full depth for that share
// of all histories, so a draft of a looped model is right with a known probability.
//
// # What it checks
//
// A page cell remembers its slot, position, token, window, depth (coda only) and the hash of the history up to it. Every Enter, Turn and
// Leave verifies, for each row and slot, that each visible earlier position is present with that history, that the row's state is its own
// and at the right loop, and that rows come in ascending order. A breach panics with a Violation and is kept in Violations.
//
// # What can go wrong on purpose
//
// SetDelay makes every call slow; Freeze blocks the next call until the returned function is called; PanicAt makes a call panic.
package scripted
