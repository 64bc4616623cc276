package tinyworld

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"

	"tinyloop/internal/data"
)

// Solvers that read a document's text and nothing else, written apart from what made it.

// TestChainFollows walks every chain from the sentences alone.
func TestChainFollows(t *testing.T) {
	told := regexp.MustCompile(`(\S+) (?:is with |is in |est avec |est à )(\S+?)\.(?: |$)`)
	listed := regexp.MustCompile(`(\S+) (\S+?)(?:, |$)`)
	levels := map[string]map[int]int{"train": {}, "valid": {}, "test": {}}
	each(t, "chain", 150, func(t *testing.T, d *data.Doc) {
		levels[d.Labels.Split][d.Labels.Difficulty]++
		text := d.Text
		if d.IsChat() {
			text = d.Messages[0].Content
		}
		to := map[string]string{}
		context, fact := lines(text)[0], told
		if list, ok := strings.CutPrefix(strings.Replace(context, "faits ", "facts ", 1), "facts "); ok {
			context, fact = list, listed
		}
		for _, m := range fact.FindAllStringSubmatch(context, -1) {
			if to[m[1]] != "" {
				t.Errorf("%s is in two places", m[1])
			}
			to[m[1]] = m[2]
		}
		deepest := 0
		said := map[string]bool{} // who has been asked about
		for _, a := range d.Labels.Answers {
			q := lines(before(d, a))
			who := strings.Trim(last(strings.Fields(strings.TrimRight(last(q), " ?"))), "?")
			var path []string
			for at := to[who]; at != ""; at = to[at] {
				path = append(path, at)
			}
			if len(path) == 0 {
				t.Fatalf("%q: who is %q in %v?", last(q), who, to)
			}
			if !strings.EqualFold(answer(d, a), last(path)) || !strings.EqualFold(strings.Join(a.States, " "), strings.Join(path, " ")) {
				t.Errorf("%s: the text leads by %v, the document says %s by %v", who, path, answer(d, a), a.States)
			}
			deepest = max(deepest, len(path))
			said[who] = true
			for _, step := range path {
				if said[step] {
					t.Errorf("the answer about %s came before that about %s, on whose way it lies", step, who)
				}
			}
		}
		if deepest != d.Labels.Difficulty || len(to)-deepest < minDistract {
			t.Errorf("difficulty %d, the longest chain asked about has %d links of %d", d.Labels.Difficulty, deepest, len(to))
		}
	})
	for hops := 1; hops <= heldHops; hops++ {
		if (levels["train"][hops] > 0) != (hops <= maxHops) || (levels["test"][hops] > 0) != (hops > maxHops) {
			t.Errorf("%d hops: %d documents to train, %d to test", hops, levels["train"][hops], levels["test"][hops])
		}
	}
}

// TestPhopFollows hops through the letters as the definition says, from the back.
func TestPhopFollows(t *testing.T) {
	each(t, "phop", 100, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			q := last(lines(before(d, a)))
			head, tail, _ := strings.Cut(q, ":")
			hops, err := strconv.Atoi(last(strings.Fields(head)))
			if err != nil {
				t.Fatal(err)
			}
			letters := strings.Join(strings.Fields(tail), "")
			cut := len(letters) - 1
			for range hops {
				at := strings.LastIndexByte(letters[:cut], letters[cut])
				if at < 0 {
					t.Fatalf("no way back from %d in %s", cut, letters)
				}
				cut = at + 1
			}
			if got := answer(d, a); got != letters[cut:cut+1] || len(a.States) != hops || hops > d.Labels.Difficulty {
				t.Errorf("%d hops in %s: %s, want %s", hops, letters, got, letters[cut:cut+1])
			}
		}
	})
}

