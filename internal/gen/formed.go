package gen

import (
	"strings"

	"tinyloop/internal/chat"
	"tinyloop/internal/grammar"
	"tinyloop/internal/tok"
)

// formed is the form of one answer while it grows.
type formed struct {
	reader *chat.Reader // nil = all of it is text
	walker *grammar.Walker
	marks  map[tok.ID][]byte // texts of control tokens around calls
	most   int               // calls
	ids    []tok.ID          // sampled, with a walker
	pieces []chat.Piece      // scratch
}

// hold gives every choice its form.
func (s *Stream) hold(g *Generator, f *form, walkers []*grammar.Walker) {
	for i := range s.all {
		to := &s.all[i].form
		if to.reader, to.most = f.reader(), f.most; to.reader != nil {
			to.marks = g.marks()
		}
		if walkers != nil {
			to.walker = walkers[i]
		}
	}
}

// read takes the text of an event apart.
func (f *formed) read(e *Event, end bool) {
	if f.reader == nil {
		return
	}
	f.pieces = f.reader.Feed(e.Text, f.pieces[:0])
	if end {
		f.pieces = f.reader.End(f.pieces)
	}
	var text strings.Builder
	for _, p := range f.pieces {
		if p.Call < 0 {
			text.WriteString(p.Text)
			continue
		}
		e.Calls = append(e.Calls, Call{Index: p.Call, Name: p.Name, Arguments: p.Arguments})
	}
	e.Text = text.String()
}

// complete says whether the answer is all that was asked for after one more token, so that nothing is lost by not asking the model for the end.
func (f *formed) complete(id tok.ID) bool {
	if f.walker == nil {
		return f.reader != nil && f.reader.Whole() >= f.most
	}
	f.ids = append(f.ids, id)
	return f.walker.Closed(f.ids)
}

// called says whether the answer calls functions, all of them to the end.
func (f *formed) called() bool {
	return f.reader != nil && f.reader.Calls() > 0 && f.reader.Whole() == f.reader.Calls()
}
