package tensorfile

import "runtime/debug"

// Guard runs fn, which may read tensor data on this goroutine only, and turns the loss of mapped pages (the file was truncated in place, or its
// disk failed) into an error instead of the end of the process. Every other panic goes on.
func (f *File) Guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer debug.SetPanicOnFault(old)
	defer func() {
		switch r := recover().(type) {
		case nil:
		case interface{ Addr() uintptr }: // what the runtime throws for a bad address
			err = f.bad(codeTruncated, "the file was cut short or its disk failed while it was read")
		default:
			panic(r)
		}
	}()
	return fn()
}
