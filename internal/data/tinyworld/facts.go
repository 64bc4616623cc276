package tinyworld

import (
	"fmt"
	"strings"
)

// fact is something that is asked in several ways in each language and has one answer in each.
type fact struct{ en, fr wording }

// wording is one language's side of a fact. held are the questions that training never shows.
type wording struct {
	ask, held   []string
	answer, key string
}

// parseFacts reads blocks of four lines, blocks set apart by a blank line:
//
//	fr: question | question || question kept for the test split
//	= answer, with {the result} in braces where it is not all of it
//	en: …
//	= …
//
// A question @Name stands for the usual ways of asking who someone is.
func parseFacts(text string) []fact {
	var out []fact
	for block := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		l := strings.Split(strings.TrimSpace(block), "\n")
		if len(l) != 4 || !strings.HasPrefix(l[0], "fr: ") || !strings.HasPrefix(l[2], "en: ") {
			panic(fmt.Sprintf("tinyworld: a block of facts that is none: %q", block))
		}
		out = append(out, fact{fr: parseWording(l[0][4:], l[1], whoFr), en: parseWording(l[2][4:], l[3], whoEn)})
	}
	return out
}

const (
	whoFr = "Qui est {X} ? | C'est qui, {X} ? | Parle-moi {de} {X}. | Tu connais {X} ? | Qui est {X} dans le roman ? | Sais-tu qui est {X} ? | Dis-moi qui est {X}. | Mais qui est {X} ? | " +
		"J'aimerais savoir qui est {X}. | Explique-moi qui est {X}. | Que peux-tu dire {de} {X} ? | Que sait-on {de} {X} ? | " +
		"Qui peut bien être {X} ? | C'est qui {X} ? | {X} ? | {X}, c'est qui ? | {X}, qui est-ce ? | Qui est ce {X} ? | Et {X}, qui est-ce ? | Pourrais-tu me dire qui est {X} ? | Que sais-tu au sujet {de} {X} ? | Dis-moi donc qui est {X}. || Peux-tu me dire qui est {X} ? | Qui donc est {X} ?"
	whoEn = "Who is {X}? | Tell me about {X}. | Do you know {X}? | Who is {X} in the novel? | Do you know who {X} is? | Tell me who {X} is. | And who is {X}? | " +
		"I would like to know who {X} is. | Explain to me who {X} is. | What can you say about {X}? | What is known about {X}? | " +
		"Who could {X} be? | Could you tell me who {X} is? | Who would {X} be? | Who's {X}? | {X}? | {X}, who is that? | {X}: who is it? | Who is this {X}? | And {X}, who is that? | Please tell me who {X} is. || Can you tell me who {X} is? | Who might {X} be?"
)

func parseWording(questions, answer, who string) wording {
	w := wording{answer: strings.TrimPrefix(answer, "= ")}
	if lo, hi := strings.IndexByte(w.answer, '{'), strings.IndexByte(w.answer, '}'); lo >= 0 && hi > lo {
		w.key = w.answer[lo+1 : hi]
		w.answer = w.answer[:lo] + w.key + w.answer[hi+1:]
	}
	w.add(questions, who)
	return w
}

func (w *wording) add(questions, who string) {
	ask, held, _ := strings.Cut(questions, " || ")
	for i, list := range []string{ask, held} {
		for q := range strings.SplitSeq(list, " | ") {
			switch q = strings.TrimSpace(q); {
			case q == "":
			case q[0] == '@':
				name := q[1:]
				w.add(strings.ReplaceAll(strings.ReplaceAll(who, "{de} {X}", elide("de", name)), "{X}", name), "")
			case i == 0:
				w.ask = append(w.ask, q)
			default:
				w.held = append(w.held, q)
			}
		}
	}
}

func (f *fact) in(fr bool) *wording {
	if fr {
		return &f.fr
	}
	return &f.en
}

