package tinyworld

import (
	"strconv"
	"strings"
)

// chain: who is with whom, and at the end of each chain a place. The answer needs as many steps as there are links. Plain text is compact:
// the question's words come first, the one asked about last, and the answer is the very next word, because a model that must look something
// up does it where the thing to look up stands.

// places in English and French, and how French says that someone is there.
const places = "park/parc/au parc, school/école/à l'école, market/marché/au marché, garden/jardin/au jardin, station/gare/à la gare, museum/musée/au musée, " +
	"library/bibliothèque/à la bibliothèque, harbour/port/au port, bakery/boulangerie/à la boulangerie, forest/forêt/dans la forêt, beach/plage/à la plage, " +
	"church/église/à l'église, theatre/théâtre/au théâtre, factory/usine/à l'usine, hospital/hôpital/à l'hôpital, bridge/pont/sur le pont"

type place struct{ en, fr, there string }

func parsePlaces() []place {
	var out []place
	for item := range strings.SplitSeq(places, ", ") {
		f := strings.Split(item, "/")
		out = append(out, place{f[0], f[1], f[2]})
	}
	return out
}

// limits of training; the test split goes beyond them.
const (
	maxHops     = 6
	heldHops    = 8
	minDistract = 1
	maxDistract = 12

	// questions about one context: the context is read once, every further question is nearly all answer.
	textQuestions = 24
	chatQuestions = 4
	// rounds of questions where each takes one step. Elsewhere an answer that was given before would spare the steps.
	easyRounds = 3
)

// links are the facts of a context: each person is with another one or at a place.
type links struct {
	next  map[string]string // person to person or place
	order []string          // people, in the order the facts are told
	place map[string]string // place to "at the place"
}

// follow walks from a person to the place: the states of the thought.
func (l *links) follow(name string) []string {
	var out []string
	for l.place[name] == "" {
		name = l.next[name]
		out = append(out, name)
	}
	return out
}

func chain(s *sheet) {
	hops := 1 + s.below(maxHops)
	// Small contexts are more frequent: to look something up among a few facts is what is learned first, and it carries over.
	distract := min(s.from(minDistract, maxDistract), s.from(minDistract, maxDistract))
	if s.held() {
		hops = s.from(maxHops+1, heldHops)
		distract = s.from(maxDistract/2, maxDistract+4)
	}
	s.level(hops)
	l, first := s.tangle(hops, distract)
	if s.chat {
		s.chainChat(l, first)
		return
	}
	s.chainText(l, first)
}

// tangle draws one chain of the given length and others beside it, told in random order. No place ends two chains.
func (s *sheet) tangle(hops, distract int) (*links, string) {
	l := &links{next: map[string]string{}, place: map[string]string{}}
	names := sample(s.rng, s.w.names, hops+distract)
	spots := sample(s.rng, s.w.places, len(s.w.places))
	add := func(people []string) {
		end := s.say(spots[0].en, spots[0].fr)
		l.place[end] = s.say("at the "+spots[0].en, spots[0].there)
		spots = spots[1:]
		for i, p := range people {
			l.order = append(l.order, p)
			if i+1 < len(people) {
				l.next[p] = people[i+1]
			} else {
				l.next[p] = end
			}
		}
	}
	add(names[:hops])
	for rest := names[hops:]; len(rest) > 0; {
		n := min(s.from(1, hops), len(rest))
		if len(spots) == 1 {
			n = len(rest)
		}
		add(rest[:n])
		rest = rest[n:]
	}
	shuffle(s.rng, l.order)
	return l, names[0]
}

// chainText:
//
//	Mia > Bob, Zoe > park, Bob > Zoe
//	where Mia park
func (s *sheet) chainText(l *links, first string) {
	var facts []string
	for _, p := range l.order {
		facts = append(facts, p+" > "+l.next[p])
	}
	s.text.WriteString(strings.Join(facts, ", ") + "\n")
	where := s.say("where", "où")
	left, rounds := textQuestions, 1
	if s.labels.Difficulty == 1 {
		rounds = easyRounds
	}
	for range rounds {
		for _, p := range s.asked(l, first, len(l.order)) {
			if left == 0 {
				return
			}
			left--
			states := l.follow(p)
			s.raw(where+" "+p, last(states), states...)
		}
	}
}

// asked gives at most n people to ask about: the long chain's first, and others of the same context, which cost nothing and teach as much.
func (s *sheet) asked(l *links, first string, n int) []string {
	out := []string{first}
	for _, p := range sample(s.rng, l.order, min(n, len(l.order))) {
		if len(out) < n && p != first && (!s.held() || len(l.follow(p)) > maxHops) {
			out = append(out, p)
		}
	}
	shuffle(s.rng, out)
	return out
}

func (s *sheet) chainChat(l *links, first string) {
	var b strings.Builder
	for _, p := range l.order {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		where := l.place[l.next[p]]
		if where == "" {
			where = s.say("with ", "avec ") + l.next[p]
		}
		b.WriteString(p + s.say(" is ", " est ") + where + ".")
	}
	s.note(b.String())
	for _, p := range s.asked(l, first, chatQuestions) {
		states := l.follow(p)
		end := len(states) - 1
		states[end] = upper(states[end])
		s.turn(s.say("Where is "+p+"?", "Où est "+p+" ?"), states[end]+".", states[end], states...)
	}
}

func last(list []string) string { return list[len(list)-1] }

// phop: p-hop induction (Sanford, Hsu & Telgarsky 2024; Saunshi and others 2025). From the last letter go back to where it stood before, take
// the letter after it, and so on p times. The number of hops comes first, so that the answer is the next word after the letters.
func phop(s *sheet) {
	hops := s.from(1, 4)
	if s.held() {
		hops = s.from(5, 8)
	}
	s.level(hops)
	for range s.lines() {
		letters, states := s.hopping(hops)
		q := s.say("hop ", "saut ") + strconv.Itoa(hops) + ": " + strings.Join(letters, " ")
		if s.chat {
			s.turn(q, last(states), "", states...)
			continue
		}
		s.raw(q, last(states), states...)
	}
}

// lines says how many tasks a document holds.
func (s *sheet) lines() int {
	if s.chat {
		return s.from(1, 2)
	}
	return s.from(2, 4)
}

// hopping draws letters on which every hop lands.
func (s *sheet) hopping(hops int) (letters, states []string) {
	for {
		n := s.from(12+2*hops, 28+2*hops)
		kinds := s.from(4, 6)
		letters = letters[:0]
		at := s.below(kinds)
		for range n { // never the same letter twice in a row: such a hop would stay where it is
			at = (at + 1 + s.below(kinds-1)) % kinds
			letters = append(letters, string(rune('a'+at)))
		}
		if states = hop(letters, hops); states != nil {
			return letters, states
		}
	}
}

// hop follows p hops from the last letter, nil when one has nowhere to go.
func hop(letters []string, p int) []string {
	var states []string
	at := len(letters) - 1
	for range p {
		j := at - 1
		for j >= 0 && letters[j] != letters[at] {
			j--
		}
		if j < 0 {
			return nil
		}
		at = j + 1
		states = append(states, letters[at])
	}
	return states
}
