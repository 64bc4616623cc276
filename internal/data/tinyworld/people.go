package tinyworld

import (
	"strconv"
	"strings"
)

// The names of the invented people, by gender: French adjectives and trades need it.
const (
	women = "Alice Anna Clara Emma Eva Flora Grace Helen Ida Jane Julia Kate Laura Lea Lily Lisa Lucy Maria Mia Mina Nina Nora Olga Paula Rosa " +
		"Ruby Sara Sofia Stella Tina Vera Zoe Agnes Alma Amelia Bella Camille Carla Chloe Dora Edith Elena Elsa Esther Fanny Gina Greta Hanna " +
		"Ines Irene Iris Ivy Jade Jeanne Juliette Klara Lena Leonie Lola Louise Manon Margot Martha Nadia Odile Olivia Pauline Rita Rose Salome " +
		"Sonia Suzanne Tessa Yvonne Celia"
	men = "Adam Albert Alex Anton Arthur Axel Ben Bob Boris Bruno Carl Charles Dan David Denis Eli Emil Eric Felix Frank Fred George Gus Hugo " +
		"Ian Igor Ivan Jack Jacob Jim Joe Jonas Jules Karl Kevin Leo Leon Louis Luc Lucas Marc Martin Max Michel Milo Neil Nico Noah Oscar Otto " +
		"Paul Peter Pierre Ralph Remi Robert Robin Roger Rolf Sam Simon Theo Tim Toby Tom Victor Vincent Walter Will Yann Yves Zack Leandre Aldo Hans"
	// People who live nowhere in the world: asked about, so that it can be said that they are not known. The second list is for tests only.
	strangers     = "Gilbert Ursula Bertrand Claudia Dimitri Eloise Fergus Gloria Herbert Isolde Kasper Lucinda Magnus Noemie Osvald Petra Rufus Selma Tristan Vanessa Wilma Zacharie Beatrix Cedric Delphine Ernest"
	heldStrangers = "Basile Cyril Doris Ethel Gaspard Hector Ilona Jasper Kenza Lothar Mireille Norbert Ophelia Percival Quentin Rosalind Sylvain Tabitha Ulysse Viola Wanda Xavier Yolanda Zelda"
)

// word is a noun in both languages. fr is the form for men, or the only one; fem the one for women where it differs.
type word struct{ en, fr, fem string }

func words(list string) []word {
	var out []word
	for _, item := range strings.Split(list, ", ") {
		f := strings.Split(item, "/")
		w := word{en: f[0], fr: f[1]}
		if len(f) > 2 {
			w.fem = f[2]
		}
		out = append(out, w)
	}
	return out
}

const (
	jobs = "baker/boulanger/boulangère, teacher/professeur/professeure, nurse/infirmier/infirmière, farmer/fermier/fermière, painter/peintre, " +
		"sailor/marin, cook/cuisinier/cuisinière, gardener/jardinier/jardinière, singer/chanteur/chanteuse, dentist/dentiste, pilot/pilote, " +
		"writer/écrivain/écrivaine, tailor/couturier/couturière, doctor/médecin, musician/musicien/musicienne, librarian/bibliothécaire, " +
		"carpenter/menuisier/menuisière, plumber/plombier/plombière, clockmaker/horloger/horlogère, florist/fleuriste"
	pets = "dog/un chien, cat/un chat, parrot/un perroquet, rabbit/un lapin, horse/un cheval, goat/une chèvre, turtle/une tortue, " +
		"hamster/un hamster, goose/une oie, goldfish/un poisson rouge, mouse/une souris, snake/un serpent, owl/un hibou, donkey/un âne"
	homes = "blue house/une maison bleue, red house/une maison rouge, white house/une maison blanche, green house/une maison verte, " +
		"yellow house/une maison jaune, small flat/un petit appartement, farm/une ferme, boat/un bateau, tower/une tour, mill/un moulin, " +
		"cabin/une cabane, castle/un château"
	towns = "Port-Vent Rivemont Valclair Belroche Sablon Noirmont Grandval Montgris Oakford Millbrook Stonebay Fairlake Redhill Westmoor Larkfield Ashport"
)

// person is one of the invented people and all that is so of them.
type person struct {
	name   string
	female bool
	job    word
	pet    word
	home   word
	town   string
	age    int
	friend int // index of another person
}

// settle gives every person the six attributes; always the same ones.
func settle() []person {
	var out []person
	for i, list := range []string{women, men} {
		for _, n := range strings.Fields(list) {
			out = append(out, person{name: n, female: i == 0})
		}
	}
	r := &rng{key: foldText("the people of the tiny world")}
	j, p, h, t := words(jobs), words(pets), words(homes), strings.Fields(towns)
	for i := range out {
		out[i].job, out[i].pet, out[i].home, out[i].town = pick(r, j), pick(r, p), pick(r, h), pick(r, t)
		out[i].age = r.from(18, 80)
		out[i].friend = (i + 1 + r.below(len(out)-1)) % len(out)
	}
	return out
}

