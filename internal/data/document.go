// Package data turns people's text into batches of tokens: it reads corpora, removes exact duplicates, splits by content, encodes into
// token shards on disk, packs documents into rows without mixing them, and hands out the same batch for the same step on every machine.
//
//	files ── Read ──> Doc ── Encode ──> Tokens ── Shard ──> Pack ── Loader.Next(step) ──> Batch
//
// The formats are described byte for byte in docs/data.md.
package data

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"strings"
)

// Doc is one document of a corpus: plain text, or a conversation when Messages is not empty.
type Doc struct {
	Text     string
	Messages []Message
	Tools    json.RawMessage // JSON array in the shape of OpenAI's `tools`; nil when there are none
	Labels   *Labels         // what a generator knows about the document; nil for people's own text

	File string // where it was read, for errors and reports
	Line int    // 1-based first line
}

// Message is one turn of a conversation in the shape of OpenAI's chat API.
type Message struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a function that the assistant asks to be called.
type ToolCall struct {
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function FunctionCall `json:"function"`
}

// FunctionCall names the function; Arguments is the text of a JSON object.
type FunctionCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Labels is what a generator knows about its document, so that evaluation parses nothing.
type Labels struct {
	Family     string `json:"family"`
	Difficulty int    `json:"difficulty"`
	Lang       string `json:"lang,omitempty"`
	Form       string `json:"form,omitempty"`
	Split      string `json:"split,omitempty"` // train, valid or test; overrides the split by hash
	// Learn is "answers" where only the answers of a text are worth learning, each with the token that follows it, because what is given is random;
	// "" for all of it. In a conversation the assistant's turns are learned whatever it says.
	Learn   string   `json:"learn,omitempty"`
	Answers []Answer `json:"answers,omitempty"`
}

// LearnAnswers is the value of Labels.Learn.
const LearnAnswers = "answers"

// Answer marks the bytes [Start, End) of the document's text, or of message Message's content, that are the exact answer of a task.
type Answer struct {
	Message int `json:"message"` // index into messages; 0 in a text
	Start   int `json:"start"`
	End     int `json:"end"`
	// States are the intermediate results on the way, the answer last: after l steps of thought the best answer is States[min(l, len)-1].
	States []string `json:"states,omitempty"`
}

// IsChat says whether the document is a conversation.
func (d *Doc) IsChat() bool { return len(d.Messages) > 0 }

// Group is the label under which statistics count the document: family/difficulty, or text or chat without labels.
func (d *Doc) Group() string {
	switch {
	case d.Labels != nil && d.Labels.Family != "":
		return d.Labels.Family + "/" + itoa(d.Labels.Difficulty)
	case d.IsChat():
		return "chat"
	}
	return "text"
}

// record is a document as one JSON line.
type record struct {
	Text     *string         `json:"text,omitempty"`
	Messages []Message       `json:"messages,omitempty"`
	Tools    json.RawMessage `json:"tools,omitempty"`
	Labels   *Labels         `json:"labels,omitempty"`
}

// AppendJSON appends the document as one line of JSON, ended by a line feed: the same bytes for the same document everywhere.
func (d *Doc) AppendJSON(dst []byte) ([]byte, error) {
	r := record{Messages: d.Messages, Tools: d.Tools, Labels: d.Labels}
	if !d.IsChat() {
		r.Text = &d.Text
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(&r); err != nil {
		return dst, err
	}
	return append(dst, b.String()...), nil
}

// Hash identifies what a document says. Line endings, blanks at line ends, and blank lines around the text do not count; labels and the place it
// was read from do not either. Equal hashes are duplicates.
func (d *Doc) Hash() [32]byte {
	h := sha256.New()
	part := func(s string) { // length first, so that no two lists of parts give the same bytes
		var n [8]byte
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	if !d.IsChat() {
		part("text")
		part(normal(d.Text))
	}
	for i := range d.Messages {
		m := &d.Messages[i]
		part(m.Role)
		part(m.Name)
		part(normal(m.Content))
		for _, c := range m.ToolCalls {
			part(c.Function.Name)
			part(c.Function.Arguments)
		}
	}
	part(string(d.Tools))
	var sum [32]byte
	h.Sum(sum[:0])
	return sum
}

// normal is a text as the duplicate check sees it.
func normal(s string) string {
	if !strings.Contains(s, "\n") {
		return strings.TrimSpace(s)
	}
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n")
}

// Split is one of the three parts of a corpus.
type Split uint8

const (
	Train Split = iota
	Valid
	Test
	splits = 3
)

var splitNames = [splits]string{"train", "valid", "test"}

func (s Split) String() string { return splitNames[s] }

// parseSplit reads a split's name; "validation" is accepted as people write it.
func parseSplit(s string) (Split, bool) {
	for i, n := range splitNames {
		if s == n {
			return Split(i), true
		}
	}
	return Valid, s == "validation"
}

// Shares says how many of 10,000 documents go to validation and to test.
type Shares struct{ Valid, Test int }

// Of places a document by its hash alone: adding documents to a corpus never moves one.
func (s Shares) Of(hash [32]byte) Split {
	hi, _ := bits.Mul64(binary.BigEndian.Uint64(hash[:8]), 10_000)
	switch u := int(hi); {
	case u < s.Test:
		return Test
	case u < s.Test+s.Valid:
		return Valid
	}
	return Train
}

// splitOf honours the label of a generated document, whose test split holds what training must never see.
func (d *Doc) splitOf(s Shares, hash [32]byte) Split {
	if d.Labels != nil {
		if sp, ok := parseSplit(d.Labels.Split); ok {
			return sp
		}
	}
	return s.Of(hash)
}
