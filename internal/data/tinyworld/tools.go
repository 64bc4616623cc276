package tinyworld

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tinyloop/internal/data"
)

// tools: functions that the system offers, called when the question needs one and left alone when it does not. The test split offers functions under
// names that training never shows.

// tool is a function in all its guises.
type tool struct {
	names, held string // what it is called, and in the test split
	about       string
	params      string // name|other name:type, …
	draw        func(*sheet) call
}

// call is one use of a function: what is asked, the arguments' values in the order of the parameters, the result, and what is said of it.
type call struct {
	ask    string
	args   []string // JSON values
	result string
	answer string
	key    string
}

func quote(s string) string { return `"` + s + `"` } // none of the texts here needs escaping

func toolbox() []tool {
	return []tool{
		{"get_weather weather weather_now current_weather", "fetch_forecast sky_report", "Weather of a city", "city|location|place|town:string", weather},
		{"get_time clock time_in local_time", "current_hour city_clock", "Local time of a city", "city|location|place:string", clock},
		{"add sum add_numbers plus", "total compute_sum", "Adds two numbers", "a|x|first:integer, b|y|second:integer", adder},
		{"multiply times product mul", "multiply_numbers compute_product", "Multiplies two numbers", "a|x|first:integer, b|y|second:integer", product},
		{"get_price price price_of cost", "lookup_price shop_price", "Price of a thing in euros", "item|product|thing:string", price},
		{"set_timer timer start_timer countdown", "make_timer wait_minutes", "Starts a timer", "minutes|duration|length:integer", timer},
		{"send_message message write_to send", "post_message notify", "Sends a message to someone", "to|recipient|name:string, text|message|content:string", message},
		{"next_train train find_train train_times", "rail_times lookup_train", "Next train between two towns", "from|origin|start:string, to|destination|end:string", train},
	}
}

// city gives a capital that stands after a preposition as it is, an invented town, or a name that never was: what is written into a call must be
// copied, not recognised.
func (s *sheet) city() string {
	switch s.below(4) {
	case 0:
		return pick(s.rng, strings.Fields(towns))
	case 1:
		return s.coin()
	}
	for {
		if c := s.randomCountry().capital; !strings.HasPrefix(c, "Le ") {
			return c
		}
	}
}

func (s *sheet) randomCountry() country { return pick(s.rng, s.countries()) }

func weather(s *sheet) call {
	c, deg := s.city(), s.from(1, 35)
	sky := pick(s.rng, words("sunny/ensoleillé, cloudy/nuageux, rainy/pluvieux, windy/venteux, foggy/brumeux"))
	ask := pick(s.rng, s.both([]string{"What is the weather in {C}?", "How is the weather in {C}?", "Is it warm in {C}?", "What is the weather like in {C}?", "Weather in {C}?",
		"Tell me the weather in {C}.", "What's the weather like in {C} today?"},
		[]string{"Quel temps fait-il à {C} ?", "Donne-moi la météo à {C}.", "Fait-il chaud à {C} ?", "Quelle est la météo à {C} ?", "Météo à {C} ?", "Quel temps fait-il aujourd'hui à {C} ?"}))
	return call{fill(ask, "C", c), []string{quote(c)}, fmt.Sprintf(`{"sky":%q,"degrees":%d}`, sky.en, deg),
		s.say(fmt.Sprintf("It is %s in %s, %d degrees.", sky.en, c, deg), fmt.Sprintf("Le temps est %s à %s : %d degrés.", sky.fr, c, deg)), strconv.Itoa(deg)}
}

func clock(s *sheet) call {
	c := s.city()
	t := fmt.Sprintf("%02d:%02d", s.below(24), s.below(60))
	ask := pick(s.rng, s.both([]string{"What time is it in {C}?", "Tell me the time in {C}.", "What is the hour in {C}?", "What's the time in {C}?", "Time in {C}?"},
		[]string{"Quelle heure est-il à {C} ?", "Donne-moi l'heure à {C}.", "Il est quelle heure à {C} ?", "Quelle heure à {C} ?"}))
	return call{fill(ask, "C", c), []string{quote(c)}, `{"time":"` + t + `"}`, s.say("It is "+t+" in "+c+".", "Il est "+t+" à "+c+"."), t}
}

func adder(s *sheet) call {
	a, b := s.from(100, 9999), s.from(100, 9999)
	ask := pick(s.rng, s.both([]string{"Use the tool: %d + %d", "How much is %d plus %d?", "Add %d and %d with the tool."},
		[]string{"Utilise l'outil : %d + %d", "Combien font %d plus %d ?", "Additionne %d et %d avec l'outil."}))
	return sumCall(ask, a, b, a+b, "+")
}

