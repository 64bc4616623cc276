package eval

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Markdown writes the report as tables that are readable as they stand.
func (r *Report) Markdown(w io.Writer) error {
	var b bytes.Buffer
	if len(r.Models) == 0 {
		_, err := io.WriteString(w, "Nothing was measured.\n")
		return err
	}
	r.head(&b)
	for _, m := range r.Models {
		if m.Role == Main || m.Role == Control {
			r.model(&b, m)
		}
	}
	for _, m := range r.Models[1:] {
		if m.Role == Typed || m.Role == Against {
			r.against(&b, m)
		}
	}
	r.gates(&b)
	_, err := w.Write(b.Bytes())
	return err
}

func (r *Report) head(b *bytes.Buffer) {
	m := r.Main()
	fmt.Fprintf(b, "# Evaluation of %s\n\n", m.Name)
	if !r.Complete {
		b.WriteString("**Interrupted: what follows is what there was by then; counts are smaller than asked for.**\n\n")
	}
	rows := [][]string{{"model", "role", "format", "parameters", "default loops"}}
	for _, m := range r.Models {
		rows = append(rows, []string{m.Name, string(m.Role), m.Quant, strconv.FormatInt(m.Params, 10), strconv.Itoa(m.Loops.Default)})
	}
	table(b, rows)
	rows = [][]string{{"set", "documents", "questions"}}
	for _, in := range r.Inputs {
		rows = append(rows, []string{in.Set, strconv.Itoa(in.Docs), strconv.Itoa(in.Questions)})
	}
	table(b, rows)
	fmt.Fprintf(b, "Of each group %s questions, and %s documents for the loss, chosen with seed %d. Percentages stand with their 95 %% interval (Wilson).\n\n",
		atMostText(r.Limit), atMostText(r.LossDocs), r.Seed)
	for _, why := range slices.Sorted(maps.Keys(m.Skipped)) {
		fmt.Fprintf(b, "Not asked: %d questions, because %s.\n\n", m.Skipped[why], why)
	}
}

func atMostText(n int) string {
	if n == 0 {
		return "all"
	}
	return "at most " + strconv.Itoa(n)
}

func (r *Report) model(b *bytes.Buffer, m *Model) {
	title := func(what, set string) {
		fmt.Fprintf(b, "## %s: %s", what, set)
		if m != r.Main() {
			fmt.Fprintf(b, " (%s)", m.Name)
		}
		b.WriteString("\n\n")
	}
	for _, in := range r.Inputs {
		if rows := r.accuracy(m, in.Set); len(rows) > 1 {
			title("Exact answers by loops", in.Set)
			table(b, rows)
		}
		if rows := m.choiceRows(in.Set); len(rows) > 1 {
			title("Multiple choice by loops", in.Set)
			table(b, rows)
		}
		if rows := m.refusalRows(in.Set); len(rows) > 1 {
			title("Refusals by loops", in.Set)
			table(b, rows)
		}
		if rows := m.lossRows(in.Set); len(rows) > 1 {
			title("Bits per byte and token accuracy by loops", in.Set)
			table(b, rows)
		}
	}
	if rows := m.costRows(); len(rows) > 1 {
		title("Cost of a token", m.Name)
		table(b, rows)
	}
}

// header is the first row of a table whose columns are depths.
func (m *Model) header(lead ...string) []string {
	for _, n := range m.Depths() {
		lead = append(lead, "r = "+strconv.Itoa(n))
	}
	return lead
}

// accuracy has a row a family, one a difficulty below it where there are several, and the mean over chain and arith.
func (r *Report) accuracy(m *Model, set string) [][]string {
	rows := [][]string{m.header("family", "n", "chance")}
	groups := r.groupsOf(set)
	for _, f := range r.familiesOf(set) {
		all := func(g Group) bool { return g.Set == set && g.Family == f }
		row := m.taskRow("**"+f+"**", all)
		if row == nil {
			continue
		}
		rows = append(rows, row)
		var own []Group
		for _, g := range groups {
			if g.Family == f {
				own = append(own, g)
			}
		}
		for _, g := range own {
			if row := m.taskRow(difficultyName(g), func(x Group) bool { return x == g }); row != nil && len(own) > 1 {
				rows = append(rows, row)
			}
		}
	}
	mean := []string{"*mean of chain and arith*", "", ""}
	for _, l := range m.Levels {
		v, ok := l.Mean(set)
		if !ok {
			return rows
		}
		mean = append(mean, fmt.Sprintf("%.1f", 100*v))
	}
	return append(rows, mean)
}

