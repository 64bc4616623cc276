package gen

import (
	"bytes"
	"context"
	"io"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tinyloop/internal/engine"
	"tinyloop/internal/fault"
	"tinyloop/internal/sample"
	"tinyloop/internal/tok"
)

// Stream is the answer to one request while it grows. The engine's goroutine writes into it and never waits: events pile up in memory, at
// most MaxTokens of them a choice, so a slow reader holds up nobody. Next is for one reader.
type Stream struct {
	tok      *tok.Tokenizer
	stop     *stopper
	stops    []tok.ID
	prompt   []tok.ID
	seed     uint64
	limit    int
	room     bool // the window set the limit, not the request
	echo     bool
	logprobs bool
	choices  int // reported
	warnings []string
	mode     engine.Mode
	verify   engine.Verify
	kvMode   string
	page     int64 // bytes of a KV page
	start    time.Time
	now      func() time.Time
	cancel   context.CancelFunc

	// Engine's goroutine only.
	all    []choice
	open   int
	queued time.Duration
	lead   promptEcho
	text   strings.Builder // text of events lies here; they hold substrings of it
	bytes  []byte          // scratch of one token
	byLoop []float32       // of the token to come

	mu     sync.Mutex
	events []Event
	ready  chan struct{} // one slot: something is in events, or done is set, here or in a stream that shares it
	done   bool
}

// choice is the state of one answer between two tokens.
//
//	decoded bytes   0 ─────────── sent ─────────── seen
//	                  in events         held back
type choice struct {
	dec    tok.Stream
	tail   bool    // the prompt ends within a character, and nothing has come out since
	match  []int32 // one KMP state a stop string
	held   []byte  // bytes [sent, seen): may still become a stop string
	seen   int
	sent   int
	runes  int     // code points among the bytes seen
	wait   []entry // log-probability entries whose text is not out yet
	tokens int
	first  time.Time
	last   time.Time
	sum    float64 // of log-probabilities
	stopID tok.ID
	word   int // the stop string that matched, -1 before
	form   formed
	kept   []Event
}

// entry is one token's log-probability with the span [from, to) of decoded bytes that it made; to is -1 while its last character is open.
type entry struct {
	lp       Logprob
	from, to int
}

// promptEcho is the prompt's text on its way out.
type promptEcho struct {
	dec   tok.Stream
	text  strings.Builder
	lps   []Logprob
	runes int // code points that came out
}

const textChunk = 1 << 10

func newStream(g *Generator, r *Request, p *plan, er *engine.Request, room bool, start time.Time, cancel context.CancelFunc) *Stream {
	s := &Stream{
		tok:      g.tok,
		stop:     newStopper(r.Stop),
		stops:    p.stops,
		prompt:   er.Prompt,
		seed:     p.params.Seed,
		limit:    er.MaxTokens,
		room:     room,
		echo:     r.Echo,
		logprobs: p.logprobs,
		choices:  p.keep,
		warnings: p.warnings,
		mode:     p.mode,
		verify:   p.verify,
		kvMode:   p.kvName,
		page:     g.pageBytes,
		start:    start,
		now:      g.now,
		cancel:   cancel,
		all:      make([]choice, p.choices),
		open:     p.choices,
		ready:    r.Ready,
	}
	if s.ready == nil {
		s.ready = make(chan struct{}, 1)
	}
	dec := g.tok.NewStreamAfter(er.Prompt)
	match := make([]int32, len(r.Stop)*p.choices)
	for i := range s.all {
		s.all[i] = choice{dec: dec, match: match[i*len(r.Stop) : (i+1)*len(r.Stop)], stopID: -1, word: -1, tail: dec.Pending() > 0}
	}
	s.lead.dec = g.tok.NewStream()
	return s
}

// Prompt gives the ids that the model was fed; the caller must not change them.
func (s *Stream) Prompt() []tok.ID { return s.prompt }

// Seed gives the seed in use.
func (s *Stream) Seed() uint64 { return s.seed }

// MaxTokens gives the effective limit of sampled tokens a choice.
func (s *Stream) MaxTokens() int { return s.limit }

// Warnings lists what was changed or is unusual about the request.
func (s *Stream) Warnings() []string { return s.warnings }

// Close cancels what is left of the answer. It may be called any number of times, also after the end.
func (s *Stream) Close() { s.cancel() }

// Next appends every event that is new to buf, waiting for at least one, and gives io.EOF once the Done of the last choice has been handed
// out, or ctx's error.
func (s *Stream) Next(ctx context.Context, buf []Event) ([]Event, error) {
	for {
		n := len(buf)
		buf, err := s.Take(buf)
		if len(buf) > n {
			return buf, nil // the end, if this is it, is told by the next call
		}
		if err != nil {
			return buf, err
		}
		select {
		case <-s.ready:
		case <-ctx.Done():
			return buf, ctx.Err()
		}
	}
}

