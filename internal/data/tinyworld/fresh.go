package tinyworld

import (
	"strings"

	"tinyloop/internal/data"
)

// freshText rewords the questions that people try first. It was written before the last sitting of the model inside and asked once, after it: the wordings that
// acceptance holds back were met several times on the way to that model, and its training got wordings close to those it missed.
//
//	question of acceptance | other wordings
const freshText = `
Who is Passepartout? | I wonder who Passepartout is. | Who exactly is Passepartout? | Any idea who Passepartout is? | Passepartout, who is that? | Let me know who Passepartout is.
Who is Fix? | Who exactly is Fix? | Remind me who Fix is. | So who is Fix? | Who is this Fix? | Do you happen to know who Fix is? | Fix, who is he?
Qui est Passepartout ? | Passepartout, c'est qui ? | Qui est ce Passepartout ? | Passepartout, qui est-ce ? | Je me demande qui est Passepartout. | Tu sais qui est Passepartout ?
Qui est Fix ? | Fix, c'est qui ? | Qui est ce Fix ? | Rappelle-moi qui est Fix. | Alors, qui est Fix ? | Tu peux me dire qui est Fix ?
Qui est Phileas Fogg ? | Phileas Fogg, c'est qui ? | Qui est ce Phileas Fogg ? | Qui est au juste Phileas Fogg ? | Je voudrais savoir qui est Phileas Fogg.
Hi | Hello, friend | Good morning to you | Hey you | Hello, TinyLoop | Hi, TinyLoop! | A very good day to you
Bonjour | Bonjour, TinyLoop | Bonjour à tous | Salut, mon ami | Bonsoir à toi | Coucou toi
Count | Count, will you? | Please count a bit. | Could you count, please? | Let's count.
Compte | Compte donc. | Pourrais-tu compter ? | Veux-tu compter ? | Compte, je te prie.
The meaning of life is | What is the point of life? | So what is the meaning of life? | What does life mean?
Who are you? | Who am I talking to? | Your name? | Who are you, then? | So who are you?
Qui es-tu ? | À qui est-ce que je parle ? | Ton nom ? | C'est quoi, ton nom ? | Alors, qui es-tu ? | Qui êtes-vous ?
What can you do? | What can you do, exactly? | So what can you do? | What sort of things can you do? | What can I ask you?
Que sais-tu faire ? | Que sais-tu faire, au juste ? | Alors, que sais-tu faire ? | Qu'est-ce que tu sais faire ? | Que puis-je te demander ?
Thanks | Thanks, friend | Thank you, TinyLoop | Thanks for that | Thank you kindly | Thanks!
Merci | Merci, mon ami | Merci, TinyLoop | Merci pour tout | Je te remercie beaucoup
Count to 5. | Count to five. | Count until 5. | I want you to count to 5. | Let's count to 5.
Compte jusqu'à 5. | Compte jusqu'à cinq. | Compte donc jusqu'à 5. | Pourrais-tu compter jusqu'à 5 ?
Capital of France? | France's capital? | Which city is France's capital? | What city is the capital of France?
Capital of Spain? | Remind me of the capital of Spain. | Spain's capital?
Capital of Italy? | So what is the capital of Italy? | Italy's capital? | What is Italy's capital?
Capitale de la France ? | C'est quoi, la capitale de la France ? | Quelle est donc la capitale de la France ? | Rappelle-moi la capitale de la France.
Capitale de l'Espagne ? | La capitale de l'Espagne, c'est quoi ? | Quelle est la capitale de l'Espagne, déjà ?
Capitale de l'Italie ? | C'est quoi, la capitale de l'Italie ? | Je voudrais connaître la capitale de l'Italie.
`

// carelessly is a question as people type it who leave out capitals and points.
func carelessly(q string) string { return strings.ToLower(strings.TrimRight(q, " ?.!")) }

// again makes questions of those of acceptance: reword gives the wordings that take a question's place.
func (w *World) again(family string, reword func(question string) []string) []*data.Doc {
	var e exam
	asked := map[string]bool{}
	for _, d := range w.acceptance() {
		for _, q := range reword(d.Messages[0].Content) {
			if asked[q] {
				continue
			}
			asked[q] = true
			a := d.Labels.Answers[0]
			e.add(family, d.Labels.Lang == "fr", d.Labels.Difficulty, q, d.Messages[1].Content, d.Messages[1].Content[a.Start:a.End])
		}
	}
	return e.docs
}

func (w *World) careless() []*data.Doc {
	return w.again("careless", func(q string) []string { return []string{carelessly(q)} })
}

func (w *World) fresh() []*data.Doc {
	wordings := map[string][]string{}
	for l := range strings.SplitSeq(strings.TrimSpace(freshText), "\n") {
		q := strings.Split(l, " | ")
		wordings[q[0]] = q[1:]
	}
	docs := w.again("fresh", func(q string) []string { return wordings[q] })
	for _, d := range docs {
		d.Labels.Difficulty = 1
	}
	return docs
}
