package tinyworld

import (
	"strconv"
	"strings"
)

// json: answers as one JSON object, for programs that read them: capitals, people, the novel, sums, what was just told, and that something is not
// known. A word within quotes is other tokens than the same word in a sentence, so what the other families teach is asked here once more. The keys
// are those that the question names; where it names none, the usual one of its kind. The test split words all of it otherwise.

// field is a key and its value as JSON.
type field struct{ key, value string }

func object(fields ...field) string {
	var out []string
	for _, f := range fields {
		out = append(out, quote(f.key)+":"+f.value)
	}
	return "{" + strings.Join(out, ",") + "}"
}

// Ways to ask for JSON: {q} is a question and {k} the key; those of the second kind leave the key to the one who answers.
const (
	keyedEn = "{q} Answer in JSON with the key {k}.|{q} Reply as JSON with the key {k}.|Answer in JSON with the key {k}: {q}|As JSON with the key {k}: {q}|" +
		"{q} Give a JSON object with the key {k}.|{q} Answer like this: {\"{k}\": ...}|{q} JSON, key {k}."
	keyedHeldEn = "{q} I want JSON with the key {k}.|Write JSON with the key {k}: {q}"
	keyedFr     = "{q} Réponds en JSON avec la clé {k}.|{q} Donne du JSON avec la clé {k}.|Réponds en JSON avec la clé {k} : {q}|En JSON avec la clé {k} : {q}|" +
		"{q} Donne un objet JSON avec la clé {k}.|{q} Réponds comme ceci : {\"{k}\": ...}|{q} JSON, clé {k}."
	keyedHeldFr = "{q} Je veux du JSON avec la clé {k}.|Écris du JSON avec la clé {k} : {q}"
	freeEn      = "Reply in JSON: {q}|{q} Answer in JSON.|In JSON, please: {q}|{q} Reply with JSON.|JSON: {q}|Answer as a JSON object: {q}|{q} JSON only.|Answer in JSON: {q}"
	freeHeldEn  = "{q} As JSON, please.|Please answer in JSON: {q}"
	freeFr      = "Réponds en JSON : {q}|{q} Réponds en JSON.|En JSON, s'il te plaît : {q}|{q} Donne du JSON.|JSON : {q}|Réponds par un objet JSON : {q}|{q} JSON seulement.|Donne en JSON : {q}"
	freeHeldFr  = "{q} En JSON, merci.|Réponds donc en JSON : {q}"

	phraseEn     = "Give the capital {of} as JSON with the key {k}.|Return the capital {of} as a JSON object with the key {k}.|The capital {of} as JSON with the key {k}, please."
	phraseHeldEn = "Put the capital {of} into JSON with the key {k}.|I need the capital {of} as JSON with the key {k}."
	phraseFr     = "Donne la capitale {of} en JSON avec la clé {k}.|Renvoie la capitale {of} dans un objet JSON avec la clé {k}.|La capitale {of} en JSON avec la clé {k}, s'il te plaît."
	phraseHeldFr = "Mets la capitale {of} en JSON avec la clé {k}.|Il me faut la capitale {of} en JSON avec la clé {k}."

	keysEn = "answer result value response reply output city town name place text data info"
	keysFr = "réponse résultat valeur sortie ville nom lieu texte info answer result capital city"
)

// wordings gives those of the split and the language, one of them.
func (s *sheet) wordings(en, heldEn, fr, heldFr string) string {
	if s.held() {
		en, fr = heldEn, heldFr
	}
	return pick(s.rng, strings.Split(s.say(en, fr), "|"))
}

// keyFor draws a key for what is usually called so.
func (s *sheet) keyFor(usual string) string {
	if s.odds(3, 5) {
		return usual
	}
	return pick(s.rng, strings.Fields(s.say(keysEn, keysFr)))
}

// inJSON words a question so that it asks for JSON, and gives the key of the answer. The wish may be the system's. plain says that the question may
// begin with a small letter.
func (s *sheet) inJSON(q, usual string, plain bool) (asked, key string) {
	frame := s.wordings(freeEn, freeHeldEn, freeFr, freeHeldFr)
	if key = usual; s.odds(1, 2) {
		key = s.keyFor(usual)
		frame = fill(s.wordings(keyedEn, keyedHeldEn, keyedFr, keyedHeldFr), "k", key)
	}
	if plain && strings.HasSuffix(frame, ": {q}") && s.odds(1, 2) {
		q = lower(q)
	}
	if rest, ok := strings.CutPrefix(frame, "{q} "); ok && len(s.doc.Messages) == 0 && s.odds(1, 4) {
		s.system(rest)
		return q, key
	}
	return fill(frame, "q", q), key
}

// objects makes questions that are answered in JSON; in plain text short ones, each with its object on its line.
func objects(s *sheet) {
	s.level(1)
	if !s.chat {
		for range s.from(4, 8) {
			s.lineJSON()
		}
		return
	}
	switch s.below(12) {
	case 0, 1:
		s.told()
	case 2:
		s.profile()
	case 3:
		s.factJSON()
	default:
		s.few()
	}
}

