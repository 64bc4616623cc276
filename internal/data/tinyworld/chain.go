package tinyworld

import (
	"slices"
	"strconv"
	"strings"
)

// chain: who is with whom, and at the end of each chain a city. The answer needs as many steps as there are links. In plain text the
// question's words come first, the one asked about last, and the answer is the very next word, because a model that must look something up does
// it where the thing to look up stands. Of a chain those far from the city are asked about first: an answer that was given before never lies
// on the way of a later one, where it would spare the steps or contradict them.

// spots are cities that both languages write alike, each a single word: it stands as far behind "Bob is in" and "Bob est à" as a name does behind
// "Bob is with" and "Bob est avec".
const spots = "Paris Rome Madrid Berlin Oslo Dublin Budapest Zagreb Ankara Rabat Tunis Dakar Tokyo Lima Santiago Stockholm Helsinki Amsterdam Nairobi Bamako"

// limits of training; the test split goes beyond them.
const (
	maxHops     = 6
	heldHops    = 8
	minDistract = 0
	maxDistract = 12

	// questions about one context: the context is read once, every further question is nearly all answer.
	textQuestions = 24
	chatQuestions = 4
)

// links are the facts of a context: each person is with another one or in a city.
type links struct {
	next   map[string]string // person to person or city
	order  []string          // people, in the order the facts are told
	chains [][]string        // people, each with the next one, the last of each in a city
	city   map[string]bool   // which of them are cities
}

// follow walks from a person to the city: the states of the thought.
func (l *links) follow(name string) []string {
	var out []string
	for !l.city[name] {
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
	l := s.tangle(hops, distract)
	if s.chat {
		s.chainChat(l)
		return
	}
	s.chainText(l)
}

// tangle draws one chain of the given length and others beside it, told in random order. No city ends two chains.
func (s *sheet) tangle(hops, distract int) *links {
	l := &links{next: map[string]string{}, city: map[string]bool{}}
	names := sample(s.rng, s.w.names, hops+distract)
	cities := strings.Fields(spots)
	cities = sample(s.rng, cities, len(cities))
	add := func(people []string) {
		end := cities[0]
		l.city[end] = true
		cities = cities[1:]
		l.chains = append(l.chains, people)
		l.order = append(l.order, people...)
		for i, p := range people {
			l.next[p] = end
			if i+1 < len(people) {
				l.next[p] = people[i+1]
			}
		}
	}
	add(names[:hops])
	for rest := names[hops:]; len(rest) > 0; {
		n := min(s.from(1, hops), len(rest))
		if len(cities) == 1 {
			n = len(rest)
		}
		add(rest[:n])
		rest = rest[n:]
	}
	shuffle(s.rng, l.order)
	return l
}

// chainText is compact, or told in the sentences of a conversation:
//
//	facts Mia Bob, Zoe Paris, Bob Zoe
//	where Mia Paris
func (s *sheet) chainText(l *links) {
	facts, start, between := l.order, s.say("facts", "faits"), ","
	told := func(p string) string { return p + " " + l.next[p] }
	if s.odds(1, 3) {
		start, between = s.opening(), ""
		told = func(p string) string { return s.tell(l, p) }
	}
	for i, p := range facts {
		switch {
		case i > 0:
			start += between + " "
		case start != "":
			start += " "
		}
		start += told(p)
	}
	s.text.WriteString(start + "\n")
	for _, p := range s.asked(l, textQuestions) {
		states := l.follow(p)
		s.raw(s.say("where", "où")+" "+p, last(states), states...)
	}
}

// opening is what the sentences of a context begin with.
func (s *sheet) opening() string {
	return pick(s.rng, s.both([]string{"", "Facts:", "Listen:", "I know this:"}, []string{"", "Faits :", "Écoute :", "Je sais ceci :"}))
}

// tell says whom someone is with, or where.
func (s *sheet) tell(l *links, p string) string {
	how := s.say(" is with ", " est avec ")
	if l.city[l.next[p]] {
		how = s.say(" is in ", " est à ")
	}
	return p + how + l.next[p] + "."
}

// asked gives at most n people to ask about, those of the first chain always among them as far as n allows: first who is far from the city.
func (s *sheet) asked(l *links, n int) []string {
	var all []string
	for _, c := range l.chains {
		for _, p := range c {
			if !s.held() || len(l.follow(p)) > maxHops {
				all = append(all, p)
			}
		}
	}
	chosen := map[string]bool{all[0]: true}
	for _, p := range sample(s.rng, all, len(all)) {
		if len(chosen) < n {
			chosen[p] = true
		}
	}
	var queues [][]string
	for _, c := range l.chains {
		if c = slices.DeleteFunc(slices.Clone(c), func(p string) bool { return !chosen[p] }); len(c) > 0 {
			queues = append(queues, c)
		}
	}
	return s.merge(queues)
}

// merge mixes lists at random, each in its own order.
func (s *sheet) merge(lists [][]string) []string {
	left := 0
	for _, l := range lists {
		left += len(l)
	}
	var out []string
	for ; left > 0; left-- {
		k := s.below(left)
		for i, l := range lists {
			if k < len(l) {
				out, lists[i] = append(out, l[0]), l[1:]
				break
			}
			k -= len(l)
		}
	}
	return out
}

func (s *sheet) chainChat(l *links) {
	var told []string
	if o := s.opening(); o != "" {
		told = append(told, o)
	}
	for _, p := range l.order {
		told = append(told, s.tell(l, p))
	}
	s.note(strings.Join(told, " "))
	for _, p := range s.asked(l, chatQuestions) {
		states := l.follow(p)
		s.turn(s.say("Where is "+p+"?", "Où est "+p+" ?"), s.say("In ", "À ")+last(states)+".", last(states), states...)
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