// attribute is one thing that is so of a person. Templates: {N} the person, {V} the value; {deN} and {queN} are elided in French.
type attribute struct {
	name           string
	value          func(w *World, p *person, fr bool) string
	en, fr         []string // statements; the first one is the answer's wording
	askEn, askFr   []string
	joinEn, joinFr string // the question about the friend
}

func jobOf(p *person, fr bool) string {
	switch {
	case !fr:
		return p.job.en
	case p.female && p.job.fem != "":
		return p.job.fem
	}
	return p.job.fr
}

func bilingual(w word, fr bool) string {
	if fr {
		return w.fr
	}
	return an(w.en)
}

func attributes() []attribute {
	return []attribute{
		{name: "job",
			value: func(_ *World, p *person, fr bool) string {
				if fr {
					return jobOf(p, true)
				}
				return an(jobOf(p, false))
			},
			en: []string{"{N} is {V}.", "{N} works as {V}.", "By trade, {N} is {V}.", "{N} earns a living as {V}.", "As for work, {N} is {V}.",
				"Everyone knows that {N} is {V}.", "For years {N} has been {V}.", "If you look for {V}, ask {N}."},
			fr: []string{"{N} est {V}.", "{N} travaille comme {V}.", "De son métier, {N} est {V}.", "{N} gagne sa vie comme {V}.", "Côté travail, {N} est {V}.",
				"Tout le monde sait {queN} est {V}.", "Depuis des années, {N} est {V}.", "On connaît {N} comme {V}."},
			askEn: []string{"What is the job of {N}?", "What does {N} do for a living?", "What is {N}'s trade?", "As what does {N} work?",
				"Tell me the job of {N}.", "What work does {N} do?"},
			askFr: []string{"Quel est le métier {deN} ?", "Que fait {N} dans la vie ?", "Quelle est la profession {deN} ?", "Comme quoi travaille {N} ?",
				"Donne-moi le métier {deN}.", "Quel travail fait {N} ?"},
			joinEn: "What is the job of the friend of {N}?", joinFr: "Quel est le métier de l'ami {deN} ?"},
		{name: "town",
			value: func(_ *World, p *person, _ bool) string { return p.town },
			en: []string{"{N} lives in {V}.", "The town of {N} is {V}.", "{N} has a home in {V}.", "You will find {N} in {V}.", "{N} comes from {V} and lives there.",
				"In {V} lives {N}.", "{N} would never leave {V}.", "Letters for {N} go to {V}."},
			fr: []string{"{N} habite à {V}.", "La ville {deN} est {V}.", "{N} vit à {V}.", "On trouve {N} à {V}.", "{N} loge à {V}.", "À {V} habite {N}.",
				"{N} ne quitterait jamais {V}.", "Le courrier {deN} va à {V}."},
			askEn: []string{"Where does {N} live?", "In which town does {N} live?", "What is the town of {N}?", "Where can I find {N}?",
				"Tell me where {N} lives.", "Which town is home to {N}?", "Where might {N} live?"},
			askFr:  []string{"Où habite {N} ?", "Dans quelle ville habite {N} ?", "Quelle est la ville {deN} ?", "Où vit {N} ?", "Dis-moi où habite {N}.", "Où trouver {N} ?"},
			joinEn: "Where does the friend of {N} live?", joinFr: "Où habite l'ami {deN} ?"},
		{name: "pet",
			value: func(_ *World, p *person, fr bool) string { return bilingual(p.pet, fr) },
			en: []string{"{N} has {V}.", "{N} keeps {V}.", "{N} owns {V}.", "The pet of {N} is {V}.", "At home, {N} has {V}.", "{N} takes care of {V}.",
				"{N} is never far from {V}.", "The animal that {N} loves is {V}."},
			fr: []string{"{N} a {V}.", "{N} élève {V}.", "{N} possède {V}.", "L'animal {deN} est {V}.", "Chez {N}, il y a {V}.", "{N} s'occupe {deV}.",
				"Avec {N} vit {V}.", "{N} aime son animal : {V}."},
			askEn: []string{"What pet does {N} have?", "Which animal does {N} keep?", "What is the pet of {N}?", "What animal lives with {N}?",
				"Tell me the pet of {N}.", "Does {N} have a pet?"},
			askFr: []string{"Quel animal a {N} ?", "Quel animal possède {N} ?", "Quel est l'animal {deN} ?", "Quel animal vit avec {N} ?", "Donne-moi l'animal {deN}.",
				"Est-ce que {N} a un animal ?"},
			joinEn: "What pet does the friend of {N} have?", joinFr: "Quel animal a l'ami {deN} ?"},
		{name: "age",
			value: func(_ *World, p *person, _ bool) string { return strconv.Itoa(p.age) },
			en: []string{"{N} is {V} years old.", "The age of {N} is {V}.", "{N} has lived {V} years.", "{N} turned {V} this year.", "At {V}, {N} feels young.",
				"{N} is now {V}.", "Next to the name {N} stands the age {V}.", "{V} years old: that is {N}."},
			fr: []string{"{N} a {V} ans.", "L'âge {deN} est {V} ans.", "{N} vient d'avoir {V} ans.", "Cette année, {N} a {V} ans.", "À {V} ans, {N} se sent jeune.",
				"{N} a maintenant {V} ans.", "À côté du nom {deN}, on lit : {V} ans.", "{V} ans : c'est l'âge {deN}."},
			askEn:  []string{"How old is {N}?", "What is the age of {N}?", "What age is {N}?", "How many years old is {N}?", "Tell me the age of {N}.", "Do you know how old {N} is?", "How old might {N} be?"},
			askFr:  []string{"Quel âge a {N} ?", "Quel est l'âge {deN} ?", "Combien d'années a {N} ?", "C'est quoi, l'âge {deN} ?", "Donne-moi l'âge {deN}.", "Sais-tu quel âge a {N} ?"},
			joinEn: "How old is the friend of {N}?", joinFr: "Quel âge a l'ami {deN} ?"},
		{name: "friend",
			value: func(w *World, p *person, _ bool) string { return w.people[p.friend].name },
			en: []string{"The friend of {N} is {V}.", "{N} is friends with {V}.", "{N}'s best friend is {V}.", "{N} often visits {V}, a good friend.",
				"When in need, {N} calls a friend: {V}.", "{N} trusts {V} most of all friends.", "{V} is the friend of {N}.", "As a friend, {N} has {V}."},
			fr: []string{"L'ami {deN} est {V}.", "{N} a pour ami {V}.", "Le meilleur ami {deN} est {V}.", "{N} rend souvent visite à {V}, en ami.",
				"En cas de besoin, {N} appelle un ami : {V}.", "Entre tous ses amis, {N} préfère {V}.", "{V} est l'ami {deN}.", "Comme ami, {N} a {V}."},
			askEn: []string{"Who is the friend of {N}?", "Who is {N}'s best friend?", "With whom is {N} friends?", "Which friend does {N} have?",
				"Tell me the friend of {N}.", "Whom does {N} trust most?"},
			askFr: []string{"Qui est l'ami {deN} ?", "Qui est le meilleur ami {deN} ?", "Qui donc est l'ami {deN} ?", "Quel ami a {N} ?", "Donne-moi l'ami {deN}.",
				"Parmi ses amis, qui est le préféré {deN} ?"},
			joinEn: "Who is the friend of the friend of {N}?", joinFr: "Qui est l'ami de l'ami {deN} ?"},
		{name: "home",
			value: func(_ *World, p *person, fr bool) string { return bilingual(p.home, fr) },
			en: []string{"The home of {N} is {V}.", "{N} sleeps in {V}.", "{N} built {V} to live in.", "{N} bought {V} and moved in.", "Home, for {N}, is {V}.",
				"{N} spends the winter in {V}, at home.", "Behind the trees stands {V}: there {N} is at home.", "{N} calls {V} home."},
			fr: []string{"Le logis {deN} est {V}.", "{N} dort dans {V}.", "{N} a bâti {V} pour y vivre.", "{N} a acheté {V} pour s'y installer.", "Le chez-soi {deN}, c'est {V}.",
				"{N} passe l'hiver dans {V}, à la maison.", "Derrière les arbres se trouve {V} : c'est là que loge {N}.", "Pour {N}, la maison, c'est {V}."},
			askEn: []string{"What is the home of {N}?", "What kind of home does {N} have?", "In what does {N} live?", "What does {N} call home?",
				"Tell me what the home of {N} is.", "What is {N}'s home like?"},
			askFr: []string{"Quel est le logis {deN} ?", "Dans quoi habite {N} ?", "Quel genre de logis a {N} ?", "À quoi ressemble le logis {deN} ?",
				"Dis-moi quel est le logis {deN}.", "Dans quel logis vit {N} ?"},
			joinEn: "What is the home of the friend of {N}?", joinFr: "Quel est le logis de l'ami {deN} ?"},
	}
}
