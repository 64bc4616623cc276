package tinyworld

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"tinyloop/internal/data"
)

// sheet is the document being made: what every family writes on, in plain text or as a conversation.
type sheet struct {
	*rng
	w     *World
	split data.Split
	fr    bool
	chat  bool
	lang  string // the language that was asked for, "" for any

	doc    data.Doc
	labels data.Labels
	text   strings.Builder
	notes  []string // statements that wait for the next question
}

// pick2 chooses by the document's language.
func (s *sheet) say(en, fr string) string {
	if s.fr {
		return fr
	}
	return en
}

// note states something that the next question may be about.
func (s *sheet) note(text string) {
	if s.chat {
		s.notes = append(s.notes, text)
		return
	}
	s.text.WriteString(text + "\n")
}

// system says what is asked of every answer; before the first question only.
func (s *sheet) system(text string) {
	s.doc.Messages = append(s.doc.Messages, data.Message{Role: "system", Content: text})
}

// ask puts a question.
func (s *sheet) ask(q string) {
	if !s.chat {
		s.text.WriteString(q + "\n")
		return
	}
	if len(s.notes) > 0 {
		// People write what they tell and what they ask on one line as often as not.
		between := pick(s.rng, []string{"\n", " "})
		q = strings.Join(s.notes, between) + between + q
		s.notes = nil
	}
	s.doc.Messages = append(s.doc.Messages, data.Message{Role: "user", Content: q})
}

// reply answers. key is the part of the answer that is the result, "" for all of it; states are the steps that lead to it.
func (s *sheet) reply(a, key string, states ...string) {
	at, n := 0, len(a)
	if key != "" {
		at, n = strings.LastIndex(a, key), len(key)
	}
	if at < 0 {
		panic(fmt.Sprintf("tinyworld: the answer %q does not hold %q", a, key))
	}
	if !s.chat {
		s.mark(0, s.text.Len()+at, n, states)
		s.text.WriteString(a + "\n")
		return
	}
	s.mark(len(s.doc.Messages), at, n, states)
	s.doc.Messages = append(s.doc.Messages, data.Message{Role: "assistant", Content: a})
}

func (s *sheet) turn(q, a, key string, states ...string) {
	s.ask(q)
	s.reply(a, key, states...)
}

// raw writes a line of text whose end is the answer: nothing but a blank stands between the last thing asked about and the answer.
func (s *sheet) raw(question, answer string, states ...string) {
	s.text.WriteString(question + " ")
	s.mark(0, s.text.Len(), len(answer), states)
	s.text.WriteString(answer + "\n")
}

func (s *sheet) mark(message, at, n int, states []string) {
	s.labels.Answers = append(s.labels.Answers, data.Answer{Message: message, Start: at, End: at + n, States: states})
}

func (s *sheet) level(d int) { s.labels.Difficulty = max(s.labels.Difficulty, d) }

func (s *sheet) held() bool { return s.split == data.Test }

// finish closes the document.
func (s *sheet) finish(family string, form string) *data.Doc {
	s.labels.Family, s.labels.Form, s.labels.Split = family, form, s.split.String()
	s.labels.Lang = s.say("en", "fr")
	s.doc.Labels = &s.labels
	s.doc.Text = strings.TrimSuffix(s.text.String(), "\n")
	return &s.doc
}

// upper and lower change the first letter.
func upper(s string) string { return first(s, unicode.ToUpper) }
func lower(s string) string { return first(s, unicode.ToLower) }

func first(s string, f func(rune) rune) string {
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return string(f(r)) + s[n:]
}

// an is an English noun with its article.
func an(noun string) string {
	if strings.ContainsRune("aeiou", rune(noun[0])) {
		return "an " + noun
	}
	return "a " + noun
}

// elide joins a French word ending in e (de, que, le) to what follows: d'Alice, de Marc.
func elide(word, next string) string {
	if r, _ := utf8.DecodeRuneInString(next); strings.ContainsRune("aeiouyéèêâîôûAEIOUYÉÈÊÂÎÔÛ", r) {
		return word[:len(word)-1] + "'" + next
	}
	return word + " " + next
}

// fill puts values into a template: fill("{N} is {V}.", "N", "Mia", "V", "here").
func fill(template string, kv ...string) string {
	for i := 0; i < len(kv); i += 2 {
		template = strings.ReplaceAll(template, "{"+kv[i]+"}", kv[i+1])
	}
	return template
}