// lineJSON asks for a capital or about a person.
func (s *sheet) lineJSON() {
	if s.odds(1, 4) {
		p, a, q := s.someone()
		s.raw(q, object(field{s.keyOf(a), s.valueJSON(a, p)}))
		return
	}
	c := pick(s.rng, s.countries())
	s.raw(s.capitalOf(c.of), object(field{s.say("capital", "capitale"), quote(c.capital)}))
}

// few asks one to three short questions.
func (s *sheet) few() {
	for range s.from(1, 3) {
		switch s.below(20) {
		case 0, 1, 2, 3:
			s.personJSON()
		case 4:
			s.riddleJSON()
		case 5:
			s.sumJSON()
		default:
			s.capitalJSON()
		}
	}
}

// capitalJSON asks for a capital, and often for the next one in short: its answer has the same key.
func (s *sheet) capitalJSON() {
	c := pick(s.rng, s.countries())
	usual := s.say("capital", "capitale")
	var q, key string
	switch s.below(8) {
	case 0:
		s.placeJSON(c)
		return
	case 1, 2, 3:
		key = s.keyFor(usual)
		q = fill(s.wordings(phraseEn, phraseHeldEn, phraseFr, phraseHeldFr), "of", c.of, "k", key)
	default:
		q, key = s.inJSON(s.capitalOf(c.of), usual, true)
	}
	s.turn(q, object(field{key, quote(c.capital)}), "")
	if s.odds(1, 2) {
		c = pick(s.rng, s.countries())
		s.turn(s.moreOf(c), object(field{key, quote(c.capital)}), "")
	}
}

// placeJSON asks for a country and its capital.
func (s *sheet) placeJSON(c country) {
	s.level(2)
	keys := s.both([]string{"country", "capital"}, []string{"pays", "capitale"})
	q := s.wordings("The capital {of}: answer in JSON with the keys {k}.|What is the capital {of}? Answer in JSON with the keys {k}.", "Put the capital {of} into JSON with the keys {k}.",
		"La capitale {of} : réponds en JSON avec les clés {k}.|Quelle est la capitale {of} ? Réponds en JSON avec les clés {k}.", "Mets la capitale {of} en JSON avec les clés {k}.")
	s.turn(fill(q, "of", c.of, "k", strings.Join(keys, ", ")), object(field{keys[0], quote(bare(c.name))}, field{keys[1], quote(c.capital)}), "")
}

// bare is a country's name without its article.
func bare(name string) string {
	for _, a := range []string{"the ", "la ", "le ", "les ", "l'"} {
		if rest, ok := strings.CutPrefix(name, a); ok {
			return rest
		}
	}
	return name
}

// keyOf is the usual key of what is so of a person.
func (s *sheet) keyOf(a *attribute) string {
	fr := map[string]string{"job": "métier", "town": "ville", "pet": "animal", "age": "âge", "friend": "ami", "home": "logis"}
	return s.say(a.name, fr[a.name])
}

// valueJSON is what is so of a person, as JSON: without an article, an age as a number.
func (s *sheet) valueJSON(a *attribute, p *person) string {
	v := a.value(s.w, p, s.fr)
	if a.name == "age" {
		return v
	}
	for _, article := range []string{"a ", "an ", "un ", "une "} {
		if rest, ok := strings.CutPrefix(v, article); ok {
			v = rest
			break
		}
	}
	return quote(v)
}

func (s *sheet) anyone() *person { return &s.w.people[s.below(len(s.w.people))] }

// someone draws a person and a question about that person that belongs to the split.
func (s *sheet) someone() (p *person, a *attribute, q string) {
	for a == nil {
		p = s.anyone()
		a, q = s.about(p)
	}
	return p, a, q
}

// personJSON asks one thing about a person.
func (s *sheet) personJSON() {
	p, a, q := s.someone()
	q, key := s.inJSON(q, s.keyOf(a), true)
	s.turn(q, object(field{key, s.valueJSON(a, p)}), "")
}

// profile asks several things about a person.
func (s *sheet) profile() {
	for range s.from(1, 2) {
		p := s.anyone()
		var keys []string
		var fields []field
		for _, i := range sample(s.rng, []int{0, 1, 2, 3, 4, 5}, s.from(2, 4)) {
			a := &s.w.attributes[i]
			keys = append(keys, s.keyOf(a))
			fields = append(fields, field{s.keyOf(a), s.valueJSON(a, p)})
		}
		s.level(len(fields))
		q := s.wordings("Describe {N} as JSON with the keys {k}.|Give {k} of {N} as JSON.|Tell me about {N} in JSON with the keys {k}.", "Write {N} down as JSON with the keys {k}.",
			"Décris {N} en JSON avec les clés {k}.|Donne en JSON {k} {deN}.|Parle-moi {deN} en JSON avec les clés {k}.", "Écris {N} en JSON avec les clés {k}.")
		s.turn(s.name(fill(q, "k", strings.Join(keys, ", ")), p.name, ""), object(fields...), "")
	}
}