func product(s *sheet) call {
	a, b := s.from(2, 99), s.from(2, 99)
	ask := pick(s.rng, s.both([]string{"Multiply %d by %d.", "How much is %d times %d?", "Use the tool: %d x %d"},
		[]string{"Multiplie %d par %d.", "Combien font %d fois %d ?", "Utilise l'outil : %d x %d"}))
	return sumCall(ask, a, b, a*b, "x")
}

func sumCall(ask string, a, b, r int, op string) call {
	n := strconv.Itoa(r)
	return call{fmt.Sprintf(ask, a, b), []string{strconv.Itoa(a), strconv.Itoa(b)}, `{"result":` + n + `}`, fmt.Sprintf("%d %s %d = %s.", a, op, b, n), n}
}

func price(s *sheet) call {
	w, p := pick(s.rng, s.w.things), strconv.Itoa(s.from(1, 99))
	ask := pick(s.rng, s.both([]string{"How much does this cost: {T}?", "What is the price of one {T}?"}, []string{"Combien coûte ceci : {T} ?", "Quel est le prix de l'article : {T} ?"}))
	name := s.say(w.en, w.fr)
	if s.odds(1, 3) {
		name = lower(s.coin())
	}
	return call{fill(ask, "T", name), []string{quote(name)}, `{"euros":` + p + `}`, s.say("The price is "+p+" euros.", "Le prix est de "+p+" euros."), p}
}

func timer(s *sheet) call {
	m := strconv.Itoa(s.from(2, 60))
	ask := pick(s.rng, s.both([]string{"Set a timer for {M} minutes.", "Wake me in {M} minutes.", "Start a timer of {M} minutes."},
		[]string{"Mets un minuteur de {M} minutes.", "Réveille-moi dans {M} minutes.", "Lance un minuteur de {M} minutes."}))
	return call{fill(ask, "M", m), []string{m}, `{"started":true}`, s.say("The timer runs: "+m+" minutes.", "Le minuteur tourne : "+m+" minutes."), m}
}

func message(s *sheet) call {
	n := pick(s.rng, s.w.people).name
	if s.odds(1, 3) {
		n = s.coin()
	}
	text := pick(s.rng, s.both([]string{"I am late", "See you at noon", "Thank you", "Call me", "Dinner is ready"},
		[]string{"Je suis en retard", "Rendez-vous à midi", "Merci", "Appelle-moi", "Le repas est prêt"}))
	ask := pick(s.rng, s.both([]string{"Write to {N}: {T}", "Send {N} the message: {T}"}, []string{"Écris à {N} : {T}", "Envoie à {N} le message : {T}"}))
	return call{fill(ask, "N", n, "T", text), []string{quote(n), quote(text)}, `{"sent":true}`, s.say("The message to "+n+" is sent.", "Le message est envoyé à "+n+"."), n}
}

func train(s *sheet) call {
	t := sample(s.rng, append(strings.Fields(towns), s.coin(), s.coin(), s.coin(), s.coin()), 2)
	at := fmt.Sprintf("%02d:%02d", s.from(5, 22), s.below(60))
	ask := pick(s.rng, s.both([]string{"When is the next train from {A} to {B}?", "I want to go from {A} to {B} by train."},
		[]string{"Quand part le prochain train de {A} à {B} ?", "Je veux aller de {A} à {B} en train."}))
	if s.fr {
		ask = strings.Replace(ask, "de {A}", elide("de", t[0]), 1)
	}
	return call{fill(ask, "A", t[0], "B", t[1]), []string{quote(t[0]), quote(t[1])}, `{"departure":"` + at + `"}`,
		s.say("The next train leaves at "+at+".", "Le prochain train part à "+at+"."), at}
}

// offer is a function as the system offers it, with its parameters or without.
func (t *tool) offer(name string, parameters bool) string {
	out := `{"name":` + quote(name)
	if t.about != "" {
		out += `,"description":` + quote(t.about)
	}
	if !parameters {
		return out + "}"
	}
	var props, need []string
	for p := range strings.SplitSeq(t.params, ", ") {
		n, typ, _ := strings.Cut(p, ":")
		props = append(props, quote(n)+`:{"type":`+quote(typ)+`}`)
		need = append(need, quote(n))
	}
	return out + `,"parameters":{"type":"object","properties":{` + strings.Join(props, ",") + `},"required":[` + strings.Join(need, ",") + `]}}`
}

// arguments are a call's values under the parameters' names.
func (t *tool) arguments(values []string) string {
	var out []string
	for i, p := range strings.Split(t.params, ", ") {
		n, _, _ := strings.Cut(p, ":")
		out = append(out, quote(n)+":"+values[i])
	}
	return "{" + strings.Join(out, ",") + "}"
}

