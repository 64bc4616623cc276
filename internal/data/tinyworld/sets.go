package tinyworld

import (
	"strings"

	"tinyloop/internal/data"
	"tinyloop/internal/fault"
)

// Sets lists the evaluation sets that Set gives.
func Sets() []string { return []string{"acceptance", "refusals", "careless", "fresh"} }

// Set gives a fixed list of questions to measure a chat model by, all of them conversations of the test split:
//
//	acceptance  the questions that people try first (difficulty 0) and wordings of them that training never shows (difficulty 1)
//	careless    both typed without capitals and points
//	fresh       further wordings of them, written when all training but the last had been done
//	refusals    questions without an answer, about names that training never shows (family unknown), and as many that have one, in wordings
//	            that training never shows (family known): a refusal there is a false one
func (w *World) Set(name string) ([]*data.Doc, error) {
	switch name {
	case "acceptance":
		return w.acceptance(), nil
	case "refusals":
		return w.refusals(), nil
	case "careless":
		return w.careless(), nil
	case "fresh":
		return w.fresh(), nil
	}
	return nil, fault.New(fault.Invalid, "set", "there is no set %q; there are %s", name, strings.Join(Sets(), ", "))
}

// exam is a list of questions being gathered.
type exam struct{ docs []*data.Doc }

func (e *exam) add(family string, fr bool, difficulty int, question, answer, key string) {
	s := &sheet{rng: &rng{}, split: data.Test, fr: fr, chat: true}
	s.level(difficulty)
	s.turn(question, answer, key)
	e.docs = append(e.docs, s.finish(family, "chat"))
}

// first are the questions that people try first, where a fact answers them.
func firstQuestions() []string {
	return []string{"Qui est Passepartout ?", "Qui est Fix ?", "Qui est Phileas Fogg ?", "Phileas Fogg passe-t-il par l'Espagne ?", "Who is Passepartout?", "Who is Fix?",
		"Hi", "Bonjour", "Count", "Compte", "The meaning of life is", "Who are you?", "Qui es-tu ?", "What can you do?", "Que sais-tu faire ?", "Thanks", "Merci"}
}

func (w *World) acceptance() []*data.Doc {
	var e exam
	for _, q := range firstQuestions() {
		f, fr := w.factOf(q)
		e.add("acceptance", fr, 0, q, f.answer, f.key)
		for _, h := range f.held {
			e.add("acceptance", fr, 1, h, f.answer, f.key)
		}
	}
	five := "1, 2, 3, 4, 5."
	e.add("acceptance", false, 0, "Count to 5.", five, "1, 2, 3, 4, 5")
	for _, q := range []string{"Count up to 5.", "Now count to 5.", "Go from 1 to 5."} {
		e.add("acceptance", false, 1, q, five, "1, 2, 3, 4, 5")
	}
	e.add("acceptance", true, 0, "Compte jusqu'à 5.", five, "1, 2, 3, 4, 5")
	e.add("acceptance", true, 1, "Tu sais compter jusqu'à 5 ?", five, "1, 2, 3, 4, 5")
	for _, fr := range []bool{false, true} {
		s := &sheet{w: w, fr: fr}
		for _, c := range s.countries()[:3] {
			e.add("acceptance", fr, 0, s.say("Capital "+c.of+"?", "Capitale "+c.of+" ?"), s.capitalAnswer(c), c.capital)
			for _, q := range s.both(capitalHeldEn, capitalHeldFr) {
				e.add("acceptance", fr, 1, fill(q, "of", c.of), s.capitalAnswer(c), c.capital)
			}
		}
	}
	return e.docs
}

// factOf finds the wording that a question belongs to.
func (w *World) factOf(question string) (*wording, bool) {
	for _, list := range [][]fact{w.facts, w.talk} {
		for i := range list {
			for _, fr := range []bool{false, true} {
				for _, q := range list[i].in(fr).ask {
					if q == question {
						return list[i].in(fr), fr
					}
				}
			}
		}
	}
	panic("tinyworld: no fact answers " + question)
}

func (w *World) refusals() []*data.Doc {
	var e exam
	e.add("unknown", true, 0, "Quelle est la capitale de la planète Zorg ?", "Je ne sais pas : je ne connais pas la planète Zorg.", "Je ne sais pas")
	e.add("unknown", false, 0, "What is the capital of the planet Zorg?", "I do not know: I have never heard of the planet Zorg.", "I do not know")
	for i := range uint64(98) {
		s := &sheet{rng: &rng{key: fold(foldText("refusals"), i)}, w: w, split: data.Test, fr: i%2 == 0, chat: true}
		s.level(1)
		s.turn(s.riddle())
		e.docs = append(e.docs, s.finish("unknown", "chat"))
	}
	for i := range uint64(100) {
		s := &sheet{rng: &rng{key: fold(foldText("known"), i)}, w: w, split: data.Test, fr: i%2 == 0, chat: true}
		s.level(1)
		s.known()
		e.docs = append(e.docs, s.finish("known", "chat"))
	}
	return e.docs
}