// factJSON asks about the novel or the one who answers, and wants the whole sentence.
func (s *sheet) factJSON() {
	list := s.w.facts
	if s.odds(1, 4) {
		list = s.w.talk
	}
	w := list[s.below(len(list))].in(s.fr)
	q := pick(s.rng, w.ask)
	if s.held() && len(w.held) > 0 {
		q = pick(s.rng, w.held)
	}
	q, key := s.inJSON(q, s.say("answer", "réponse"), false)
	s.turn(q, object(field{key, quote(w.answer)}), "")
}

// riddleJSON asks what has no answer.
func (s *sheet) riddleJSON() {
	q, _, key := s.riddle()
	usual := s.say("answer", "réponse")
	if strings.Contains(strings.ToLower(q), "capital") {
		usual = s.say("capital", "capitale")
	}
	q, k := s.inJSON(q, usual, false)
	s.turn(q, object(field{k, quote(key)}), "")
}

func (s *sheet) sumJSON() {
	x := s.sum(2)
	q, key := s.inJSON(s.say("What is ", "Combien font ")+x.text()+s.say("?", " ?"), s.say("result", "résultat"), true)
	s.turn(q, object(field{key, strconv.Itoa(x.result())}), "")
}

// What can be told of someone: {N} the name, {T} a town, {A} the age, {J} the job; and how it is asked for.
const (
	toldEn = "{N} lives in {T} and is {A} years old.|{N}, {A}, lives in {T}.|{N} is {A} years old and lives in {T}.|My name is {N}, I live in {T} and I am {A}.|" +
		"{N} is {A}, works as {J} and lives in {T}.|{N} works as {J} in {T}."
	toldHeldEn = "{N} lives in {T} and is {A} years old.|At {A}, {N} lives in {T}.|{N} of {T} is {A} and works as {J}."
	toldFr     = "{N} habite à {T} et a {A} ans.|{N}, {A} ans, habite à {T}.|{N} a {A} ans et habite à {T}.|Je m'appelle {N}, j'habite à {T} et j'ai {A} ans.|" +
		"{N} a {A} ans, travaille comme {J} et habite à {T}.|{N} travaille comme {J} à {T}."
	toldHeldFr = "{N} habite à {T} et a {A} ans.|À {A} ans, {N} habite à {T}.|{N} de {T} a {A} ans et travaille comme {J}."

	extractEn     = "Answer in JSON with the {keys} {k}.|Answer in JSON with the {keys} {k}.|Extract {k} as JSON.|Give {k} as JSON.|Return JSON with the {keys} {k}."
	extractHeldEn = "Fill a JSON object: {k}."
	extractFr     = "Réponds en JSON avec {keys} {k}.|Réponds en JSON avec {keys} {k}.|Extrais {k} en JSON.|Donne {k} en JSON.|Renvoie du JSON avec {keys} {k}."
	extractHeldFr = "Remplis un objet JSON : {k}."
)

// told asks for what was just told, under keys of the asker's choice. Names and towns are made up or put together at random: they must be copied from the
// words before, whatever is so of people in the world.
func (s *sheet) told() {
	for range s.from(1, 2) {
		name, town, age, job := s.anyone().name, s.city(), strconv.Itoa(s.from(18, 80)), pick(s.rng, s.w.people).job
		if s.odds(1, 3) {
			name = s.coin()
		}
		said := s.wordings(toldEn, toldHeldEn, toldFr, toldHeldFr)
		var all []field
		add := func(mark, en, fr, value string) {
			if strings.Contains(said, mark) {
				all = append(all, field{pick(s.rng, strings.Fields(s.say(en, fr))), value})
			}
		}
		add("{N}", "name name name person who", "nom nom nom personne qui", quote(name))
		add("{T}", "town town city place", "ville ville lieu endroit", quote(town))
		add("{A}", "age age years", "âge âge ans", age)
		add("{J}", "job job work", "métier métier travail", quote(s.say(job.en, job.fr)))
		fields := sample(s.rng, all, s.from(1, len(all)))
		s.level(len(fields))
		s.note(fill(said, "N", name, "T", town, "A", age, "J", s.say(an(job.en), job.fr)))
		s.turn(s.extract(fields), object(fields...), "")
	}
}

// extract asks for some of what was told.
func (s *sheet) extract(fields []field) string {
	var keys []string
	for _, f := range fields {
		keys = append(keys, f.key)
	}
	noun := s.say("key", "la clé")
	if len(keys) > 1 {
		noun = s.say("keys", "les clés")
	}
	return fill(s.wordings(extractEn, extractHeldEn, extractFr, extractHeldFr), "keys", noun, "k", strings.Join(keys, ", "))
}
