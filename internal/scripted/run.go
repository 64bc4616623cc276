package scripted

import "tinyloop/internal/model"

// Enter starts rows: token and position become the state, then the prelude blocks run.
func (m *Model) Enter(rows []model.Row) {
	m.begin(0, rows)
	for i := range rows {
		r := &rows[i]
		if r.Loop != 0 {
			m.violate("position %d enters at loop %d", r.Pos, r.Loop)
		}
		s := &m.states[r.State]
		*s = state{value: hash(uint64(r.Token), uint64(r.Pos)), pos: r.Pos, token: r.Token, live: true}
		s.history = m.historyAt(r)
		for b := range m.lim.Prelude {
			m.block(r, s, b, 0)
		}
	}
}

// Turn runs the core once for every row at its own loop.
func (m *Model) Turn(rows []model.Row) {
	m.begin(1, rows)
	for i := range rows {
		r := &rows[i]
		s := m.mine(r)
		if r.Loop >= r.Depth {
			m.violate("position %d turns at loop %d of %d", r.Pos, r.Loop, r.Depth)
		}
		if r.Loop == 0 && m.lim.Prelude == 0 {
			s.history = m.historyIn(r, 0) // without a prelude, this is the first sight of earlier positions
		}
		for b := range m.lim.Core {
			m.block(r, s, m.lim.Prelude+int(r.Loop)*m.lim.Core+b, 0)
		}
		s.value = hash(s.value, uint64(r.Loop))
		s.loop++
		m.moved[i] = m.motion(s)
		r.Loop++
	}
}

// Leave runs the coda and computes the logits of rows with Want.
func (m *Model) Leave(rows []model.Row) {
	m.begin(2, rows)
	m.row = m.row[:0]
	for i := range rows {
		r := &rows[i]
		s := m.mine(r)
		if r.Loop < 1 || r.Loop > r.Depth {
			m.violate("position %d leaves at loop %d of %d", r.Pos, r.Loop, r.Depth)
		}
		kept := s.value
		for b := range m.lim.Coda {
			m.block(r, s, m.lim.Prelude+int(r.Depth)*m.lim.Core+b, r.Depth)
		}
		s.live = r.Loop < r.Depth
		if r.Want {
			m.row = append(m.row, i)
			m.readout(s, r, m.logits[i*m.lim.Vocab:(i+1)*m.lim.Vocab])
		} else {
			m.row = append(m.row, -1)
		}
		s.value = kept // a row that was read out early runs on from the state it had
	}
}

// Logits gives the logits of rows[i] of the last Leave.
func (m *Model) Logits(i int) []float32 {
	if i < 0 || i >= len(m.row) || m.row[i] < 0 {
		m.violate("logits of row %d, which the last Leave did not compute", i)
	}
	return m.logits[i*m.lim.Vocab : (i+1)*m.lim.Vocab]
}

// CopyPage copies a page.
func (m *Model) CopyPage(dst, src int32) {
	if dst < 0 || src < 0 || int(dst) >= m.lim.Pages || int(src) >= m.lim.Pages || dst == src {
		m.violate("copy of page %d to %d, there are %d", src, dst, m.lim.Pages)
	}
	m.mu.Lock()
	m.copies++
	m.mu.Unlock()
	copy(m.cells[dst*pageLen:(dst+1)*pageLen], m.cells[src*pageLen:(src+1)*pageLen])
}

// motion is how a state moves: the gate of loop t and a change and acceleration that shrink, told by the state.
func (m *Model) motion(s *state) model.Motion {
	u := float32(hash(s.value, 11)>>40) / (1 << 24)
	return model.Motion{Change: u, Accel: u, Gate: u}
}

// Moved gives the motion of rows[i] of the last Turn.
func (m *Model) Moved(i int) model.Motion { return m.moved[i] }