// Take is Next for a reader that waits for Request.Ready itself: it gives what is new, which may be nothing, and io.EOF with the last of it.
func (s *Stream) Take(buf []Event) ([]Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	buf = append(buf, s.events...)
	clear(s.events)
	s.events = s.events[:0]
	if s.done {
		return buf, io.EOF
	}
	return buf, nil
}

// put lays an event out for the reader, who is to be woken.
func (s *Stream) put(e *Event) {
	s.mu.Lock()
	s.events = append(s.events, *e)
	s.mu.Unlock()
}

// wake tells the reader that there is something new.
func (s *Stream) wake() {
	select {
	case s.ready <- struct{}{}:
	default:
	}
}

// emit puts an event of choice i, or keeps it until the best of several are known.
func (s *Stream) emit(i int, e *Event) {
	if len(s.all) > s.choices {
		s.all[i].kept = append(s.all[i].kept, *e)
		return
	}
	s.put(e)
}

// Started implements engine.Sink.
func (s *Stream) Started() {
	s.queued = s.now().Sub(s.start)
	if s.echo && !s.logprobs {
		for i := range s.prompt {
			s.echoToken(i, nil)
		}
		s.wake()
	}
}

// PromptToken implements engine.Sink.
func (s *Stream) PromptToken(i int, c sample.Choice) {
	if !s.echo || i >= len(s.prompt) {
		return
	}
	lp := s.logprob(c)
	lp.First = i == 0
	s.echoToken(i, &lp)
	s.wake()
}

// echoToken sends one prompt token to the first choice. The others get the whole prompt at once, after its last token.
func (s *Stream) echoToken(i int, lp *Logprob) {
	last := i == len(s.prompt)-1
	whole := s.lead.dec.Pending() == 0
	s.bytes = s.lead.dec.Add(s.bytes[:0], s.prompt[i])
	if lp != nil {
		lp.At = s.lead.runes
		if whole {
			lp.Bytes = spaceless(lp.Bytes, s.bytes)
		}
	}
	if last {
		s.bytes = s.lead.dec.Flush(s.bytes)
	}
	s.lead.runes += utf8.RuneCount(s.bytes)
	e := Event{Kind: Prompt, Index: i, ID: s.prompt[i], Text: s.str(s.bytes)}
	if lp != nil {
		e.Logprobs = []Logprob{*lp}
	}
	s.emit(0, &e)
	if len(s.all) == 1 {
		return
	}
	s.lead.text.WriteString(e.Text)
	s.lead.lps = append(s.lead.lps, e.Logprobs...)
	for c := 1; last && c < len(s.all); c++ {
		s.emit(c, &Event{Kind: Prompt, Choice: c, ID: -1, Text: s.lead.text.String(), Logprobs: slices.Clone(s.lead.lps)})
	}
}

// Loops implements engine.LoopSink.
func (s *Stream) Loops(_ int, logprobs []float32) {
	s.byLoop = append(s.byLoop[:0], logprobs...)
	for i, v := range s.byLoop {
		s.byLoop[i] = floor(v)
	}
}

// Token implements engine.Sink.
func (s *Stream) Token(i int, c sample.Choice) (more bool) {
	ch := &s.all[i]
	now, gap := s.now(), time.Duration(0)
	if ch.tokens == 0 {
		ch.first = now
	} else {
		gap = now.Sub(ch.last)
	}
	ch.last = now
	ch.tokens++
	ch.sum += float64(c.Logprob)
	if slices.Contains(s.stops, c.ID) {
		ch.stopID = c.ID
		return true // the engine ends the choice itself
	}
	whole := ch.dec.Pending() == 0
	s.bytes = ch.tailless(ch.dec.Add(s.bytes[:0], c.ID))
	if ch.form.marks != nil {
		s.bytes = append(s.bytes, ch.form.marks[c.ID]...)
	}
	if s.logprobs {
		lp := s.logprob(c)
		lp.ByLoop = slices.Clone(s.byLoop)
		lp.At = s.lead.runes + ch.runes
		if whole {
			lp.Bytes = spaceless(lp.Bytes, s.bytes)
		}
		ch.await(entry{lp: lp, from: ch.seen, to: -1}, len(s.bytes))
		ch.runes += utf8.RuneCount(s.bytes)
	}
	e := Event{Kind: Delta, Choice: i, Index: ch.tokens - 1, ID: c.ID, Gap: gap}
	e.Text, e.Logprobs = s.release(ch, s.bytes, false)
	ch.form.read(&e, false)
	s.emit(i, &e)
	s.wake()
	return ch.word < 0 && !ch.form.complete(c.ID)
}

