// Package tinyworld writes a corpus that needs no one's text: a small invented world, a novel's facts in our own words, and tasks whose
// answer follows from what they say, in English and French. A document depends on seed, family, split and number alone, in integer
// arithmetic, so that the same ones come out byte for byte on every machine, in any order, with any number of threads.
package tinyworld

import (
	"context"
	"io"
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
)

// World is everything that documents are made from; read-only and safe for concurrent use.
type World struct {
	people     []person
	attributes []attribute
	facts      []fact       // of the novel
	talk       []fact       // of small talk
	lands      [2][]country // in English, in French
	names      []string     // of the people
	things     []word
}

// New builds the world. It is always the same one: the seed of a corpus chooses what is said of it, not what is so.
func New() *World {
	return &World{people: settle(), attributes: attributes(), facts: parseFacts(verneText), talk: parseFacts(talkText),
		lands: [2][]country{lands(false), lands(true)}, names: strings.Fields(women + " " + men), things: words(things)}
}

// family is a kind of document.
type family struct {
	name  string
	share int  // of 1,000 bytes of the corpus' text
	text  bool // can be written as plain text
	given bool // what is given is random, so that in plain text only the answers are worth learning
	make  func(*sheet)
}

// families in the order of their shares' meaning: what is learned by heart, what is computed, what is talked about.
func families() []family {
	return []family{
		{"town", 180, true, false, town},
		{"verne", 60, true, false, verne},
		{"unknown", 80, true, false, unknown},
		{"chain", 260, true, true, chain},
		{"phop", 60, true, true, phop},
		{"arith", 140, true, true, arith},
		{"list", 60, true, true, list},
		{"chat", 100, true, false, talk},
		{"tools", 40, true, true, tools},
		{"json", 20, true, true, objects},
	}
}

// Families lists the names of the families.
func Families() []string {
	var out []string
	for _, f := range families() {
		out = append(out, f.name)
	}
	return out
}

// Share is a family's part of a mixture, in any unit.
type Share struct {
	Family string
	Weight int
}

// Options choose a corpus.
type Options struct {
	Seed  uint64
	Split data.Split // Test holds what training never sees: longer chains, other wordings, other names
	Lang  string     // en, fr, or "" for both
	Form  string     // text, chat, or "" for both
	Mix   []Share    // by bytes of text, labels and JSON apart; nil = the usual one
	Docs  int        // stop after so many documents; 0 = no limit
	Bytes int64      // stop after the document that reaches so many bytes; 0 = no limit
}

// Doc gives document number i of a family. Lang and Form bind it as in Options.
func (w *World) Doc(o *Options, familyName string, i uint64) (*data.Doc, error) {
	f, err := find(familyName)
	if err != nil {
		return nil, err
	}
	if err := o.check(); err != nil {
		return nil, err
	}
	return w.make(o, f, i), nil
}

func find(name string) (*family, error) {
	for _, f := range families() {
		if f.name == name {
			return &f, nil
		}
	}
	return nil, fault.New(fault.Invalid, "mix", "there is no family %q; there are %s", name, strings.Join(Families(), ", "))
}

func (w *World) make(o *Options, f *family, i uint64) *data.Doc {
	s := &sheet{rng: &rng{key: fold(o.Seed, foldText(f.name), uint64(o.Split), i)}, w: w, split: o.Split, lang: o.Lang}
	s.fr = s.odds(1, 2)
	s.chat = s.odds(1, 2)
	if o.Lang != "" {
		s.fr = o.Lang == "fr"
	}
	if o.Form != "" {
		s.chat = o.Form == "chat"
	}
	s.chat = s.chat || !f.text
	f.make(s)
	form := "text"
	if s.chat {
		form = "chat"
	} else if f.given {
		s.labels.Learn = data.LearnAnswers
	}
	return s.finish(f.name, form)
}

func (o *Options) check() error {
	if o.Lang != "" && o.Lang != "en" && o.Lang != "fr" {
		return fault.New(fault.Invalid, "lang", "language %q, expected en or fr", o.Lang)
	}
	if o.Form != "" && o.Form != "text" && o.Form != "chat" {
		return fault.New(fault.Invalid, "form", "form %q, expected text or chat", o.Form)
	}
	return nil
}

// Count says what has been written of a family.
type Count struct {
	Docs  int
	Text  int64 // bytes of what a model reads
	Bytes int64 // bytes of JSON
}

// Progress is called after every block of documents.
type Progress func(docs int, bytes int64)

// Write writes a corpus as JSON lines. The next document is always of the family that lies furthest behind its share, so that every
// beginning of the corpus has the mixture; threads make documents ahead, and change nothing about which come out.
func (w *World) Write(ctx context.Context, out io.Writer, o Options, threads int, progress Progress) (map[string]Count, error) {
	mix, err := o.mixture()
	if err != nil {
		return nil, err
	}
	if o.Docs <= 0 && o.Bytes <= 0 {
		return nil, fault.New(fault.Invalid, "docs", "no size: give a number of documents or of bytes")
	}
	p := &press{w: w, o: &o, lanes: mix, threads: max(1, threads)}
	return p.run(ctx, out, progress)
}

func (o *Options) mixture() ([]lane, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	mix := o.Mix
	if mix == nil {
		for _, f := range families() {
			mix = append(mix, Share{f.name, f.share})
		}
	}
	var lanes []lane
	for _, m := range mix {
		f, err := find(m.Family)
		if err != nil {
			return nil, err
		}
		if m.Weight < 0 || m.Weight > 1_000_000 {
			return nil, fault.New(fault.Invalid, "mix", "share %d of %s, expected 0 to 1,000,000", m.Weight, m.Family)
		}
		if o.Form == "text" && !f.text {
			continue
		}
		if m.Weight > 0 {
			lanes = append(lanes, lane{f: f, weight: int64(m.Weight)})
		}
	}
	if len(lanes) == 0 {
		return nil, fault.New(fault.Invalid, "mix", "the mixture is empty")
	}
	return lanes, nil
}