// CopyCell copies one position of a page.
func (m *Model) CopyCell(dst, src int32, lane int) {
	c := m.cells[int(src)*pageLen+lane]
	c.lent = true
	m.cells[int(dst)*pageLen+lane] = c
}

// MeanCells mixes one position of several pages: an order of its own, as a mean has none.
func (m *Model) MeanCells(pages []int32, from, to int) {
	for lane := from; lane < to; lane++ {
		sum := uint64(0)
		for _, p := range pages {
			sum += m.cells[int(p)*pageLen+lane].value
		}
		for _, p := range pages {
			c := &m.cells[int(p)*pageLen+lane]
			c.value, c.lent = sum, true
		}
	}
}

// mine is the row's state, which must be the one that its Enter made.
func (m *Model) mine(r *model.Row) *state {
	s := &m.states[r.State]
	if !s.live || s.pos != r.Pos || s.token != r.Token || s.loop != r.Loop {
		m.violate("state %d holds position %d token %d loop %d (live %v), the row says %d, %d, %d",
			r.State, s.pos, s.token, s.loop, s.live, r.Pos, r.Token, r.Loop)
	}
	return s
}

// block is one layer: the state mixes with what it sees in the slot, then writes its own cell there.
func (m *Model) block(r *model.Row, s *state, slot int, depth int32) {
	seen := uint64(slot)
	m.look(r, slot, depth, func(c *cell) { seen = hash(seen, c.value) })
	s.value = hash(s.value, seen)
	c := cell{value: hash(s.value, uint64(slot)), history: s.history, slot: int32(slot), depth: depth, early: depth > 0 && r.Loop < r.Depth && !r.Exit,
		pos: r.Pos, token: r.Token, window: r.Window, sinks: r.Sinks}
	*m.cellAt(r.Pages, r, slot, r.Pos) = c
	for _, table := range r.Also {
		*m.cellAt(table, r, slot, r.Pos) = c
	}
}

// look visits the earlier positions that a row sees in a slot, in ascending order, and checks each.
func (m *Model) look(r *model.Row, slot int, depth int32, visit func(*cell)) {
	from := int32(0)
	if r.Window > 0 {
		from = max(0, r.Pos-r.Window+1)
		for p := int32(0); p < min(r.Sinks, from); p++ {
			visit(m.checked(r, slot, depth, p))
		}
	}
	for p := from; p < r.Pos; p++ {
		visit(m.checked(r, slot, depth, p))
	}
}

// checked is the cell of an earlier position after every check that needs no other cell but its predecessor.
func (m *Model) checked(r *model.Row, slot int, depth, pos int32) *cell {
	c := m.cellAt(r.Pages, r, slot, pos)
	if int(c.slot) != slot && !c.lent && !shares(r, slot, int(c.slot), pos) || c.pos != pos || c.depth != depth {
		m.violate("position %d at loop %d looks at position %d in slot %d and finds position %d of slot %d (depth %d)",
			r.Pos, r.Loop, pos, slot, c.pos, c.slot, c.depth)
	}
	if c.early && r.Loop == r.Depth {
		m.violate("position %d at its full depth finds position %d read out early in slot %d", r.Pos, pos, slot)
	}
	if c.window != r.Window || c.sinks != r.Sinks {
		m.violate("position %d with window %d+%d finds position %d computed with window %d+%d",
			r.Pos, r.Sinks, r.Window, pos, c.sinks, c.window)
	}
	if pos == 0 {
		m.same(r, pos, c.history, hash(rootHistory, uint64(c.token)))
	} else if visible(r, pos-1) {
		if before := m.cellAt(r.Pages, r, slot, pos-1); before.history != 0 {
			m.same(r, pos, c.history, hash(before.history, uint64(c.token)))
		}
	}
	if pos == r.Pos-1 && c.history != 0 && m.states[r.State].history != 0 {
		m.same(r, pos, m.states[r.State].history, hash(c.history, uint64(r.Token)))
	}
	return c
}