// TestSumsAreRight adds what the question holds, and looks for held pairs in training.
func TestSumsAreRight(t *testing.T) {
	number := regexp.MustCompile(`\d+`)
	pairs := map[string]bool{}
	each(t, "arith", 200, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			var terms []int
			for _, m := range number.FindAllString(last(lines(before(d, a))), -1) {
				n, _ := strconv.Atoi(m)
				terms = append(terms, n)
			}
			total := terms[0]
			for _, n := range terms[1:] {
				key := fmt.Sprint(min(total, n), "+", max(total, n))
				switch {
				case d.Labels.Split != "test":
					pairs[key] = true
				case len(terms) == 2 && pairs[key]:
					t.Errorf("%s is asked in the test and added in training", key)
				}
				total += n
			}
			plain, digits, scratch := strings.Cut(answer(d, a), " : ")
			if scratch {
				back := []byte(strings.ReplaceAll(plain, " ", ""))
				slices.Reverse(back)
				if string(back) != digits {
					t.Errorf("digits %s for %s", plain, digits)
				}
				plain = digits
			}
			if plain != strconv.Itoa(total) || len(terms)-1 > d.Labels.Difficulty {
				t.Errorf("%v make %d, not %s", terms, total, plain)
			}
		}
	})
}

// TestListsAreRight does what each question asks.
func TestListsAreRight(t *testing.T) {
	each(t, "list", 250, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			q := last(lines(before(d, a)))
			if got, want := answer(d, a), solveList(t, q); got != want {
				t.Errorf("%q: %q, want %q", q, got, want)
			}
		}
	})
}

func solveList(t *testing.T, q string) string {
	q = lower(q)
	if counting := regexp.MustCompile(`(?i)count|compte|numbers|nombres|go up|va jusqu`); counting.MatchString(q) {
		n := 0
		for _, w := range regexp.MustCompile(`[\pL\d-]+`).FindAllString(strings.ToLower(q), -1) {
			if k := numberOf(w); k > 1 {
				n = k
			}
		}
		if n == 0 {
			t.Fatalf("%q names no number", q)
		}
		var out []string
		for i := 1; i <= n; i++ {
			out = append(out, strconv.Itoa(i))
		}
		if strings.Contains(q, "down") || strings.Contains(q, "rebours") {
			slices.Reverse(out)
		}
		return strings.Join(out, ", ")
	}
	head, tail, _ := strings.Cut(strings.Replace(q, " :", ":", 1), ": ")
	items := strings.Split(tail, ", ")
	switch word := strings.Fields(head); {
	case strings.Contains(head, "first"), strings.Contains(head, "premier"):
		return items[0]
	case strings.Contains(head, "last"), strings.Contains(head, "dernier"):
		return last(items)
	case word[0] == "reverse", word[0] == "say", word[0] == "inverse", word[0] == "dis":
		slices.Reverse(items)
	case word[0] == "sort", word[0] == "put", word[0] == "trie", word[0] == "mets":
		sort.Slice(items, func(i, j int) bool {
			a, errA := strconv.Atoi(items[i])
			b, errB := strconv.Atoi(items[j])
			if errA == nil && errB == nil {
				return a < b
			}
			return strings.Replace(items[i], "î", "i", 1) < strings.Replace(items[j], "î", "i", 1)
		})
	}
	return strings.Join(items, ", ")
}

// numberOf reads a number of digits or in words, 0 for none.
func numberOf(w string) int {
	if n, err := strconv.Atoi(w); err == nil {
		return n
	}
	for _, list := range []string{"one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty",
		"un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize dix-sept dix-huit dix-neuf vingt"} {
		if i := slices.Index(strings.Fields(list), w); i >= 0 {
			return i + 1
		}
	}
	return 0
}

// french tells the languages of short answers apart by words that only one of them has.
func french(s string) bool {
	s = " " + strings.ToLower(strings.NewReplacer(".", " ", ",", " ", "'", " ", "!", " ").Replace(s)) + " "
	fr, en := 0, 0
	for _, w := range strings.Fields("le la les un une de du des est et à au l d dans qui je habite ans il pas oui non pour sur avec bonjour merci ne plaisir revoir vais capitale épouse quatre-vingts") {
		fr += strings.Count(s, " "+w+" ")
	}
	for _, w := range strings.Fields("the is of and to in who i lives years it not yes no for on with hello thank you are has an bye see well capital by") {
		en += strings.Count(s, " "+w+" ")
	}
	return fr > en
}