func difficultyName(g Group) string {
	if g.Difficulty == 0 && g.Family != "acceptance" && g.Family != "unknown" {
		return g.Family + " other"
	}
	return g.Family + " " + strconv.Itoa(g.Difficulty)
}

// taskRow is one row; nil where no level has such questions.
func (m *Model) taskRow(name string, keep func(Group) bool) []string {
	n, chance := 0, 0.0
	var cells []string
	for _, l := range m.Levels {
		s := l.Pool(keep)
		if s.N > n {
			n, chance = s.N, l.chance(keep)
		}
		cells = append(cells, percent(s))
	}
	if n == 0 {
		return nil
	}
	return append([]string{name, strconv.Itoa(n), fmt.Sprintf("%.0f", 100*chance)}, cells...)
}

// chance is the mean chance of the groups kept, by their number of questions.
func (l *Level) chance(keep func(Group) bool) float64 {
	sum, n := 0.0, 0
	for _, t := range l.Tasks {
		if keep(t.Group) {
			sum, n = sum+t.Chance*float64(t.N), n+t.N
		}
	}
	return sum / float64(max(n, 1))
}

func percent(s Share) string {
	if s.N == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f (%.0f–%.0f)", 100*s.Rate, 100*s.Low, 100*s.High)
}

func (m *Model) choiceRows(set string) [][]string {
	rows := [][]string{m.header("family", "n")}
	var order []Group
	for _, l := range m.Levels {
		for _, s := range l.Choices {
			if s.Set == set && !slices.Contains(order, s.Group) {
				order = append(order, s.Group)
			}
		}
	}
	slices.SortFunc(order, byGroup)
	for _, g := range order {
		n := 0
		var cells []string
		for _, l := range m.Levels {
			s := Share{}
			if i := slices.IndexFunc(l.Choices, func(s Share) bool { return s.Group == g }); i >= 0 {
				s = l.Choices[i]
			}
			n = max(n, s.N)
			cells = append(cells, percent(s))
		}
		rows = append(rows, append([]string{difficultyName(g), strconv.Itoa(n)}, cells...))
	}
	return rows
}

func (m *Model) refusalRows(set string) [][]string {
	rows := [][]string{m.header("", "n")}
	unknown, known := []string{"without an answer, refused", "0"}, []string{"with an answer, refused", "0"}
	found := false
	for _, l := range m.Levels {
		x := Refusal{}
		if i := slices.IndexFunc(l.Refusals, func(x Refusal) bool { return x.Set == set }); i >= 0 {
			x, found = l.Refusals[i], true
			unknown[1], known[1] = strconv.Itoa(x.Unknown), strconv.Itoa(x.Known)
		}
		unknown = append(unknown, percent(share(Group{}, x.Refused, x.Unknown)))
		known = append(known, percent(share(Group{}, x.False, x.Known)))
	}
	if found {
		rows = append(rows, unknown, known)
	}
	return rows
}

// lossRows has bits per byte and, in brackets, the percentage of tokens that were the most probable ones.
func (m *Model) lossRows(set string) [][]string {
	rows := [][]string{m.header("group", "tokens", "bytes")}
	var order []string
	for _, l := range m.Levels {
		for _, x := range l.Loss {
			if x.Set == set && !slices.Contains(order, x.Group) {
				order = append(order, x.Group)
			}
		}
	}
	row := func(name string, of func(*Level) Loss) {
		var cells []string
		var size Loss
		for _, l := range m.Levels {
			x := of(l)
			if x.Tokens > size.Tokens {
				size = x
			}
			cells = append(cells, lossText(x))
		}
		rows = append(rows, append([]string{name, strconv.Itoa(size.Tokens), strconv.Itoa(size.Bytes)}, cells...))
	}
	if len(order) > 1 {
		row("**all**", func(l *Level) Loss { return l.Total(set) })
	}
	for _, g := range order {
		row(g, func(l *Level) Loss {
			if i := slices.IndexFunc(l.Loss, func(x Loss) bool { return x.Set == set && x.Group == g }); i >= 0 {
				return l.Loss[i]
			}
			return Loss{}
		})
	}
	return rows
}

