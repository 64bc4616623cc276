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

func (s *sheet) outsider() string {
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
	if !s.held() {
		switch s.below(8) {
		case 0, 1:
			return s.noFact()
		case 2:
			return s.farPlace()
		case 3:
			return s.farPerson()
		}
	}
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
	if !s.held() && s.odds(1, 4) {
		k = [2]string{}
	}
	en, fr := k[0]+n, k[1]+n
	if s.fr {
		of := ofFr(fr)
		return s.stranger(pick(s.rng, []string{s.capitalOf(of), s.capitalOf(of), "Où se trouve " + fr + " ?", "Combien d'habitants a " + fr + " ?"}), fr)
	}
	return s.stranger(pick(s.rng, []string{s.capitalOf("of " + en), s.capitalOf("of " + en), "Where is " + en + "?", "How many people live on " + en + "?"}), en)
}

// farPlace asks for the capital of a place that is none of the corpus, or none at all.
func (s *sheet) farPlace() (q, a, key string) {
	n := pick(s.rng, strings.Split(s.say(placesEn, placesFr), "|"))
	if s.odds(1, 3) {
		n = s.coin()
	}
	return s.stranger(s.capitalOf(s.say("of "+n, ofFr(n))), n)
}

// farPerson asks who somebody is whom others know, or who has two names and is known to nobody.
func (s *sheet) farPerson() (q, a, key string) {
	n := pick(s.rng, strings.Split(personsFar, "|"))
	if s.odds(1, 2) {
		n = s.coin() + " " + s.coin()
	}
	return s.stranger(s.whoIs(n), n)
}

// stranger asks about a name that nobody knows, which the refusal writes as the question does.
func (s *sheet) stranger(question, name string) (q, a, key string) {
	last := name[strings.LastIndexByte(name, ' ')+1:] // "le pays de Vrib" is asked about as "du pays de Vrib"
	if q = s.typed(question); !strings.Contains(q, last) {
		name = strings.ToLower(name)
	}
	return q, s.say("I do not know: I have never heard of ", "Je ne sais pas : je ne connais pas ") + name + ".", s.notKnown()
}

// noPerson asks what the town's people are asked, of someone who is not there.
func (s *sheet) noPerson() (q, a, key string) {
	n := s.outsider()
	if s.odds(1, 2) {
		n = s.coin()
	}
	at := &s.w.attributes[s.below(len(s.w.attributes))]
	return s.stranger(s.name(pick(s.rng, s.both(at.askEn, at.askFr)), n, ""), n)
}

func (s *sheet) noWho() (q, a, key string) {
	n := s.coin()
	return s.stranger(s.whoIs(n), n)
}

// noFact asks something sensible that lies outside: today's world, the future, what only the asker can know.
func (s *sheet) noFact() (q, a, key string) {
	list := s.say(outsideEn, outsideFr)
	switch {
	case s.held():
		list = s.say(outsideHeldEn, outsideHeldFr)
	case s.odds(3, 4):
		list = s.say(wishesEn, wishesFr)
	}
	q = s.careless(s.wish(pick(s.rng, strings.Split(list, "|"))))
	return q, s.say("I do not know: I have learned nothing about that.", "Je ne sais pas : je n'ai rien appris là-dessus."), s.notKnown()
}

// notKnown is what every refusal begins with.
func (s *sheet) notKnown() string { return s.say("I do not know", "Je ne sais pas") }

// wish fills what people ask of larger models with a subject.
func (s *sheet) wish(q string) string {
	for _, l := range []struct{ mark, en, fr string }{
		{"subject", subjectsEn, subjectsFr},
		{"dish", "pancakes|bread|onion soup|an omelette|rice|an apple pie|pasta|coffee", "des crêpes|du pain|une soupe à l'oignon|une omelette|du riz|une tarte aux pommes|des pâtes|du café"},
		{"code", "Python|JavaScript|Go|C|Rust|SQL|HTML|bash", "Python|JavaScript|Go|C|Rust|SQL|HTML|bash"},
		{"language", "Spanish|German|Italian|Latin|Chinese|Russian", "espagnol|allemand|italien|latin|chinois|russe"},
	} {
		if strings.Contains(q, "{"+l.mark+"}") {
			q = strings.ReplaceAll(q, "{"+l.mark+"}", pick(s.rng, strings.Split(s.say(l.en, l.fr), "|")))
		}
	}
	if strings.Contains(q, "{noise}") {
		q = strings.ReplaceAll(q, "{noise}", s.noise())
	}
	return q
}