// whoIs asks who someone is, in the words that serve for the novel's people too: it must not be the wording that tells the unknown ones.
func (s *sheet) whoIs(name string) string {
	ask, held, _ := strings.Cut(s.say(whoEn, whoFr), " || ")
	if s.held() {
		ask = held
	}
	q := pick(s.rng, strings.Split(ask, " | "))
	return strings.ReplaceAll(strings.ReplaceAll(q, "{de} {X}", elide("de", name)), "{X}", name)
}

// question draws a wording of the split, wrapped in what people put around a question.
func (s *sheet) question(w *wording) string {
	if s.held() && len(w.held) > 0 {
		return pick(s.rng, w.held)
	}
	q := pick(s.rng, w.ask)
	if s.held() {
		wraps := s.both([]string{"One more question: {q}", "Please answer: {q}"}, []string{"Encore une question : {q}", "Réponds : {q}"})
		return fill(pick(s.rng, wraps), "q", q)
	}
	return s.typed(q)
}

// typed is a question as one person or another types it.
func (s *sheet) typed(q string) string { return s.careless(s.wrapped(q)) }

// wrapped puts around a question what people say with it: {q} is the question, {l} begins small, {t} is without its last point.
func (s *sheet) wrapped(q string) string {
	if s.held() || s.odds(1, 2) {
		return q
	}
	wraps := s.both([]string{"Question: {q}", "Tell me: {q}", "Hello. {q}", "Please: {q}", "Another question: {q}", "{q} Please answer.", "So {l}", "So, {l}", "Well, {l}", "And {l}", "Now {l}", "Okay, {l}", "Hey, {l}",
		"Hi. {q}", "Hi, {l}", "Say, {l}", "My question is: {l}", "{t}, please?", "{t}, then?", "{t} exactly?", "{t}, exactly?", "{t} again?", "{q} I want to know.", "{q} Thanks.", "Quick question: {l}"},
		[]string{"Question : {q}", "Dis-moi : {q}", "Bonjour. {q}", "S'il te plaît : {q}", "Une autre question : {q}", "{q} Réponds-moi.", "Alors, {l}", "Alors {l}", "Et {l}", "Bon, {l}", "Dis, {l}", "Eh bien, {l}",
			"Salut. {q}", "Salut, {l}", "Ma question : {l}", "{t}, s'il te plaît ?", "{t}, déjà ?", "{t}, au juste ?", "{t}, donc ?", "{t} exactement ?", "{q} Je veux savoir.", "{q} Merci.", "Petite question : {l}"})
	return fill(pick(s.rng, wraps), "q", q, "l", lower(q), "t", strings.TrimRight(q, " ?.!"))
}

// careless now and then types a question as people do who are in a hurry: without its last point, without capitals, without the blank that French
// puts before a question mark.
func (s *sheet) careless(q string) string {
	if s.held() || !s.odds(3, 10) {
		return q
	}
	switch s.below(6) {
	case 0:
		return strings.TrimRight(q, " ?.!")
	case 1:
		return lower(strings.TrimRight(q, " ?.!"))
	case 2, 3:
		return carelessly(q)
	case 4:
		return strings.ToLower(q)
	}
	return strings.ToLower(strings.ReplaceAll(q, " ?", "?"))
}

// askFact puts a fact's question and answers it.
func (s *sheet) askFact(f *fact) {
	w := f.in(s.fr)
	s.turn(s.question(w), w.answer, w.key)
}

// fact asks about the novel.
func (s *sheet) fact() { s.askFact(&s.w.facts[s.below(len(s.w.facts))]) }

// verne: what happens in Le Tour du monde en quatre-vingts jours, in our own words, two thirds of it in French.
func verne(s *sheet) {
	s.level(1)
	if !s.fr && s.lang == "" {
		s.fr = s.odds(1, 3)
	}
	if !s.chat && !s.held() && s.odds(1, 3) { // as prose, so that it can be told and not only asked for
		for _, f := range sample(s.rng, s.w.facts, s.from(3, 6)) {
			s.note(f.in(s.fr).answer)
		}
	}
	for _, f := range sample(s.rng, s.w.facts, s.from(1, 4)) {
		s.askFact(&f)
	}
}
