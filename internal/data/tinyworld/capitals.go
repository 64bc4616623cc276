package tinyworld

import "strings"

// country/pays/capital/capitale. French names carry their article, which decides between de la, du, de l' and des.
const countries = `France/la France/Paris/Paris
Spain/l'Espagne/Madrid/Madrid
Italy/l'Italie/Rome/Rome
Germany/l'Allemagne/Berlin/Berlin
Portugal/le Portugal/Lisbon/Lisbonne
Belgium/la Belgique/Brussels/Bruxelles
the Netherlands/les Pays-Bas/Amsterdam/Amsterdam
Switzerland/la Suisse/Bern/Berne
Austria/l'Autriche/Vienna/Vienne
Poland/la Pologne/Warsaw/Varsovie
Greece/la Grèce/Athens/Athènes
Sweden/la Suède/Stockholm/Stockholm
Norway/la Norvège/Oslo/Oslo
Denmark/le Danemark/Copenhagen/Copenhague
Finland/la Finlande/Helsinki/Helsinki
Iceland/l'Islande/Reykjavik/Reykjavik
Ireland/l'Irlande/Dublin/Dublin
the United Kingdom/le Royaume-Uni/London/Londres
Hungary/la Hongrie/Budapest/Budapest
Romania/la Roumanie/Bucharest/Bucarest
Bulgaria/la Bulgarie/Sofia/Sofia
Croatia/la Croatie/Zagreb/Zagreb
Serbia/la Serbie/Belgrade/Belgrade
Albania/l'Albanie/Tirana/Tirana
Ukraine/l'Ukraine/Kyiv/Kiev
Russia/la Russie/Moscow/Moscou
Turkey/la Turquie/Ankara/Ankara
Egypt/l'Égypte/Cairo/Le Caire
Morocco/le Maroc/Rabat/Rabat
Algeria/l'Algérie/Algiers/Alger
Tunisia/la Tunisie/Tunis/Tunis
Senegal/le Sénégal/Dakar/Dakar
Mali/le Mali/Bamako/Bamako
Ghana/le Ghana/Accra/Accra
Nigeria/le Nigeria/Abuja/Abuja
Kenya/le Kenya/Nairobi/Nairobi
Ethiopia/l'Éthiopie/Addis Ababa/Addis-Abeba
Madagascar/Madagascar/Antananarivo/Antananarivo
India/l'Inde/New Delhi/New Delhi
China/la Chine/Beijing/Pékin
Japan/le Japon/Tokyo/Tokyo
South Korea/la Corée du Sud/Seoul/Séoul
Vietnam/le Viêt Nam/Hanoi/Hanoï
Thailand/la Thaïlande/Bangkok/Bangkok
Indonesia/l'Indonésie/Jakarta/Jakarta
the Philippines/les Philippines/Manila/Manille
Nepal/le Népal/Kathmandu/Katmandou
Pakistan/le Pakistan/Islamabad/Islamabad
Iran/l'Iran/Tehran/Téhéran
Iraq/l'Irak/Baghdad/Bagdad
Australia/l'Australie/Canberra/Canberra
New Zealand/la Nouvelle-Zélande/Wellington/Wellington
Canada/le Canada/Ottawa/Ottawa
the United States/les États-Unis/Washington/Washington
Mexico/le Mexique/Mexico City/Mexico
Cuba/Cuba/Havana/La Havane
Brazil/le Brésil/Brasília/Brasilia
Argentina/l'Argentine/Buenos Aires/Buenos Aires
Chile/le Chili/Santiago/Santiago
Peru/le Pérou/Lima/Lima
Colombia/la Colombie/Bogotá/Bogota`

// country is one of them in one language.
type country struct{ name, of, capital string }

func lands(fr bool) []country {
	var out []country
	for line := range strings.SplitSeq(countries, "\n") {
		f := strings.Split(line, "/")
		if fr {
			out = append(out, country{f[1], ofFr(f[1]), f[3]})
		} else {
			out = append(out, country{f[0], "of " + f[0], f[2]})
		}
	}
	return out
}

func (s *sheet) countries() []country {
	if s.fr {
		return s.w.lands[1]
	}
	return s.w.lands[0]
}

// ofFr is "of the country" in French.
func ofFr(name string) string {
	switch {
	case strings.HasPrefix(name, "le "):
		return "du " + name[3:]
	case strings.HasPrefix(name, "les "):
		return "des " + name[4:]
	}
	return "de " + name
}

var (
	capitalEn = []string{"What is the capital {of}?", "Capital {of}?", "Which city is the capital {of}?", "Do you know the capital {of}?", "Tell me the capital {of}.", "The capital {of}?",
		"Give me the capital {of}.", "I would like to know the capital {of}.", "Do you know what the capital {of} is?", "Please tell me the capital {of}.", "What's the capital {of}?", "{N}'s capital?", "What is {N}'s capital?", "Which city is {N}'s capital?", "Could you give me the capital {of}?"}
	capitalHeldEn = []string{"Name the capital {of}.", "Can you tell me the capital {of}?"}
	capitalFr     = []string{"Quelle est la capitale {of} ?", "Capitale {of} ?", "Quelle ville est la capitale {of} ?", "Connais-tu la capitale {of} ?", "Donne-moi la capitale {of}.", "La capitale {of} ?",
		"Dis-moi la capitale {of}.", "J'aimerais connaître la capitale {of}.", "Sais-tu quelle est la capitale {of} ?", "Indique la capitale {of}.", "C'est quoi la capitale {of} ?", "C'est quoi, la capitale {of} ?", "La capitale {of}, c'est quoi ?", "Quelle est donc la capitale {of} ?", "Pourrais-tu me donner la capitale {of} ?"}
	capitalHeldFr = []string{"Cite la capitale {of}.", "Peux-tu me dire la capitale {of} ?"}
)

func (s *sheet) capitalAnswer(c country) string {
	return s.say("The capital "+c.of+" is "+c.capital+".", "La capitale "+c.of+" est "+c.capital+".")
}

// capital asks for a capital; the test split words it otherwise.
func (s *sheet) capital() {
	c := pick(s.rng, s.countries())
	s.turn(s.typed(s.capitalOf(c.of)), s.capitalAnswer(c), c.capital)
}

// capitalOf asks for the capital of a country or of what is none.
func (s *sheet) capitalOf(of string) string {
	ask := s.both(capitalEn, capitalFr)
	if s.held() {
		ask = s.both(capitalHeldEn, capitalHeldFr)
	}
	return fill(pick(s.rng, ask), "of", of, "N", strings.TrimPrefix(of, "of "))
}

// more asks for another capital in short, as the second question of a talk does.
func (s *sheet) more() {
	c := pick(s.rng, s.countries())
	s.turn(s.careless(s.moreOf(c)), s.capitalAnswer(c), c.capital)
}

func (s *sheet) moreOf(c country) string {
	q := pick(s.rng, s.both([]string{"And {N}?", "And what about {N}?", "And that {of}?"}, []string{"Et {N} ?", "Et pour {N} ?", "Et celle {of} ?"}))
	return fill(q, "N", c.name, "of", c.of)
}

// whose asks the other way round.
func (s *sheet) whose() {
	c := pick(s.rng, s.countries())
	q := s.say("Of which country is "+c.capital+" the capital?", "De quel pays "+c.capital+" est-elle la capitale ?")
	s.turn(s.careless(q), s.say(c.capital+" is the capital "+c.of+".", c.capital+" est la capitale "+c.of+"."), c.of)
}
