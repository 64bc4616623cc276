package sched

// pool accounts for pages: free, held by sequences, or cached by the prefix index.
type pool struct {
	refs   []int32 // table entries that hold the page
	owner  []int32 // index node that keeps the page, -1 = none
	free   []int32 // stack
	cached int     // pages with an owner and no refs
	idx    *index
}

func newPool(pages int) pool {
	p := pool{refs: make([]int32, pages), owner: make([]int32, pages), free: make([]int32, pages)}
	for i := range p.free {
		p.free[i] = int32(pages - 1 - i) // lowest page first
		p.owner[i] = -1
	}
	return p
}

// spare is the number of pages that can be had without taking any from a sequence.
func (p *pool) spare() int { return len(p.free) + p.cached }

// take gives a page to one holder. The caller has made sure that spare() > 0.
func (p *pool) take() int32 {
	for len(p.free) == 0 {
		p.idx.evict()
	}
	id := p.free[len(p.free)-1]
	p.free = p.free[:len(p.free)-1]
	p.refs[id] = 1
	return id
}

// hold adds a holder to a page that is held or cached.
func (p *pool) hold(id int32) {
	if p.refs[id] == 0 {
		p.cached--
		p.idx.wake(p.owner[id])
	}
	p.refs[id]++
}

// release takes a holder away; the last one leaves the page to the index, or free.
func (p *pool) release(id int32) {
	p.refs[id]--
	if p.refs[id] > 0 {
		return
	}
	if p.owner[id] < 0 {
		p.free = append(p.free, id)
		return
	}
	p.cached++
	p.idx.rest(p.owner[id])
}

// disown frees a cached page.
func (p *pool) disown(id int32) {
	p.owner[id] = -1
	p.cached--
	p.free = append(p.free, id)
}