// TestAnswersInTheLanguageOfTheQuestion checks prose answers; numbers, names and JSON have no language.
func TestAnswersInTheLanguageOfTheQuestion(t *testing.T) {
	for _, f := range []string{"town", "verne", "unknown", "chat"} {
		wrong, all := 0, 0
		each(t, f, 150, func(t *testing.T, d *data.Doc) {
			for _, m := range d.Messages {
				if m.Role != "assistant" || len(strings.Fields(m.Content)) < 4 || m.Content[0] <= '9' {
					continue
				}
				all++
				if french(m.Content) != (d.Labels.Lang == "fr") {
					wrong++
					t.Logf("%s: %q", d.Labels.Lang, m.Content)
				}
			}
		})
		if all == 0 || wrong > 0 {
			t.Errorf("%s: %d of %d answers look like the other language", f, wrong, all)
		}
	}
}

// TestTownIsOneWorld collects what all documents say of each person, statement or answer, and wants it to be one thing. What is asked in the
// test is not asked in training, and friends of friends are the test's.
func TestTownIsOneWorld(t *testing.T) {
	w := New()
	if len(w.people) < 150 {
		t.Errorf("%d people", len(w.people))
	}
	byName := map[string]*person{}
	for i := range w.people {
		byName[w.people[i].name] = &w.people[i]
	}
	if len(byName) != len(w.people) {
		t.Error("two people of one name")
	}
	train, test := map[string]bool{}, map[string]bool{}
	joins := 0
	each(t, "town", 400, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			q := last(lines(before(d, a)))
			if !d.IsChat() { // the answer's own line comes last
				l := lines(before(d, a) + "x")
				q = l[len(l)-2]
			}
			if d.Labels.Split == "test" {
				test[q] = true
			} else {
				train[q] = true
			}
			p := asked(byName, q)
			if p == nil {
				t.Fatalf("%q asks about nobody", q)
			}
			if strings.Contains(q, "the friend of the friend") || strings.Contains(q, "l'ami de l'ami") ||
				(strings.Contains(q, "the friend of") || strings.Contains(q, "l'ami d")) && !isFriendQuestion(q) {
				joins++
				if d.Labels.Split != "test" || d.Labels.Difficulty != 2 {
					t.Errorf("%q in %s", q, d.Labels.Split)
				}
				p = &w.people[p.friend]
			}
			if v := answer(d, a); !slices.Contains(valuesOf(w, p), v) {
				t.Errorf("%q: %q is not so of %s", q, v, p.name)
			}
		}
	})
	for q := range test {
		if train[q] {
			t.Errorf("%q is asked in training and in the test", q)
		}
	}
	if joins == 0 {
		t.Error("no friends of friends in the test")
	}
}

func isFriendQuestion(q string) bool {
	q = strings.ToLower(q)
	return slices.ContainsFunc([]string{"who is the friend of", "tell me the friend of", "qui est l'ami", "qui donc est l'ami", "donne-moi l'ami"}, func(s string) bool { return strings.Contains(q, s) })
}

func asked(byName map[string]*person, q string) *person {
	found := regexp.MustCompile(`\p{L}+`).FindAllString(strings.ReplaceAll(q, "d'", "d "), -1)
	for _, as := range []func(string) string{func(w string) string { return w }, upper} { // as people type, without capitals
		for _, w := range found {
			if p := byName[as(w)]; p != nil {
				return p
			}
		}
	}
	return nil
}

func valuesOf(w *World, p *person) []string {
	job := p.job.fr
	if p.female && p.job.fem != "" {
		job = p.job.fem
	}
	return []string{an(p.job.en), job, an(p.pet.en), p.pet.fr, an(p.home.en), p.home.fr, p.town, strconv.Itoa(p.age), w.people[p.friend].name}
}