func lossText(x Loss) string {
	if x.Tokens == 0 {
		return "–"
	}
	if x.Bytes == 0 {
		return fmt.Sprintf("%.3f nats a token (%.1f %%)", x.Loss, 100*x.Accuracy)
	}
	return fmt.Sprintf("%.4f (%.1f %%)", x.BPB, 100*x.Accuracy)
}

func (m *Model) costRows() [][]string {
	rows := [][]string{{"loops", "decode ms/token", "prefill ms/token", "MFLOPs/token"}}
	for _, l := range m.Levels {
		if l.Cost != nil {
			flops := "–"
			if l.Cost.FLOPs > 0 {
				flops = fmt.Sprintf("%.2f", float64(l.Cost.FLOPs)/1e6)
			}
			rows = append(rows, []string{strconv.Itoa(l.Loops), fmt.Sprintf("%.3f", l.Cost.Decode), fmt.Sprintf("%.3f", l.Cost.Prefill), flops})
		}
	}
	return rows
}

// against shows how far m is from the model of the report: points of exact answers, and bits per byte.
func (r *Report) against(b *bytes.Buffer, m *Model) {
	fmt.Fprintf(b, "## %s (%s) minus %s (%s)\n\n", m.Name, m.Quant, r.Main().Name, r.Main().Quant)
	rows := [][]string{m.header("set", "what")}
	for _, in := range r.Inputs {
		if row, ok := r.deltas(m, func(l *Level) (float64, bool) { x := l.Total(in.Set); return x.BPB, x.Bytes > 0 }, "%+.4f"); ok {
			rows = append(rows, append([]string{in.Set, "bits per byte"}, row...))
		}
		for _, f := range r.familiesOf(in.Set) {
			of := func(l *Level) (float64, bool) { s := l.Family(in.Set, f); return 100 * s.Rate, s.N > 0 }
			if row, ok := r.deltas(m, of, "%+.1f"); ok {
				rows = append(rows, append([]string{in.Set, f + ", points"}, row...))
			}
		}
	}
	if len(rows) > 1 {
		table(b, rows)
	}
}

func (r *Report) deltas(m *Model, of func(*Level) (float64, bool), format string) (cells []string, any bool) {
	for _, l := range m.Levels {
		base := r.Main().At(l.Loops)
		if base == nil {
			cells = append(cells, "–")
			continue
		}
		x, ok := of(base)
		y, ok2 := of(l)
		if !ok || !ok2 {
			cells = append(cells, "–")
			continue
		}
		any = true
		cells = append(cells, fmt.Sprintf(format, y-x))
	}
	return cells, any
}

func (r *Report) gates(b *bytes.Buffer) {
	if len(r.Gates) == 0 {
		return
	}
	b.WriteString("## Gates\n\n")
	rows := [][]string{{"gate", "what", "limit", "value", "", "where"}}
	for _, g := range r.Gates {
		value := strconv.FormatFloat(g.Value, 'f', 4, 64)
		if g.Status == NotMeasured {
			value = "–"
		}
		rows = append(rows, []string{g.Name, g.What, strconv.FormatFloat(g.Limit, 'g', 4, 64), value, string(g.Status), g.Detail})
	}
	table(b, rows)
}

// table writes a Markdown table with its columns aligned; the first row is the head. A bar in a cell is escaped.
func table(b *bytes.Buffer, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i := range row {
			row[i] = strings.NewReplacer("|", `\|`, "\n", " ").Replace(row[i])
			width[i] = max(width[i], utf8.RuneCountInString(row[i]), 3)
		}
	}
	line := func(row []string) {
		for i, c := range row {
			b.WriteString("| ")
			b.WriteString(c)
			b.WriteString(strings.Repeat(" ", width[i]-utf8.RuneCountInString(c)+1))
		}
		b.WriteString("|\n")
	}
	line(rows[0])
	for _, w := range width {
		b.WriteString("|" + strings.Repeat("-", w+2))
	}
	b.WriteString("|\n")
	for _, row := range rows[1:] {
		line(row)
	}
	b.WriteByte('\n')
}
