package tinyworld

import "strings"

// unknown: what nobody can know from this world is met with a plain "I do not know" in the language of the question. Between the unknown ones
// stand known ones in the same words, so that not the form of a question decides but what it asks about. The test split asks about names that
// training never shows.

// coin makes a name of two or three syllables. Names are divided between the splits by their own hash; Zorg is always the test's.
func (s *sheet) coin() string {
	starts := strings.Fields("B D F G K L M N P R S T V Z Br Cr Dr Gr Kr Pl Sk Tr Vr X")
	middles := strings.Fields("a e i o u ar or en ul il om an")
	ends := strings.Fields("b d g k l m n r s t v x z ba dor gon lia mar nia ra thal via zu")
	for {
		n := pick(s.rng, starts) + pick(s.rng, middles)
		if s.odds(1, 2) {
			n += strings.ToLower(pick(s.rng, starts)) + pick(s.rng, middles)
		}
		n += pick(s.rng, ends)
		if s.fresh(n) {
			return n
		}
	}
}

// heldName says whether a coined name is the test's.
func heldName(n string) bool { return strings.HasPrefix(n, "Zorg") || foldText(n)%5 == 0 }

// fresh says whether a name may be used: of this split, and no real one of this corpus by accident.
func (s *sheet) fresh(n string) bool {
	return heldName(n) == s.held() && !strings.Contains(" "+women+" "+men+" "+strangers+" "+heldStrangers+" "+towns+" ", " "+n+" ")
}

func (s *sheet) stranger() string {
	if s.held() {
		return pick(s.rng, strings.Fields(heldStrangers))
	}
	return pick(s.rng, strings.Fields(strangers))
}

func unknown(s *sheet) {
	s.level(1)
	for range s.from(1, 3) {
		if s.odds(2, 5) {
			s.known()
			continue
		}
		s.turn(s.riddle())
	}
	if len(s.labels.Answers) == 0 {
		s.turn(s.riddle())
	}
}

// known asks something that has an answer, worded as the unknown ones are.
func (s *sheet) known() {
	switch s.below(3) {
	case 0:
		s.capital()
	case 1:
		s.askAbout(&s.w.people[s.below(len(s.w.people))])
	default:
		s.fact()
	}
}

// riddle draws a question without an answer, and the refusal.
func (s *sheet) riddle() (q, a, key string) {
	switch s.below(5) {
	case 0:
		return s.noPlace()
	case 1, 2:
		return s.noPerson()
	case 3:
		return s.noWho()
	}
	return s.noFact()
}

func (s *sheet) noPlace() (q, a, key string) {
	n := s.coin()
	kinds := [][2]string{{"the planet ", "la planète "}, {"the kingdom of ", "le royaume de "}, {"the island of ", "l'île de "}, {"the land of ", "le pays de "}}
	k := pick(s.rng, kinds)
	en, fr := k[0]+n, k[1]+n
	if s.fr {
		of := "de " + fr
		if strings.HasPrefix(fr, "le ") {
			of = "du " + strings.TrimPrefix(fr, "le ")
		}
		q = pick(s.rng, []string{s.capitalOf(of), s.capitalOf(of), "Où se trouve " + fr + " ?", "Combien d'habitants a " + fr + " ?"})
		return q, "Je ne sais pas : je ne connais pas " + fr + ".", "Je ne sais pas"
	}
	q = pick(s.rng, []string{s.capitalOf("of " + en), s.capitalOf("of " + en), "Where is " + en + "?", "How many people live on " + en + "?"})
	return q, "I do not know: I have never heard of " + en + ".", "I do not know"
}

// noPerson asks what the town's people are asked, of someone who is not there.
func (s *sheet) noPerson() (q, a, key string) {
	n := s.stranger()
	if s.odds(1, 2) {
		n = s.coin()
	}
	at := &s.w.attributes[s.below(len(s.w.attributes))]
	if s.fr {
		return s.name(pick(s.rng, at.askFr), n, ""), "Je ne sais pas : je ne connais pas " + n + ".", "Je ne sais pas"
	}
	return s.name(pick(s.rng, at.askEn), n, ""), "I do not know: I have never heard of " + n + ".", "I do not know"
}

func (s *sheet) noWho() (q, a, key string) {
	n := s.coin()
	if q = s.whoIs(n); s.fr {
		return q, "Je ne sais pas : je ne connais pas " + n + ".", "Je ne sais pas"
	}
	return q, "I do not know: I have never heard of " + n + ".", "I do not know"
}

// noFact asks something sensible that lies outside: today's world, the future, what only the asker can know.
func (s *sheet) noFact() (q, a, key string) {
	en, fr := outsideEn, outsideFr
	if s.held() {
		en, fr = outsideHeldEn, outsideHeldFr
	}
	if s.fr {
		return pick(s.rng, strings.Split(fr, "|")), "Je ne sais pas : je n'ai rien appris là-dessus.", "Je ne sais pas"
	}
	return pick(s.rng, strings.Split(en, "|")), "I do not know: I have learned nothing about that.", "I do not know"
}

const (
	outsideEn = "What will the weather be tomorrow?|Who is the king of Spain?|How many people live in Spain?|What is the price of gold today?|What did I eat yesterday?|" +
		"Who won the match last night?|What is my name?|How tall is my brother?|What is the longest river of Asia?|Who is the president of Brazil?|" +
		"What number am I thinking of?|When does the next train leave?|What is the best film of the year?|How many stars are there in the sky?|" +
		"What is the speed of sound on Mars?|What is the phone number of the town hall?|Tell me about the history of Spain.|Who painted that picture?"
	outsideFr = "Quel temps fera-t-il demain ?|Qui est le roi d'Espagne ?|Combien d'habitants compte l'Espagne ?|Quel est le prix de l'or aujourd'hui ?|" +
		"Qu'ai-je mangé hier ?|Qui a gagné le match hier soir ?|Comment je m'appelle ?|Combien mesure mon frère ?|Quel est le plus long fleuve d'Asie ?|" +
		"Qui est le président du Brésil ?|À quel nombre est-ce que je pense ?|Quand part le prochain train ?|Quel est le meilleur film de l'année ?|" +
		"Combien y a-t-il d'étoiles dans le ciel ?|Quelle est la vitesse du son sur Mars ?|Quel est le numéro de la mairie ?|" +
		"Raconte-moi l'histoire de l'Espagne.|Qui a peint ce tableau ?"
	outsideHeldEn = "What will the weather be on Sunday?|Who is the queen of Spain?|How many cities are there in Spain?|What is the price of silver today?|" +
		"What did I dream last night?|Who will win the next election?|How old is my sister?|What is the deepest lake of Africa?|When does the last bus leave?|" +
		"What do people eat in Spain?"
	outsideHeldFr = "Quel temps fera-t-il dimanche ?|Qui est la reine d'Espagne ?|Combien de villes y a-t-il en Espagne ?|Quel est le prix de l'argent aujourd'hui ?|" +
		"De quoi ai-je rêvé cette nuit ?|Qui gagnera la prochaine élection ?|Quel âge a ma sœur ?|Quel est le lac le plus profond d'Afrique ?|" +
		"Quand part le dernier bus ?|Que mange-t-on en Espagne ?"
)