// TestNamesAreHeldOut checks that the names of the test's riddles are none of training's, and that the known people are none of the unknown.
func TestNamesAreHeldOut(t *testing.T) {
	refused := regexp.MustCompile(`(?:never heard of|je ne connais pas)(?: the| la| le)?(?: planet| kingdom of| island of| land of| planète| royaume de| pays de|)(?: l'île de)? (\S.*)\.`)
	names := map[string]map[string]bool{"train": {}, "valid": {}, "test": {}}
	riddles, answers := 0, 0
	each(t, "unknown", 300, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			answers++
			key := answer(d, a)
			if key == "Je ne sais pas" || key == "I do not know" {
				riddles++
				line := lines(content(d, a)[a.Start:])[0]
				if m := refused.FindStringSubmatch(line); m != nil {
					names[d.Labels.Split][m[1]] = true
				} else if !strings.Contains(line, "nothing about that") && !strings.Contains(line, "rien appris") {
					t.Errorf("a refusal without a reason: %q", line)
				}
			}
		}
	})
	if riddles*10 < answers*4 || riddles*10 > answers*8 {
		t.Errorf("%d of %d are unknown", riddles, answers)
	}
	for n := range names["test"] {
		if names["train"][n] || names["valid"][n] {
			t.Errorf("%s is unknown in training and in the test", n)
		}
	}
	for _, list := range []string{women, men, towns} {
		for _, n := range strings.Fields(list) {
			for s := range names {
				if names[s][n] {
					t.Errorf("%s lives in the world and is unknown in %s", n, s)
				}
			}
		}
	}
}

// TestFacts holds the tables to their own rules: no question has two answers, every fact is asked in two ways at least in each language.
func TestFacts(t *testing.T) {
	w := New()
	if len(w.facts) < 110 {
		t.Errorf("%d facts about the novel", len(w.facts))
	}
	owner := map[string]string{}
	for _, f := range append(slices.Clone(w.facts), parseFacts(talkText)...) {
		for _, fr := range []bool{false, true} {
			x := f.in(fr)
			if len(x.ask) < 2 || !strings.Contains(x.answer, x.key) || strings.ContainsAny(x.answer, "{}|") {
				t.Errorf("%+v", x)
			}
			for _, q := range append(slices.Clone(x.ask), x.held...) {
				if o, ok := owner[q]; ok && o != x.answer && !strings.HasPrefix(q, "Salut") {
					t.Errorf("%q is answered by %q and by %q", q, o, x.answer)
				}
				owner[q] = x.answer
			}
			for _, h := range x.held {
				if slices.Contains(x.ask, h) {
					t.Errorf("%q is held out and asked", h)
				}
			}
		}
	}
	for _, q := range []string{"Qui est Passepartout ?", "Qui est Fix ?", "Who is Phileas Fogg?"} {
		if owner[q] == "" {
			t.Errorf("nobody answers %q", q)
		}
	}
	if n := len(strings.Split(countries, "\n")); n < 60 {
		t.Errorf("%d capitals", n)
	}
}