// nameOf gives the name under which a function is offered. Most of them in training are made up, so that a name is read and copied, not guessed from the
// question.
func (s *sheet) nameOf(t *tool) string {
	if s.held() {
		return pick(s.rng, strings.Fields(t.held))
	}
	if s.odds(1, 3) {
		return pick(s.rng, strings.Fields(t.names))
	}
	verb := pick(s.rng, strings.Fields("get find show read run do call ask check make give take use my put set list open load new"))
	switch noun := s.noun(); s.below(5) {
	case 0:
		return noun
	case 1:
		return noun + "_" + verb
	case 2:
		return verb + upper(noun)
	case 3:
		return noun + "_" + s.noun()
	default:
		return verb + "_" + noun
	}
}

// noun is a word to name something by that says nothing: an invented one, one of this world's, or a few letters.
func (s *sheet) noun() string {
	switch s.below(4) {
	case 0:
		return pick(s.rng, s.w.things).en
	case 1:
		return strings.ReplaceAll(pick(s.rng, s.w.people).pet.en, " ", "_")
	case 2:
		var b []byte
		for range s.from(3, 7) {
			b = append(b, byte('a'+s.below(26)))
		}
		return string(b)
	default:
		return strings.ToLower(s.coin())
	}
}

// named is the function with one name for each of its parameters.
func (s *sheet) named(t tool) tool {
	var params, used []string
	for p := range strings.SplitSeq(t.params, ", ") {
		names, typ, _ := strings.Cut(p, ":")
		n := pick(s.rng, strings.Split(names, "|"))
		if !s.held() && s.odds(1, 6) {
			if made := s.noun(); !slices.Contains(used, made) {
				n = made
			}
		}
		used = append(used, n)
		params = append(params, n+":"+typ)
	}
	t.params = strings.Join(params, ", ")
	return t
}

func tools(s *sheet) {
	n := pick(s.rng, []int{1, 1, 2, 2, 2})
	if !s.chat {
		n = s.from(2, 5)
	}
	s.level(n)
	offered := sample(s.rng, toolbox(), n)
	var names []string
	for i := range offered {
		offered[i] = s.named(offered[i])
		name := s.nameOf(&offered[i])
		for slices.Contains(names, name) {
			name = s.nameOf(&offered[i])
		}
		names = append(names, name)
		if n == 1 && slices.Contains(strings.Fields(offered[i].names), name) && s.odds(1, 4) {
			offered[i].about = "" // its name says enough
		}
	}
	if !s.chat {
		s.choose(offered, names)
		return
	}
	var offers []string
	for i := range offered {
		offers = append(offers, `{"type":"function","function":`+offered[i].offer(names[i], true)+`}`)
	}
	s.doc.Tools = json.RawMessage("[" + strings.Join(offers, ",") + "]")
	if s.odds(1, 5) { // a question that needs no function
		s.needless()
		return
	}
	k := s.below(n)
	s.use(&offered[k], names[k])
	if n == 1 && s.odds(1, 3) { // with one function offered a second call fits into the window
		s.use(&offered[k], names[k])
	}
}

// choose asks for one function after the other in plain text, each once: of the many tokens of a conversation one alone says which of two is called, here
// every line has one. Beyond two functions, and with two in half of the cases, the parameters are left out, so that all fit into the window.
func (s *sheet) choose(offered []tool, names []string) {
	whole := len(offered) == 2 && s.odds(1, 2)
	s.text.WriteString("Tools:\n")
	for i := range offered {
		s.text.WriteString(offered[i].offer(names[i], whole) + "\n")
	}
	var order []int
	for i := range offered {
		order = append(order, i)
	}
	shuffle(s.rng, order)
	for _, k := range order {
		c := offered[k].draw(s)
		call := `{"name":` + quote(names[k])
		if whole {
			call += `,"arguments":` + offered[k].arguments(c.args)
		}
		s.raw(c.ask, call+"}")
	}
}

// needless asks what no function is needed for.
func (s *sheet) needless() {
	switch s.below(4) {
	case 0:
		s.fact()
	case 1:
		s.askFact(&s.w.talk[s.below(len(s.w.talk))])
	default:
		s.capital()
	}
}

// use asks for what a function gives, calls it and answers from its result.
func (s *sheet) use(t *tool, name string) {
	c := t.draw(s)
	id := "call_" + strconv.Itoa(s.from(1, 9))
	s.ask(c.ask)
	s.doc.Messages = append(s.doc.Messages,
		data.Message{Role: "assistant", ToolCalls: []data.ToolCall{{ID: id, Type: "function", Function: data.FunctionCall{Name: name, Arguments: t.arguments(c.args)}}}},
		data.Message{Role: "tool", ToolCallID: id, Content: c.result})
	s.reply(c.answer, c.key)
}
