package tinyworld

import (
	"strings"

	"tinyloop/internal/data"
)

// freshText rewords the questions that people try first. It was written before the last sitting of the model inside and asked once, after it: the wordings that
// acceptance holds back were met several times on the way to that model, and its training got wordings close to those it missed. A sitting after this list has been
// asked takes another list.
//
//	question of acceptance | other wordings
const freshText = `
Who is Passepartout? | Give me a short portrait of Passepartout. | Introduce Passepartout to me. | Describe Passepartout. | I have forgotten who Passepartout is. | Kindly say who Passepartout is.
Who is Fix? | Describe Fix. | I have forgotten who Fix is. | What sort of man is Fix? | Introduce Fix to me. | Kindly tell me who Fix is.
Qui est Passepartout ? | Décris Passepartout. | J'ai oublié qui est Passepartout. | Présente-moi Passepartout. | Quel genre d'homme est Passepartout ?
Qui est Fix ? | Décris Fix. | J'ai oublié qui est Fix. | Présente-moi Fix. | Qui est-ce donc que Fix ?
Qui est Phileas Fogg ? | Décris Phileas Fogg. | Présente-moi Phileas Fogg. | J'ai oublié qui est Phileas Fogg.
Hi | Hiya | Hello everyone | Hi to you too | Good morning, friend | Yo | Hey hey
Bonjour | Bonsoir, mon ami | Bonjour bonjour | Salut la machine | Bien bonjour à toi
Count | Do count. | Count on. | I would like you to count. | Show me how you count.
Compte | Compte maintenant. | J'aimerais que tu comptes. | Montre-moi comment tu comptes.
The meaning of life is | What does life mean? | What is our life for? | What gives life a meaning? | What should one live for?
Who are you? | Who is speaking? | State your name. | May I know your name? | What are you called? | Whom do I speak with?
Qui es-tu ? | Qui parle ? | Puis-je savoir ton nom ? | Comment dois-je t'appeler ? | Tu es quoi, au fond ?
What can you do? | What are you useful for? | List your skills. | What tasks can you do? | How could you be useful to me? | What are your talents?
Que sais-tu faire ? | À quoi es-tu utile ? | Quels sont tes talents ? | Que pourrais-tu faire pour moi ? | Énumère ce que tu sais faire.
Thanks | Thanks, I appreciate it | Thank you indeed | Thanks a million | That is kind, thank you | Very kind of you
Merci | Merci, c'est gentil | Merci à toi | Je t'en remercie | Merci, vraiment | C'est gentil, merci
Count to 5. | Please go on up to 5. | Give me the numbers from 1 to 5. | Start at 1 and stop at 5. | Count: 1 to 5.
Compte jusqu'à 5. | Donne-moi les nombres de 1 à 5. | Compte, et arrête-toi à 5. | Récite les nombres jusqu'à 5.
Capital of France? | What would the capital of France be? | France: which city is the capital? | I forgot the capital of France. | Which town is the capital of France?
Capital of Spain? | I forgot the capital of Spain. | What might the capital of Spain be? | Spain: the capital, please.
Capital of Italy? | State the capital of Italy. | Which town is the capital of Italy? | Do tell me the capital of Italy.
Capitale de la France ? | Quelle serait la capitale de la France ? | J'ai oublié la capitale de la France. | Écris la capitale de la France.
Capitale de l'Espagne ? | J'ai oublié la capitale de l'Espagne. | Quelle ville sert de capitale à l'Espagne ?
Capitale de l'Italie ? | Écris la capitale de l'Italie. | Quelle serait la capitale de l'Italie ?
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