// TestObjectsAreRight answers every question for JSON from the tables and from what was told, with a parser that did not write the answers. A key is one
// that the question names, in its order, or the usual one where it names none.
func TestObjectsAreRight(t *testing.T) {
	o := newOracle(New())
	asked := map[string]bool{} // outside the test split
	kinds := map[string]int{}
	each(t, "json", 400, func(t *testing.T, d *data.Doc) {
		for _, a := range d.Labels.Answers {
			if s := answer(d, a); s[0] != '{' || s[len(s)-1] != '}' {
				t.Errorf("answer %q", s)
			}
		}
		for _, line := range lines(d.Text) {
			if q, object, ok := strings.Cut(line, " {"); ok {
				got := pairs(t, "{"+object)
				if len(got) != 1 || !o.usual[got[0].key] {
					t.Errorf("%q", line)
				}
				kinds[o.check(t, q, got)]++
			}
		}
		before, rule, keys := "", "", []string(nil)
		for _, m := range d.Messages {
			switch m.Role {
			case "system":
				rule = m.Content
			case "user":
				before += " " + m.Content
				if named := keysOf(strings.TrimSpace(m.Content + " " + rule)); named != nil {
					keys = named
				} else if strings.Contains(m.Content+rule, "JSON") {
					keys = nil
				}
				rule = ""
				if q := m.Content; d.Labels.Split != "test" {
					asked[q] = true
				} else if asked[q] && strings.Contains(q, "JSON") {
					t.Errorf("%q is asked in the test and in training", q)
				}
			default:
				got := pairs(t, m.Content)
				for i, f := range got {
					if keys != nil && (i >= len(keys) || f.key != keys[i]) || keys == nil && !o.usual[f.key] {
						t.Errorf("key %q of %q, named are %q", f.key, m.Content, keys)
					}
				}
				if keys == nil && len(got) == 1 {
					keys = []string{got[0].key} // a question in short keeps the key
				}
				kinds[o.check(t, before, got)]++
			}
		}
	})
	for _, k := range []string{"capital", "person", "fact", "unknown", "sum", "told"} {
		if kinds[k] == 0 {
			t.Errorf("no questions of the kind %s: %v", k, kinds)
		}
	}
}

// keysOf gives the keys that a question names, nil where it names none.
func keysOf(q string) []string {
	for _, form := range []string{`like this: \{"(.+?)": `, `comme ceci : \{"(.+?)": `, `(?:\bkeys?|clés?) ([^:.]+?)(?:\.| :|:|, please|, s'il te plaît)`, `Give (.+) of \S+ as JSON\.$`,
		`(?:Extract|Give) ([^.]+?) as JSON\.$`, `(?:Extrais|Donne) ([^.]+?) en JSON\.$`, `Donne en JSON ([^:.]+?) (?:de |d')\S+\.$`, `(?:Fill a JSON object|Remplis un objet JSON) ?: ([^.]+)\.$`} {
		if m := regexp.MustCompile(form).FindStringSubmatch(q); m != nil {
			return strings.Split(m[1], ", ")
		}
	}
	return nil
}

// pair is a key and its value, a text without its quotes or a number.
type pair struct{ key, value string }

// pairs reads a JSON object in its order.
func pairs(t *testing.T, text string) []pair {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var flat []string
	for {
		tok, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if _, mark := tok.(json.Delim); !mark {
			flat = append(flat, fmt.Sprint(tok))
		}
	}
	var out []pair
	for i := 0; i+1 < len(flat); i += 2 {
		out = append(out, pair{flat[i], flat[i+1]})
	}
	return out
}

// oracle knows what is so.
type oracle struct {
	w      *World
	people map[string]*person
	facts  []wording
	usual  map[string]bool
}

func newOracle(w *World) *oracle {
	o := &oracle{w: w, people: map[string]*person{}, usual: map[string]bool{}}
	for i := range w.people {
		o.people[w.people[i].name] = &w.people[i]
	}
	for _, f := range append(slices.Clone(w.facts), w.talk...) {
		o.facts = append(o.facts, f.fr, f.en)
	}
	for _, k := range strings.Fields("capital capitale answer réponse result résultat job town pet age friend home métier ville animal âge ami logis") {
		o.usual[k] = true
	}
	return o
}