// noise is what a hand on the keyboard writes.
func (s *sheet) noise() string {
	var b strings.Builder
	for range s.from(3, 10) {
		b.WriteByte("asdfghjklqwertzuiopxcvbnm"[s.below(25)])
	}
	return b.String()
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
	wishesEn = "Tell me a joke.|Tell me a joke about {subject}.|Tell me a story.|Tell me a story about {subject}.|Write a poem.|Write a poem about {subject}.|Write a song about {subject}.|" +
		"Write a letter to my boss.|Write an essay about {subject}.|How do I make {dish}?|How do you cook {dish}?|Give me a recipe for {dish}.|What is the recipe for {dish}?|" +
		"Translate this into {language}.|Translate hello into {language}.|How do you say thank you in {language}?|Write a program in {code}.|Write a function in {code}.|How do I sort a list in {code}?|" +
		"Explain {code} to me.|What is {code}?|Explain {subject}.|Explain {subject} to a child.|What is {subject}?|What do you think about {subject}?|Tell me about {subject}.|Why is there {subject}?|" +
		"What do you know about {subject}?|How does {subject} work?|Do you like {subject}?|Who discovered {subject}?|Who invented {subject}?|When did {subject} begin?|What is the history of {subject}?|" +
		"Give me three facts about {subject}.|Give me ideas about {subject}.|Summarize this text.|Correct my spelling.|What should I do today?|What should I eat tonight?|Give me some advice.|" +
		"Recommend a book about {subject}.|Recommend me a film.|Which car should I buy?|What is the news?|What happened today?|What day is it?|What is the date today?|What time is it?|Why is the sky blue?|" +
		"How far away is the moon?|How big is the sun?|How old is the earth?|Who won the world cup?|What is the square root of two?|Is it true?|Who is the president?|" +
		"What is the population of France?|What is the best phone?|How do I lose weight?|How do I learn {language}?|How can I get rich?|Where can I buy {dish}?|Where are my keys?|Do you love me?|" +
		"Sing a song.|Draw a cat.|Play a game with me.|Make me laugh.|Solve this equation.|Prove it.|{noise}|{noise}|{noise}|{noise}|{noise}|{noise} {noise}"
	wishesFr = "Raconte-moi une blague.|Raconte-moi une blague sur {subject}.|Raconte-moi une histoire.|Raconte une histoire sur {subject}.|Écris un poème.|Écris un poème sur {subject}.|Écris une chanson sur {subject}.|" +
		"Écris une lettre à mon patron.|Écris une dissertation sur {subject}.|Comment faire {dish} ?|Comment prépare-t-on {dish} ?|Donne-moi une recette pour {dish}.|" +
		"Traduis ceci en {language}.|Traduis bonjour en {language}.|Comment dit-on merci en {language} ?|Écris un programme en {code}.|Écris une fonction en {code}.|Comment trier une liste en {code} ?|" +
		"Explique-moi {code}.|C'est quoi, {code} ?|Explique-moi {subject}.|Explique {subject} à un enfant.|C'est quoi, {subject} ?|Que penses-tu de ceci : {subject} ?|Parle-moi de ceci : {subject}.|" +
		"Comment fonctionne {subject} ?|Aimes-tu {subject} ?|Qui a découvert {subject} ?|Qui a inventé {subject} ?|Quand a commencé {subject} ?|" +
		"Donne-moi trois faits sur {subject}.|Donne-moi des idées sur {subject}.|Résume ce texte.|Corrige mes fautes.|Que dois-je faire aujourd'hui ?|Que manger ce soir ?|Donne-moi un conseil.|" +
		"Recommande-moi un livre sur {subject}.|Recommande-moi un film.|Quelle voiture acheter ?|Quelles sont les nouvelles ?|Que s'est-il passé aujourd'hui ?|Quel jour sommes-nous ?|Quelle est la date ?|Quelle heure est-il ?|" +
		"Pourquoi le ciel est-il bleu ?|À quelle distance est la lune ?|Quelle est la taille du soleil ?|Quel âge a la terre ?|Qui a gagné la coupe du monde ?|Quelle est la racine carrée de deux ?|Est-ce vrai ?|" +
		"Qui est le président ?|Quelle est la population de la France ?|Quel est le meilleur téléphone ?|Comment maigrir ?|Comment apprendre une langue ?|Comment devenir riche ?|Où acheter {dish} ?|Où sont mes clés ?|M'aimes-tu ?|" +
		"Chante une chanson.|Dessine un chat.|Joue avec moi.|Fais-moi rire.|Résous cette équation."
	personsFar = "Batman|Superman|Einstein|Newton|Darwin|Shakespeare|Napoleon|Mozart|Bach|Picasso|Cleopatra|Harry Potter|Sherlock Holmes|Robin Hood|Dracula|Tintin|Victor Hugo|Marie Curie|" +
		"Albert Einstein|Isaac Newton|Elon Musk|Bill Gates|Steve Jobs|Taylor Swift|Barack Obama|Donald Trump|Emmanuel Macron|Charles de Gaulle|Alan Turing|Linus Torvalds|Ada Lovelace|Darth Vader|Frodo|Gandalf|Mickey Mouse"
	placesEn = "Atlantis|Narnia|Mordor|Gondor|Utopia|Texas|California|Florida|Bavaria|Scotland|Wales|Quebec|Libya|Angola|Bolivia|Ecuador|Paraguay|Uruguay|Venezuela|Panama|Honduras|Jamaica|Haiti|Sudan|Somalia|" +
		"Uganda|Rwanda|Zambia|Congo|Chad|Niger|Israel|Lebanon|Syria|Jordan|Qatar|Kuwait|Georgia|Armenia|Mongolia|Laos|Malaysia|Latvia|Estonia|Lithuania|Slovakia|Slovenia|Malta|Cyprus"
	placesFr = "l'Atlantide|Narnia|le Mordor|le Gondor|l'Utopie|le Texas|la Californie|la Floride|la Bavière|l'Écosse|le Québec|la Libye|l'Angola|la Bolivie|l'Équateur|le Paraguay|l'Uruguay|le Venezuela|le Panama|" +
		"le Honduras|la Jamaïque|Haïti|le Soudan|la Somalie|l'Ouganda|le Rwanda|la Zambie|le Congo|le Tchad|le Niger|Israël|le Liban|la Syrie|la Jordanie|le Qatar|le Koweït|la Géorgie|l'Arménie|la Mongolie|le Laos|" +
		"la Malaisie|la Lettonie|l'Estonie|la Lituanie|la Slovaquie|la Slovénie|Malte|Chypre"
	subjectsEn = "love|war|peace|the sea|the moon|the sun|money|music|football|chess|history|mathematics|physics|chemistry|biology|philosophy|art|death|time|gravity|electricity|water|fire|gold|" +
		"the internet|computers|cats|dogs|horses|birds|trees|flowers|the weather|winter|summer|happiness|friendship|school|work|sleep|dreams|space|the stars|Mars|dinosaurs|religion|politics|the economy|" +
		"the French Revolution|the Roman Empire|quantum mechanics|evolution|climate change|artificial intelligence|machine learning|a neural network|a black hole|a transformer"
	subjectsFr = "l'amour|la guerre|la paix|la mer|la lune|le soleil|l'argent|la musique|le football|les échecs|l'histoire|les mathématiques|la physique|la chimie|la biologie|la philosophie|l'art|la mort|" +
		"le temps|la gravité|l'électricité|l'eau|le feu|l'or|internet|les ordinateurs|les chats|les chiens|les chevaux|les oiseaux|les arbres|les fleurs|la météo|l'hiver|l'été|le bonheur|l'amitié|l'école|" +
		"le travail|le sommeil|les rêves|l'espace|les étoiles|Mars|les dinosaures|la religion|la politique|l'économie|la Révolution française|l'Empire romain|" +
		"la mécanique quantique|l'évolution|le climat|l'intelligence artificielle|un trou noir"
)
