package tinyworld

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// arith: sums of two to six numbers of one to three digits. One pair of operands in ten is never added outside the test split, neither as a
// question nor as a step of a longer sum.

func heldSum(a, b int) bool { return fold(uint64(min(a, b)), uint64(max(a, b)), 31)%10 == 0 }

// sum is what there is to add and the running totals: the states of the thought.
type sum struct {
	terms  []int
	totals []int // after the second term, the third, …
}

func (x *sum) result() int { return x.totals[len(x.totals)-1] }

func (x *sum) states() []string {
	var out []string
	for _, t := range x.totals {
		out = append(out, strconv.Itoa(t))
	}
	return out
}

func (x *sum) text() string {
	var out []string
	for _, t := range x.terms {
		out = append(out, strconv.Itoa(t))
	}
	return strings.Join(out, " + ")
}

// number draws a term: of a sum of two most have one or two digits and few three, of a longer sum most have one.
func (s *sheet) number(terms int) int {
	one, two, three := s.below(10), s.from(10, 99), s.from(100, 999)
	if terms > 2 {
		return pick(s.rng, []int{one, one, one, two})
	}
	return pick(s.rng, []int{one, one, two, two, two, three})
}

// sum draws a sum that belongs to the split: outside the test no step adds a held pair, in the test a sum of two is a held pair.
func (s *sheet) sum(terms int) *sum {
	for {
		x := &sum{terms: []int{s.number(terms)}}
		total, held := x.terms[0], 0
		for range terms - 1 {
			n := s.number(terms)
			if heldSum(total, n) {
				held++
			}
			total += n
			x.terms = append(x.terms, n)
			x.totals = append(x.totals, total)
		}
		if s.held() == (held > 0) || s.held() && terms > 2 {
			return x
		}
	}
}

// scratch adds two numbers digit by digit from the units on, as on paper: "digits 347 + 58 = 5 0 4 : 405". The states of a digit are none but itself:
// each needs only the digits above it and the carry before it. The first word tells it from a plain sum: without it nobody can know which is meant.
func (s *sheet) scratch(x *sum) (q, a string) {
	r := []byte(strconv.Itoa(x.result()))
	slices.Reverse(r)
	return s.say("digits ", "chiffres ") + x.text() + " =", strings.Join(strings.Split(string(r), ""), " ") + " : " + strconv.Itoa(x.result())
}

func arith(s *sheet) {
	n := s.lines()
	if !s.chat {
		n *= 3 // a line is short
	}
	for range n {
		terms := pick(s.rng, []int{2, 2, 2, 2, 3, 3, 4, 5, 6, 6})
		if s.held() {
			terms = pick(s.rng, []int{2, 2, 7, 8})
		}
		x := s.sum(terms)
		s.level(terms - 1)
		switch {
		case s.chat:
			s.sumChat(x)
		case terms == 2 && s.odds(1, 4):
			q, a := s.scratch(x)
			s.raw(q, a)
		default:
			s.raw(x.text()+" =", strconv.Itoa(x.result()), x.states()...)
		}
	}
}

// written is a sum as people write it; the test split's stands in blanks.
func (s *sheet) written(x *sum) string {
	if s.held() {
		return x.text()
	}
	sign := pick(s.rng, []string{" + ", " + ", " + ", "+", "+", " plus "})
	return strings.ReplaceAll(x.text(), " + ", sign)
}

func (s *sheet) sumChat(x *sum) {
	asks := []string{"What is %s?", "How much is %s?", "Add these: %s", "%s = ?", "%s", "What's %s?", "Compute %s."}
	if s.fr {
		asks = []string{"Combien font %s ?", "Calcule %s.", "Additionne : %s", "%s = ?", "%s", "Combien fait %s ?", "Quel est le résultat de %s ?"}
	}
	result := strconv.Itoa(x.result())
	s.turn(s.careless(fmt.Sprintf(pick(s.rng, asks), s.written(x))), result+".", result, x.states()...)
}

// list: counting, and things in order. The test split has longer lists.

const things = "apple/pomme, boat/bateau, candle/bougie, drum/tambour, engine/moteur, flag/drapeau, glove/gant, hammer/marteau, island/île, jar/bocal, " +
	"kite/cerf-volant, lamp/lampe, mirror/miroir, needle/aiguille, orange/orange, pencil/crayon, ring/bague, shoe/chaussure, table/table, umbrella/parapluie"

func list(s *sheet) {
	for range s.lines() {
		switch s.below(5) {
		case 0, 1:
			s.count()
		default:
			s.order()
		}
	}
}