// shares says whether two slots have one page for a position, and nothing later than the second writes to it.
func shares(r *model.Row, slot, with int, pos int32) bool {
	at := func(s int) int32 { return r.Pages[s][pos/pageLen] }
	if with < 0 || with >= len(r.Pages) || at(with) != at(slot) {
		return false
	}
	for s := with + 1; s < len(r.Pages); s++ {
		if at(s) == at(slot) {
			return false
		}
	}
	return true
}

func (m *Model) same(r *model.Row, pos int32, got, want uint64) {
	if got != want {
		m.violate("position %d finds position %d with another history", r.Pos, pos)
	}
}

func visible(r *model.Row, pos int32) bool {
	return r.Window == 0 || pos < r.Sinks || pos > r.Pos-r.Window
}

// cellAt is the cell of a position in a page table of the row.
func (m *Model) cellAt(pages [][]int32, r *model.Row, slot int, pos int32) *cell {
	table := pages[slot]
	if int(pos/pageLen) >= len(table) {
		m.violate("position %d: slot %d has no page for position %d", r.Pos, slot, pos)
	}
	page := table[pos/pageLen]
	if page < 0 || int(page) >= m.lim.Pages {
		m.violate("position %d: slot %d, position %d has page %d", r.Pos, slot, pos, page)
	}
	return &m.cells[page*pageLen+pos%pageLen]
}

// rootHistory is the history before the first token.
const rootHistory = 0x746c

// historyAt is the history of a row that enters: known if its predecessor is in sight in the first prelude slot.
func (m *Model) historyAt(r *model.Row) uint64 {
	if m.lim.Prelude == 0 && r.Pos > 0 {
		return 0 // nothing to read it from before the first Turn
	}
	return m.historyIn(r, 0)
}

func (m *Model) historyIn(r *model.Row, slot int) uint64 {
	if r.Pos == 0 {
		return m.chain(rootHistory, r.Token)
	}
	if !visible(r, r.Pos-1) {
		return 0
	}
	before := m.cellAt(r.Pages, r, slot, r.Pos-1).history
	if before == 0 {
		return 0
	}
	return m.chain(before, r.Token)
}

// chain extends a history by a token, and tells the book.
func (m *Model) chain(before uint64, token int32) uint64 {
	h := hash(before, uint64(token))
	if m.book != nil {
		m.book.extend(before, h, token)
	}
	return h
}

// hash mixes two words into one, never 0 (SplitMix64's finaliser over a combination).
func hash(a, b uint64) uint64 {
	z := a*0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31 | 1
}

// readout fills the logits of a row.
func (m *Model) readout(s *state, r *model.Row, out []float32) {
	if m.book != nil {
		if s.history == 0 {
			m.violate("position %d: a script needs the whole history, window %d hides it", r.Pos, r.Window)
		}
		m.book.fill(s.history, out)
		if r.Loop < r.Depth && !m.agrees(s.history) {
			shift(out)
		}
		return
	}
	v := hash(s.value, uint64(r.Depth))
	for i := range out {
		out[i] = float32(hash(v, uint64(i))>>40)/(1<<21) - 4 // 0..8 shifted: -4..4
	}
	if m.agree > 0 && s.history != 0 && (r.Loop == r.Depth || m.agrees(s.history)) {
		out[hash(s.history, 7)%uint64(len(out))] += favourite
	}
}

// favourite is the logit that the token which depths agree on has on top.
const favourite = 6

// agrees says whether an early readout after a history has the favourite of the full depth: a share of Options.Agree of all histories, told by their hash.
func (m *Model) agrees(history uint64) bool {
	return m.agree > 0 && float64(hash(history, 3)>>11)/(1<<53) < m.agree
}

// shift moves every logit one token on: a distribution of the same shape with another favourite.
func shift(x []float32) {
	last := x[len(x)-1]
	copy(x[1:], x)
	x[0] = last
}
