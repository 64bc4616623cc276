package eval

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strconv"
)

// Sizes of the plot in units of the picture.
const (
	panelW, panelH = 460, 320
	plotL, plotT   = 46, 40 // from the panel's corner to the axes
	plotW, plotH   = 286, 230
	legendX        = plotL + plotW + 14
	maxSeries      = 16 // that a panel shows
)

// panel is one picture: curves over the number of loops.
type panel struct {
	title  string
	depths []int
	series []series
}

type series struct {
	name   string
	dashed bool
	points []Share // one a depth; N = 0 where nothing was measured
}

// SVG draws accuracy against loops: a panel a set with a curve a family, and one a family with a curve a difficulty where it has several. Bars are
// 95 % intervals. Controls are dashed.
func (r *Report) SVG(w io.Writer) error {
	var ps []panel
	if len(r.Models) > 0 {
		ps = r.panels()
	}
	rows := max(1, (len(ps)+1)/2)
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="11" role="img" aria-label="Accuracy against loops">`+"\n",
		2*panelW, rows*panelH, 2*panelW, rows*panelH)
	b.WriteString(svgStyle)
	for i, p := range ps {
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", i%2*panelW, i/2*panelH)
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := w.Write(b.Bytes())
	return err
}

const svgStyle = `<style>
svg{background:#fff;color:#222}text{fill:currentColor}.g{stroke:currentColor;opacity:.15}.a{stroke:currentColor}
@media(prefers-color-scheme:dark){svg{background:#15181c;color:#ddd}}
</style>
`

// colour gives the colours of Okabe & Ito, which stay apart for most eyes, then hues around the circle.
func colour(i int) string {
	list := []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6d31", "#7f7f7f"}
	if i < len(list) {
		return list[i]
	}
	return fmt.Sprintf("hsl(%d 60%% 45%%)", i*47%360)
}

func (r *Report) panels() []panel {
	var out []panel
	for _, in := range r.Inputs {
		p := panel{title: in.Set + ": exact answers by family", depths: r.Main().Depths()}
		families := r.familiesOf(in.Set)
		for _, f := range families {
			p.series = append(p.series, r.curve(r.Main(), f, false, func(g Group) bool { return g.Set == in.Set && g.Family == f }))
		}
		if len(families) > 0 {
			out = append(out, p)
		}
		for _, f := range families {
			if p := r.familyPanel(in.Set, f); len(p.series) > 2 {
				out = append(out, p)
			}
		}
	}
	return out
}

func (r *Report) familyPanel(set, family string) panel {
	p := panel{title: set + ": " + family + " by difficulty", depths: r.Main().Depths()}
	for _, g := range r.groupsOf(set) {
		if g.Family == family && g.Difficulty > 0 {
			p.series = append(p.series, r.curve(r.Main(), strconv.Itoa(g.Difficulty), false, func(x Group) bool { return x == g }))
		}
	}
	if len(p.series) < 3 {
		return p
	}
	for _, m := range r.Models {
		if m.Role == Control {
			p.series = append(p.series, r.curve(m, m.Name, true, func(g Group) bool { return g.Set == set && g.Family == family }))
		}
	}
	return p
}

// curve takes a model's shares at the depths of the plot. A control that cannot run a depth keeps its deepest share from there on.
func (r *Report) curve(m *Model, name string, dashed bool, keep func(Group) bool) series {
	s := series{name: name, dashed: dashed}
	var last Share
	for _, n := range r.Main().Depths() {
		if l := m.At(n); l != nil {
			last = l.Pool(keep)
		} else if !dashed {
			last = Share{}
		}
		s.points = append(s.points, last)
	}
	return s
}

// x places a depth: a doubling is always as wide.
func (p *panel) x(depth int) float64 {
	lo, hi := math.Log2(float64(slices.Min(p.depths))), math.Log2(float64(slices.Max(p.depths)))
	if lo == hi {
		return plotL + plotW/2
	}
	return plotL + plotW*(math.Log2(float64(depth))-lo)/(hi-lo)
}

func y(rate float64) float64 { return plotT + plotH*(1-rate) }

func (p *panel) draw(b *bytes.Buffer) {
	fmt.Fprintf(b, `<text x="%d" y="22" font-size="13" font-weight="bold">%s</text>`+"\n", plotL, html.EscapeString(p.title))
	for v := 0; v <= 100; v += 20 {
		at := y(float64(v) / 100)
		fmt.Fprintf(b, `<line class="g" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%d%%</text>`+"\n", plotL, plotL+plotW, at, at, plotL-6, at+4, v)
	}
	fmt.Fprintf(b, `<line class="a" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`+"\n", plotL, plotL+plotW, y(0), y(0))
	for _, n := range p.depths {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">%d</text>`+"\n", p.x(n), y(0)+16, n)
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="middle">loops</text>`+"\n", plotL+plotW/2.0, y(0)+32)
	for i := range min(len(p.series), maxSeries) {
		p.curve(b, i)
	}
}

func (p *panel) curve(b *bytes.Buffer, i int) {
	s, col := &p.series[i], colour(i)
	dash := ""
	if s.dashed {
		dash = ` stroke-dasharray="5 4"`
	}
	fmt.Fprintf(b, `<g stroke="%s" fill="%s">`, col, col)
	fmt.Fprintf(b, `<polyline fill="none" stroke-width="1.8"%s points="`, dash)
	for k, q := range s.points {
		if q.N > 0 {
			fmt.Fprintf(b, "%.1f,%.1f ", p.x(p.depths[k]), y(q.Rate))
		}
	}
	b.WriteString(`"/>`)
	for k, q := range s.points {
		if q.N > 0 {
			x := p.x(p.depths[k])
			fmt.Fprintf(b, `<line stroke-width="1" opacity=".5" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/><circle r="2.4" cx="%.1f" cy="%.1f"/>`, x, x, y(q.Low), y(q.High), x, y(q.Rate))
		}
	}
	fmt.Fprintf(b, `<line stroke-width="2"%s x1="%d" x2="%d" y1="%d" y2="%d"/></g>`, dash, legendX, legendX+16, plotT+6+i*16, plotT+6+i*16)
	fmt.Fprintf(b, `<text x="%d" y="%d">%s</text>`+"\n", legendX+21, plotT+10+i*16, html.EscapeString(s.name))
}