// spaceless gives a token's bytes as they came out: a SentencePiece decoder drops the space that starts a text.
func spaceless(token, text []byte) []byte {
	if len(token) == len(text)+1 && token[0] == ' ' && bytes.Equal(token[1:], text) {
		return token[1:]
	}
	return token
}

// tailless takes the mark of a broken character off the first text of an answer if it was the prompt that broke it: a prompt that ends within a
// character must not show up in the answer. Where the answer completes the character it comes out whole.
func (ch *choice) tailless(text []byte) []byte {
	if !ch.tail || len(text) == 0 {
		return text
	}
	ch.tail = false
	return bytes.TrimPrefix(text, []byte("\uFFFD"))
}

// await queues a token's entry. n bytes came out of the decoder with it: they end the spans of earlier tokens that were waiting for the rest
// of their character, and its own unless it leaves a character open itself.
func (ch *choice) await(e entry, n int) {
	to := ch.seen + n
	if n > 0 {
		ch.settle(to)
	}
	if ch.dec.Pending() == 0 {
		ch.settle(to)
		e.to = to
	}
	ch.wait = append(ch.wait, e)
}

// settle ends the open spans at to.
func (ch *choice) settle(to int) {
	for i := range ch.wait {
		if ch.wait[i].to < 0 {
			ch.wait[i].to = to
		}
	}
}

// release takes newly decoded bytes and gives the text that may go out now, with the entries it completes: everything but the longest
// tail that may become a stop string, or what stands before one that has matched, or, at the end, all.
func (s *Stream) release(ch *choice, fresh []byte, end bool) (string, []Logprob) {
	if len(s.stop.words) == 0 { // the common case: nothing is ever held
		ch.seen += len(fresh)
		ch.sent = ch.seen
		return s.str(fresh), ch.entries(ch.sent, false)
	}
	word, at := s.stop.feed(ch.match, fresh)
	if word >= 0 {
		fresh = fresh[:at]
		ch.word = word
	}
	ch.held = append(ch.held, fresh...)
	ch.seen += len(fresh)
	keep := 0
	switch {
	case word >= 0:
		keep = len(s.stop.words[word].Text)
	case !end:
		keep = held(ch.match)
	}
	out := ch.held[:len(ch.held)-keep]
	ch.sent += len(out)
	text := s.str(out)
	ch.held = ch.held[:copy(ch.held, ch.held[len(out):])]
	return text, ch.entries(ch.sent, word >= 0)
}

// entries takes the entries whose text is out. After a stop string has cut the text at sent, those that keep any of it go out as well and the
// others never will.
func (ch *choice) entries(sent int, cut bool) []Logprob {
	n := 0
	for n < len(ch.wait) && (ch.wait[n].to >= 0 && ch.wait[n].to <= sent || cut && ch.wait[n].from < sent) {
		n++
	}
	if n == 0 {
		return nil
	}
	out := make([]Logprob, n)
	for i := range out {
		out[i] = ch.wait[i].lp
	}
	ch.wait = ch.wait[:copy(ch.wait, ch.wait[n:])]
	return out
}

// str makes a string of b. Strings are cut from a builder that is replaced when full, so one allocation serves many tokens; a builder's
// string stays valid while it grows, because it only ever appends within its capacity.
func (s *Stream) str(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if s.text.Len()+len(b) > s.text.Cap() {
		s.text = strings.Builder{}
		s.text.Grow(max(textChunk, len(b)))
	}
	from := s.text.Len()
	s.text.Write(b)
	return s.text.String()[from:]
}

func (s *Stream) logprob(c sample.Choice) Logprob {
	lp := s.one(c.ID, c.Logprob)
	if len(c.Top) > 0 {
		lp.Top = make([]Logprob, len(c.Top))
		for i, a := range c.Top {
			lp.Top[i] = s.one(a.ID, a.Logprob)
		}
	}
	return lp
}

func (s *Stream) one(id tok.ID, v float32) Logprob {
	v = floor(v)
	b := slices.Clone(s.tok.Bytes(id))
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	if b == nil {
		text = s.tok.Piece(id) // a control token stands for no text; its name tells the reader what it was
	}
	return Logprob{ID: id, Text: text, Bytes: b, Logprob: v}
}

// floor keeps what has no place in JSON, NaN and -Inf, out of it.
func floor(v float32) float32 {
	if !(v >= sample.LogprobFloor) {
		return sample.LogprobFloor
	}
	return v
}