// count counts up or down.
func (s *sheet) count() {
	n := s.from(2, 20)
	if s.held() {
		n = s.from(21, 30)
	}
	s.level((n + 4) / 5)
	numbers := counted(1, n)
	var q string
	if s.odds(3, 4) {
		q = pick(s.rng, []string{"Count to %d.", "Count from 1 to %d.", "Please count to %d.", "Can you count to %d?", "Count from one to %d, please.",
			"Now count from 1 to %d.", "Say the numbers up to %d.", "Count up from 1 to %d.", "Go up to %d."})
		if s.fr {
			q = pick(s.rng, []string{"Compte jusqu'à %d.", "Compte de 1 à %d.", "Peux-tu compter jusqu'à %d ?", "Compte jusqu'à %d, s'il te plaît.",
				"Sais-tu compter jusqu'à %d ?", "Tu peux compter jusqu'à %d ?", "Dis les nombres jusqu'à %d.", "Va jusqu'à %d."})
		}
	} else {
		q = s.say("Count down from %d.", "Compte à rebours à partir de %d.")
		slices.Reverse(numbers)
	}
	out := strings.Join(numbers, ", ")
	s.turn(s.typed(s.inWords(fmt.Sprintf(q, n), n)), out+".", out)
}

// inWords now and then writes the number n of a question as a word.
func (s *sheet) inWords(q string, n int) string {
	list := strings.Fields(s.say("two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
		"deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf vingt"))
	if s.held() || n > len(list)+1 || !s.odds(1, 4) {
		return q
	}
	at := strings.LastIndex(q, strconv.Itoa(n))
	return q[:at] + list[n-2] + q[at+len(strconv.Itoa(n)):]
}

func counted(lo, hi int) []string {
	var out []string
	for i := lo; i <= hi; i++ {
		out = append(out, strconv.Itoa(i))
	}
	return out
}

// order copies, reverses, sorts, or names the first or last of a list of numbers, letters or things.
func (s *sheet) order() {
	n := s.from(3, 6)
	if s.held() {
		n = s.from(7, 9)
	}
	s.level(n - 2)
	items, sorted := s.items(n)
	var q string
	var out []string
	switch s.below(5) {
	case 0:
		q, out = pick(s.rng, s.both([]string{"Repeat: %s", "Copy this list: %s"}, []string{"Répète : %s", "Recopie cette liste : %s"})), items
	case 1:
		q, out = pick(s.rng, s.both([]string{"Reverse: %s", "Say this backwards: %s"}, []string{"Inverse : %s", "Dis ceci à l'envers : %s"})), slices.Clone(items)
		slices.Reverse(out)
	case 2, 3:
		q, out = pick(s.rng, s.both([]string{"Sort: %s", "Put these in order: %s"}, []string{"Trie : %s", "Mets dans l'ordre : %s"})), sorted
	default:
		q, out = s.say("What is the first of these: %s", "Quel est le premier de ceux-ci : %s"), items[:1]
		if s.odds(1, 2) {
			q, out = s.say("What is the last of these: %s", "Quel est le dernier de ceux-ci : %s"), items[n-1:]
		}
	}
	a := strings.Join(out, ", ")
	s.turn(s.loose(fmt.Sprintf(q, strings.Join(items, ", "))), a+".", a)
}

// loose now and then begins an order small.
func (s *sheet) loose(q string) string {
	if s.held() || !s.odds(1, 6) {
		return q
	}
	return lower(q)
}

func (s *sheet) both(en, fr []string) []string {
	if s.fr {
		return fr
	}
	return en
}

// items draws n different things of a kind, and the same ones sorted.
func (s *sheet) items(n int) (items, sorted []string) {
	switch s.below(3) {
	case 0:
		var nums []int
		for len(nums) < n {
			if k := s.from(1, 99); !slices.Contains(nums, k) {
				nums = append(nums, k)
			}
		}
		for _, k := range nums {
			items = append(items, strconv.Itoa(k))
		}
		slices.Sort(nums)
		for _, k := range nums {
			sorted = append(sorted, strconv.Itoa(k))
		}
		return items, sorted
	case 1:
		for _, c := range sample(s.rng, []byte("abcdefghijklmnopqrstuvwxyz"), n) {
			items = append(items, string(c))
		}
	default:
		for _, w := range sample(s.rng, s.w.things, n) {
			items = append(items, s.say(w.en, w.fr))
		}
	}
	sorted = slices.Clone(items)
	slices.SortFunc(sorted, func(a, b string) int { return strings.Compare(plain(a), plain(b)) })
	return items, sorted
}

// plain is a word without the accents that French dictionaries ignore.
func plain(s string) string {
	return strings.NewReplacer("î", "i", "é", "e", "è", "e").Replace(s)
}
