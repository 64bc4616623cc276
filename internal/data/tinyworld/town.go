package tinyworld

// town: the invented people. In training each is described in many wordings and asked about; a question is a pair of wording and person, and
// one pair in eight is never asked outside the test split, nor is anything about a friend of someone.

func (s *sheet) name(template, name, value string) string {
	return fill(template, "N", name, "V", value, "deN", elide("de", name), "queN", elide("que", name), "deV", elide("de", value))
}

// state is a statement about a person, in one of the attribute's wordings.
func (s *sheet) state(p *person, a *attribute, wording int) string {
	return upper(s.name(s.both(a.en, a.fr)[wording], p.name, a.value(s.w, p, s.fr)))
}

// heldPair says whether a wording of a question about a person is kept for the test split.
func heldPair(p *person, a *attribute, wording int, fr bool) bool {
	lang := uint64(0)
	if fr {
		lang = 1
	}
	return fold(foldText(p.name), foldText(a.name), uint64(wording), lang)%8 == 0
}

// about draws a question about a person that belongs to the split; nil when that person has none.
func (s *sheet) about(p *person) (a *attribute, question string) {
	all := s.w.attributes
	type ask struct{ attribute, wording int }
	var open []ask
	for i := range all {
		for k := range s.both(all[i].askEn, all[i].askFr) {
			if heldPair(p, &all[i], k, s.fr) == s.held() {
				open = append(open, ask{i, k})
			}
		}
	}
	if len(open) == 0 {
		return nil, ""
	}
	x := pick(s.rng, open)
	return &all[x.attribute], s.name(s.both(all[x.attribute].askEn, all[x.attribute].askFr)[x.wording], p.name, "")
}

// askAbout puts a question about a person and answers it; about another one when nothing of this one belongs to the split.
func (s *sheet) askAbout(p *person) {
	a, q := s.about(p)
	for a == nil {
		p = &s.w.people[s.below(len(s.w.people))]
		a, q = s.about(p)
	}
	s.turn(s.typed(q), s.state(p, a, 0), a.value(s.w, p, s.fr))
}

func town(s *sheet) {
	s.level(1)
	if s.held() && s.odds(1, 2) {
		s.join(&s.w.people[s.below(len(s.w.people))])
		return
	}
	if s.chat {
		for range s.from(1, 3) {
			s.askAbout(&s.w.people[s.below(len(s.w.people))])
		}
		return
	}
	p := &s.w.people[s.below(len(s.w.people))]
	all := s.w.attributes
	for _, i := range sample(s.rng, []int{0, 1, 2, 3, 4, 5}, s.from(2, 6)) {
		s.note(s.state(p, &all[i], s.below(8)))
	}
	for range s.from(1, 2) {
		s.askAbout(p)
	}
	if s.odds(1, 2) {
		s.askAbout(&s.w.people[s.below(len(s.w.people))])
	}
}

// join asks about the friend of someone: two facts that were learned apart.
func (s *sheet) join(p *person) {
	s.level(2)
	all := s.w.attributes
	a := &all[s.below(len(all))]
	f := &s.w.people[p.friend]
	v := a.value(s.w, f, s.fr)
	s.turn(s.name(s.say(a.joinEn, a.joinFr), p.name, ""), s.state(f, a, 0), v, f.name, v)
}
