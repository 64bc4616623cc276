package openai

import (
	"strconv"
	"unicode/utf8"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

// encoder appends chunks (stream) or collects the answers and appends one body. The frames of a stream are, in this order: the role chunk of
// every choice (chat), content chunks, one final chunk per choice, the usage chunk when asked for, [DONE].
type encoder struct {
	chat, stream, usage, logprobs, echo bool

	id      string
	created int64
	choices int // per prompt
	prompts []*gen.Request
	studio  *studio // nil on OpenAI's own routes

	started *dialect.Started
	head    []byte // up to the choice's index
	tail    []byte // behind the choice
	answers []answer
	cached  []int // prompt tokens found in the cache, per prompt
	sampled int   // tokens of all choices
}

// answer is what one choice has so far. A streamed choice keeps only the base of its text offsets.
type answer struct {
	text   []byte
	calls  []gen.Call
	lp     entries
	base   int // code points of the prompt, where it is no part of the text
	finish string
	stats  []byte
}

func (e *encoder) Begin(dst []byte, s *dialect.Started) []byte {
	e.started = s
	e.answers = make([]answer, len(s.Prompts)*e.choices)
	e.cached = make([]int, len(s.Prompts))
	if e.logprobs && !e.chat && !e.echo {
		e.startOffsets()
	}
	if e.studio != nil {
		e.studio.begin(&s.Info)
	}
	e.frame()
	if !e.stream || !e.chat {
		return dst
	}
	for i := range e.answers {
		dst = append(dst, e.head...)
		dst = dialect.AppendInt(dst, i)
		dst = append(dst, `,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null`...)
		dst = append(dst, e.tail...)
	}
	return dst
}

// startOffsets counts the code points of the prompts: text offsets go on from there.
func (e *encoder) startOffsets() {
	for p, r := range e.prompts {
		n := 0
		if r.Prompt != nil {
			n = utf8.RuneCountInString(*r.Prompt)
		} else if t := e.started.Tokenizer; t != nil {
			n = utf8.RuneCount(t.Decode(nil, r.PromptIDs))
		}
		for c := range e.choices {
			e.answers[p*e.choices+c].base = n
		}
	}
}

// frame builds the parts of a chunk that never change.
func (e *encoder) frame() {
	object := "text_completion"
	switch {
	case e.chat && e.stream:
		object = "chat.completion.chunk"
	case e.chat:
		object = "chat.completion"
	}
	var h []byte
	if e.stream {
		h = append(h, "data: "...)
	}
	h = append(h, `{"id":`...)
	h = dialect.AppendString(h, e.stem()+e.id)
	h = append(h, `,"object":"`...)
	h = append(h, object...)
	h = append(h, `","created":`...)
	h = strconv.AppendInt(h, e.created, 10)
	h = append(h, `,"model":`...)
	h = dialect.AppendString(h, e.started.Model)
	h = append(h, `,"system_fingerprint":`...)
	h = dialect.AppendString(h, fingerprint(e.started.Info.Hash))
	h = append(h, `,"choices":[`...)
	e.head = append(h, `{"index":`...)
	e.tail = append(e.tail[:0], "}]"...)
	if e.stream && e.usage {
		e.tail = append(e.tail, `,"usage":null`...)
	}
	if e.stream {
		e.tail = append(e.tail, frameEnd...)
	}
}

func (e *encoder) stem() string {
	if e.chat {
		return "chatcmpl-"
	}
	return "cmpl-"
}

func fingerprint(hash string) string {
	if len(hash) > 12 {
		hash = hash[:12]
	}
	if hash == "" {
		return "fp_tinyloop"
	}
	return "fp_" + hash
}

func (e *encoder) Event(dst []byte, prompt int, ev *gen.Event) []byte {
	i := prompt*e.choices + ev.Choice
	a := &e.answers[i]
	if e.logprobs {
		e.addLogprobs(a, ev)
	}
	if !e.stream {
		a.text = append(a.text, ev.Text...)
		a.calls = gen.AddCalls(a.calls, ev.Calls)
	} else {
		if ev.Text != "" || len(ev.Logprobs) > 0 {
			dst = e.content(dst, i, a, ev)
		}
		for k := range ev.Calls {
			dst = e.callChunk(dst, i, &ev.Calls[k])
		}
	}
	if ev.Kind == gen.Done {
		dst = e.done(dst, i, prompt, a, ev)
	}
	return dst
}

func (e *encoder) addLogprobs(a *answer, ev *gen.Event) {
	if e.chat {
		for k := range ev.Logprobs {
			a.lp.addChat(&ev.Logprobs[k])
		}
		return
	}
	for k := range ev.Logprobs {
		a.lp.addLegacy(&ev.Logprobs[k], a.base)
	}
}

// content appends one chunk of text.
func (e *encoder) content(dst []byte, i int, a *answer, ev *gen.Event) []byte {
	dst = append(dst, e.head...)
	dst = dialect.AppendInt(dst, i)
	if e.chat {
		dst = append(dst, `,"delta":{"content":`...)
		dst = dialect.AppendString(dst, ev.Text)
		dst = append(dst, `},"logprobs":`...)
	} else {
		dst = append(dst, `,"text":`...)
		dst = dialect.AppendString(dst, ev.Text)
		dst = append(dst, `,"logprobs":`...)
	}
	dst = a.lp.appendTo(dst, e.chat, false)
	a.lp.reset()
	dst = append(dst, `,"finish_reason":null`...)
	return append(dst, e.tail...)
}

// callChunk appends one chunk with a part of a call: the first has its id, type and name, those behind it nothing but the next bytes of the arguments.
func (e *encoder) callChunk(dst []byte, i int, c *gen.Call) []byte {
	dst = append(dst, e.head...)
	dst = dialect.AppendInt(dst, i)
	dst = append(dst, `,"delta":{"tool_calls":[{"index":`...)
	dst = dialect.AppendInt(dst, c.Index)
	if c.Name != "" {
		dst = e.appendCall(append(dst, ','), i, c)
	} else {
		dst = append(dst, `,"function":{"arguments":`...)
		dst = append(dialect.AppendString(dst, c.Arguments), '}')
	}
	dst = append(dst, `}]},"logprobs":null,"finish_reason":null`...)
	return append(dst, e.tail...)
}

// appendCall appends the members of a call. Its id is that of the answer with the numbers of choice and call.
func (e *encoder) appendCall(dst []byte, i int, c *gen.Call) []byte {
	dst = append(dst, `"id":`...)
	dst = dialect.AppendString(dst, "call_"+e.id+"_"+strconv.Itoa(i)+"_"+strconv.Itoa(c.Index))
	dst = append(dst, `,"type":"function","function":{"name":`...)
	dst = dialect.AppendString(dst, c.Name)
	dst = append(dst, `,"arguments":`...)
	return append(dialect.AppendString(dst, c.Arguments), '}')
}

// appendMessage appends an assistant's turn. Its content is null where it only calls functions.
func (e *encoder) appendMessage(dst []byte, i int, a *answer) []byte {
	dst = append(dst, `{"role":"assistant","content":`...)
	if len(a.calls) > 0 && len(a.text) == 0 {
		dst = append(dst, "null"...)
	} else {
		dst = dialect.AppendString(dst, string(a.text))
	}
	dst = append(dst, `,"refusal":null,"annotations":[]`...)
	for k := range a.calls {
		if k == 0 {
			dst = append(dst, `,"tool_calls":[{`...)
		} else {
			dst = append(dst, `},{`...)
		}
		dst = e.appendCall(dst, i, &a.calls[k])
	}
	if len(a.calls) > 0 {
		dst = append(dst, "}]"...)
	}
	return append(dst, '}')
}

func (e *encoder) done(dst []byte, i, prompt int, a *answer, ev *gen.Event) []byte {
	a.finish = dialect.FinishReason(ev.Finish)
	e.sampled += ev.Stats.CompletionTokens
	e.cached[prompt] = max(e.cached[prompt], ev.Stats.CachedTokens)
	if e.studio != nil && (e.stream || i == 0) {
		e.studio.stats = appendStudioStats(e.studio.stats[:0], ev, &e.started.Prompts[prompt])
	}
	if !e.stream {
		a.stats = dialect.AppendStats(nil, ev, &e.started.Prompts[prompt])
		return dst
	}
	dst = append(dst, e.head...)
	dst = dialect.AppendInt(dst, i)
	if e.chat {
		dst = append(dst, `,"delta":{},"logprobs":null,"finish_reason":"`...)
	} else {
		dst = append(dst, `,"text":"","logprobs":null,"finish_reason":"`...)
	}
	dst = append(dst, a.finish...)
	dst = append(dst, `","stats":`...)
	dst = dialect.AppendStats(dst, ev, &e.started.Prompts[prompt])
	if e.studio == nil {
		return append(dst, e.tail...)
	}
	dst = append(dst, e.tail[:len(e.tail)-len(frameEnd)]...)
	return append(e.studio.appendTo(dst, e.studio.stats), frameEnd...)
}

// frameEnd closes the object of a chunk, and its frame.
const frameEnd = "}\n\n"

func (e *encoder) End(dst []byte) []byte {
	if !e.stream {
		return e.whole(dst)
	}
	if e.usage {
		dst = append(dst, e.head[:len(e.head)-len(`{"index":`)]...)
		dst = append(dst, `],"usage":`...)
		dst = append(e.appendUsage(dst), "}\n\n"...)
	}
	return append(dst, "data: [DONE]\n\n"...)
}

// whole appends the body of an answer that is not streamed.
func (e *encoder) whole(dst []byte) []byte {
	dst = append(dst, e.head[:len(e.head)-len(`{"index":`)]...)
	for i := range e.answers {
		a := &e.answers[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"index":`...)
		dst = dialect.AppendInt(dst, i)
		if e.chat {
			dst = e.appendMessage(append(dst, `,"message":`...), i, a)
			dst = append(dst, `,"logprobs":`...)
		} else {
			dst = append(dst, `,"text":`...)
			dst = dialect.AppendString(dst, string(a.text))
			dst = append(dst, `,"logprobs":`...)
		}
		dst = a.lp.appendTo(dst, e.chat, e.logprobs)
		dst = append(dst, `,"finish_reason":"`...)
		dst = append(dst, a.finish...)
		dst = append(dst, `","stats":`...)
		dst = append(append(dst, a.stats...), '}')
	}
	dst = append(dst, `],"usage":`...)
	dst = e.appendUsage(dst)
	if e.studio != nil {
		dst = e.studio.appendTo(dst, e.studio.stats)
	}
	return append(dst, '}')
}

// appendUsage counts every prompt once and the tokens of all its choices, the ending tokens included.
func (e *encoder) appendUsage(dst []byte) []byte {
	prompt, cached := 0, 0
	for p := range e.started.Prompts {
		prompt += len(e.started.Prompts[p].IDs)
		cached += e.cached[p]
	}
	dst = append(dst, `{"prompt_tokens":`...)
	dst = dialect.AppendInt(dst, prompt)
	dst = append(dst, `,"completion_tokens":`...)
	dst = dialect.AppendInt(dst, e.sampled)
	dst = append(dst, `,"total_tokens":`...)
	dst = dialect.AppendInt(dst, prompt+e.sampled)
	dst = append(dst, `,"prompt_tokens_details":{"cached_tokens":`...)
	dst = dialect.AppendInt(dst, cached)
	return append(dst, `,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"audio_tokens":0,`+
		`"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`...)
}

// Fail appends the error frame. It has no event: line, since a client that only reads data: lines would miss the error behind one.
func (e *encoder) Fail(dst []byte, err *fault.Error) []byte {
	dst = append(dst, "data: "...)
	dst = appendError(dst, nil, 0, err)
	return append(dst, "\n\ndata: [DONE]\n\n"...)
}