// check finds the question that an answer is right for, and says of which kind it is. text is all that the user has said, the question last.
func (o *oracle) check(t *testing.T, text string, got []pair) string {
	t.Helper()
	v := got[len(got)-1].value
	if m := regexp.MustCompile(`(\d+) \+ (\d+)[^+]*$`).FindStringSubmatch(text); m != nil && len(got) == 1 {
		a, _ := strconv.Atoi(m[1])
		b, _ := strconv.Atoi(m[2])
		if v == strconv.Itoa(a+b) {
			return "sum"
		}
	}
	if v == "I do not know" || v == "Je ne sais pas" {
		return "unknown"
	}
	for _, lands := range o.w.lands {
		for _, c := range lands {
			if c.capital == v && strings.LastIndex(strings.ToLower(text), strings.ToLower(bare(c.name))) >= max(0, len(text)-130) && (len(got) == 1 || got[0].value == bare(c.name)) {
				return "capital"
			}
		}
	}
	for _, f := range o.facts {
		if f.answer == v && slices.ContainsFunc(append(slices.Clone(f.ask), f.held...), func(q string) bool { return strings.Contains(strings.ToLower(text), strings.ToLower(q)) }) {
			return "fact"
		}
	}
	if p := lastAsked(o.people, text); p != nil {
		so := strings.NewReplacer(" a ", " ", " an ", " ", " un ", " ", " une ", " ").Replace(" " + strings.Join(valuesOf(o.w, p), "; ") + ";")
		if !slices.ContainsFunc(got, func(f pair) bool { return !strings.Contains(so, " "+f.value+";") }) {
			return "person"
		}
	}
	for _, f := range got {
		if !strings.Contains(text, f.value) {
			t.Errorf("%q: %q does not follow", text, f.value)
		}
	}
	return "told"
}

// lastAsked gives the person who is named last.
func lastAsked(byName map[string]*person, text string) *person {
	var p *person
	for _, w := range regexp.MustCompile(`\p{L}+`).FindAllString(strings.ReplaceAll(text, "d'", "d "), -1) {
		if x := byName[w]; x != nil {
			p = x
		}
	}
	return p
}

// TestTheRightFunctionIsCalled tells from a question which function it needs, and compares.
func TestTheRightFunctionIsCalled(t *testing.T) {
	type function struct{ Name, Description string }
	needs := map[string]*regexp.Regexp{}
	for about, words := range map[string]string{"Weather of a city": `[Ww]eather|warm|météo|Météo|temps|chaud`, "Local time of a city": `[Tt]ime|hour|heure`, "Adds two numbers": `\+|plus|^Add`,
		"Multiplies two numbers": ` x |times|fois|^Multipl`, "Price of a thing in euros": `cost|price|coûte|prix`, "Starts a timer": `minutes`, "Sends a message to someone": `^Write|^Send|^Écris|^Envoie`,
		"Next train between two towns": `train`} {
		needs[about] = regexp.MustCompile(words)
	}
	checked := 0
	right := func(t *testing.T, offered []function, q, name string) {
		k := slices.IndexFunc(offered, func(f function) bool { return f.Name == name })
		if k < 0 {
			t.Fatalf("%q calls %q, which is not offered", q, name)
		}
		if about := offered[k].Description; about != "" && !needs[about].MatchString(q) {
			t.Errorf("%q calls %q: %s", q, name, about)
		}
		checked++
	}
	each(t, "tools", 200, func(t *testing.T, d *data.Doc) {
		var offered []function
		if !d.IsChat() {
			for _, line := range lines(d.Text)[1:] {
				var f function
				q, call, asked := strings.Cut(line, ` {"name"`)
				if !asked {
					if err := json.Unmarshal([]byte(line), &f); err != nil {
						t.Fatal(err)
					}
					offered = append(offered, f)
					continue
				}
				var c struct {
					Name      string
					Arguments map[string]any
				}
				if err := json.Unmarshal([]byte(`{"name"`+call), &c); err != nil {
					t.Fatal(err)
				}
				for _, v := range c.Arguments {
					if !strings.Contains(q, fmt.Sprint(v)) {
						t.Errorf("argument %v is not in %q", v, q)
					}
				}
				right(t, offered, q, c.Name)
			}
			return
		}
		var list []struct{ Function function }
		if err := json.Unmarshal(d.Tools, &list); err != nil {
			t.Fatal(err)
		}
		for _, f := range list {
			offered = append(offered, f.Function)
		}
		for i, m := range d.Messages {
			for _, c := range m.ToolCalls {
				right(t, offered, d.Messages[i-1].Content, c.Function.Name)
			}
		}
	})
	if checked < 2000 {
		t.Errorf("only %d calls", checked)
	}
}
