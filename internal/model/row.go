package model

// Row is the unit of work: one position of one sequence at one loop. The caller (the engine) owns it and everything it points to; the model
// only reads it, and advances Loop in Turn.
type Row struct {
	Token int32
	Pos   int32
	Loop  int32 // core passes done so far: 0 after Enter
	Depth int32 // core passes this row will make in all; fixes the coda's KV slots
	State int32 // index of the row's hidden state in the Scratch, unique among live rows, 0 <= State < MaxRows

	// Pages[slot][pos/16] is the page of the KV store that holds the position in that slot. Entries beyond what the row reads or
	// writes may be -1. Shared between the rows of a sequence.
	Pages [][]int32

	// Also are the tables of branches that go on from this position: what the row writes to Pages is written there too, because a page belongs to one
	// branch as soon as two of them write to it. Same slots as Pages.
	Also [][][]int32

	Window, Sinks int32 // 0 = full attention; else positions [0,Sinks) and (Pos-Window, Pos]
	Want          bool  // Leave computes logits for this row
	Watch         bool  // Turn notes how the state moved, see Moved
	Exit          bool  // this row is read out for good before its Depth: the coda K/V of that readout stand
}

// Runner is the three calls of the forward pass. *Model with its Scratch is one; tests have a scripted one. All calls come from the one
// goroutine that owns the model. Any admissible order of rows gives bitwise equal results: row (i, t) may run when every earlier position of its
// sequence has its loop-t K/V in the pages, or is in the same call. Rows of one sequence in a call must be in ascending position.
type Runner interface {
	Enter(rows []Row)                      // embed and prelude blocks; writes prelude K/V
	Turn(rows []Row)                       // one pass through the core for every row, each at its own loop; writes core K/V; Loop++
	Leave(rows []Row)                      // coda blocks for every row, then norm and head for rows with Want; the state stays, so a row may run on and leave again
	Logits(i int) []float32                // logits of rows[i] of the last Leave (Want only); valid until the next call
	CopyPage(dst, src int32)               // copy-on-write of a KV page
	CopyCell(dst, src int32, lane int)     // copies one position of a page
	MeanCells(pages []int32, from, to int) // positions [from, to) of every page become their mean over the pages
	Moved(i int) Motion                    // how rows[i] of the last Turn moved (Watch only)
	Limits() Limits
}

// Limits is what a scheduler must know of a Runner.
type Limits struct {
	Vocab, Context      int
	Prelude, Core, Coda int // blocks of each part = slots of each group
	Loops               Loops
	MaxRows             int  // most rows alive at a time (states)
	Pages               int  // pages of the KV store
	Gate                bool // the model has an exit gate, so that Moved tells it
}