// Finish implements engine.Sink.
func (s *Stream) Finish(i int, why engine.Why, st engine.Stats) {
	ch := &s.all[i]
	s.flush(i, ch)
	e := Event{Kind: Done, Choice: i, ID: -1, Finish: s.finish(why), Stats: s.stats(ch, st)}
	switch {
	case ch.word >= 0:
		e.Finish = FinishStop
	case e.Finish == FinishError:
		e.Err = fault.As(st.Err)
	case e.Finish == FinishTimeout && ch.tokens == 0:
		e.Finish = FinishError
		e.Err = fault.New(fault.Timeout, "", "the deadline passed after %v, before any answer", e.Stats.Wall.Round(time.Millisecond))
	}
	if e.Finish == FinishStop && ch.form.called() {
		e.Finish = FinishCalls
	}
	s.emit(i, &e)
	if s.open--; s.open > 0 {
		s.wake()
		return
	}
	s.pickBest()
	s.mu.Lock()
	s.done = true
	s.mu.Unlock()
	s.wake()   // once, so that the end usually goes out together with the last event
	s.cancel() // releases the context; nothing is left to cancel
}

// flush sends what was held back: it has become neither a stop string nor a whole character, nor a call.
func (s *Stream) flush(i int, ch *choice) {
	e := Event{Kind: Flush, Choice: i, Index: ch.tokens, ID: -1}
	if ch.word < 0 {
		s.bytes = ch.tailless(ch.dec.Flush(s.bytes[:0]))
		ch.settle(ch.seen + len(s.bytes))
		e.Text, e.Logprobs = s.release(ch, s.bytes, true)
	}
	ch.form.read(&e, true)
	if e.Text != "" || e.Logprobs != nil || e.Calls != nil {
		s.emit(i, &e)
	}
}

func (s *Stream) finish(why engine.Why) Finish {
	switch why {
	case engine.Stop, engine.StopSink:
		return FinishStop
	case engine.Length:
		if s.room {
			return FinishWindow
		}
		return FinishLength
	case engine.Window:
		return FinishWindow
	case engine.Cancel:
		return FinishCancel
	case engine.Timeout:
		return FinishTimeout
	}
	return FinishError
}

func (s *Stream) stats(ch *choice, st engine.Stats) Stats {
	out := Stats{
		PromptTokens:     len(s.prompt),
		CachedTokens:     st.CachedTokens,
		CompletionTokens: ch.tokens,
		Loops:            st.Loops,
		MeanLoops:        float64(st.Loops),
		Turns:            st.Turns,
		Rows:             st.Rows,
		KVMode:           s.kvMode,
		KVBytes:          int64(st.Pages) * s.page,
		StopID:           ch.stopID,
		Seed:             s.seed,
		Queued:           s.queued,
		Prefill:          st.Prefill,
		Wall:             s.now().Sub(s.start),
		Warnings:         s.warnings,
		Mode:             modes[s.mode],
	}
	if h := st.Histogram; h != nil {
		out.Histogram, out.MeanLoops = h, mean(h)
	}
	if s.mode == engine.Auto {
		out.Chosen = modes[st.Mode]
	}
	if st.Mode != engine.Autoregressive || st.Drafted > 0 {
		out.Draft = Draft{DraftLoops: st.DraftLoops, Ahead: st.DraftAhead, Branches: st.Branches, Verify: verifies[s.verify],
			Drafted: st.Drafted, Judged: st.Judged, Accepted: st.Accepted, Rounds: st.Rounds}
	}
	if ch.word >= 0 {
		out.StopString = s.stop.words[ch.word].Text
	}
	if ch.tokens > 0 {
		out.TTFT = ch.first.Sub(s.start)
		out.Decode = ch.last.Sub(ch.first)
	}
	if out.Decode > 0 {
		out.TokensPerSecond = float64(ch.tokens-1) / out.Decode.Seconds()
	}
	return out
}

// mean is the average of a histogram's places.
func mean(h []int32) float64 {
	sum, n := 0, 0
	for i, k := range h {
		sum, n = sum+i*int(k), n+int(k)
	}
	return float64(sum) / float64(max(1, n))
}

// pickBest hands out the choices with the highest mean log-probability, best first, when more were sampled than asked for.
func (s *Stream) pickBest() {
	if len(s.all) <= s.choices {
		return
	}
	order := make([]int, len(s.all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch ma, mb := s.all[a].mean(), s.all[b].mean(); {
		case ma > mb:
			return -1
		case ma < mb:
			return 1
		}
		return 0
	})
	for rank, i := range order[:s.choices] {
		for k := range s.all[i].kept {
			e := &s.all[i].kept[k]
			e.Choice = rank
			s.put(e)
		}
	}
}

func (ch *choice) mean() float64 {
	if ch.tokens == 0 {
		return math.Inf(-1)
	}
	return ch.sum / float64(ch.tokens)
}
