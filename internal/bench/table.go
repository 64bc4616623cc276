package bench

import (
	"fmt"
	"io"
	"path/filepath"
	"text/tabwriter"
)

// Table writes the report for people.
func (r *Report) Table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "%s: %s %s, %s parameters (%s unrolled), file %s\n", filepath.Base(r.File), r.Family, r.Quant, count(r.Params), count(r.Unrolled), size(r.FileBytes))
	fmt.Fprintf(t, "weights %s in memory, keys and values %s a token at %d loops (%s), %s on %d CPUs; %d rounds of %d tokens\n", size(r.Weights), size(r.KVPerToken), r.defaultLoops, r.KVType, r.ISA, r.CPUs, r.Rounds, r.Tokens)
	for i := range r.Runs {
		r.Runs[i].table(t)
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(t, "\nleft out: %s", s)
	}
	if len(r.Skipped) > 0 {
		fmt.Fprintln(t)
	}
	if r.Machine != nil {
		r.Machine.table(t)
	}
	return t.Flush()
}

func (run *Run) table(w io.Writer) {
	fmt.Fprintf(w, "\n%s, %s: load %.0f ms", plural(run.Threads, "thread"), plural(run.Loops, "loop"), run.Load)
	if run.First > 0 {
		fmt.Fprintf(w, ", served after %.0f ms, first token after %.0f ms", run.Ready, run.First)
	}
	if run.Peak > 0 {
		fmt.Fprintf(w, ", peak memory %s", size(run.Peak))
	}
	fmt.Fprintf(w, "\nweights read %s a token", size(run.Read))
	if run.Share > 0 {
		fmt.Fprintf(w, ", at %.0f %% of what this machine reads", 100*run.Share)
	}
	fmt.Fprintln(w, "\n\nwork\tvia\ttokens/s\tmin\tmax\tbest\t")
	for _, x := range run.Rates {
		v := x.TokensPerSecond
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.name(), x.Via, rate(v.Median), rate(v.Min), rate(v.Max), rate(x.Best), x.remarks())
	}
}

func (x *Rate) name() string {
	switch x.Work {
	case Prefill:
		return fmt.Sprintf("prefill of %d tokens", x.N)
	case Streams:
		return fmt.Sprintf("%d streams", x.N)
	}
	return fmt.Sprintf("decode after %d tokens", x.N)
}

func (x *Rate) remarks() string {
	s := ""
	if x.GapP99 > 0 {
		s = fmt.Sprintf("gap %.2f ms, p99 %.2f", x.GapMedian, x.GapP99)
	}
	if x.AllocsPerToken >= 0.01 {
		s += fmt.Sprintf(" %.2f allocations a token", x.AllocsPerToken)
	}
	return s
}

// table writes one column a number of threads.
func (m *Machine) table(w io.Writer) {
	fmt.Fprint(w, "\nthis machine")
	var threads []int
	for _, r := range m.Read {
		if len(threads) == 0 || threads[len(threads)-1] != r.Threads {
			threads = append(threads, r.Threads)
			fmt.Fprintf(w, "\t%s", plural(r.Threads, "thread"))
		}
	}
	fmt.Fprintln(w)
	per := len(m.Read) / len(threads)
	for i := range per {
		fmt.Fprintf(w, "read %s, GB/s", size(m.Read[i].Bytes))
		for j := range threads {
			fmt.Fprintf(w, "\t%s", between(m.Read[j*per+i].GBs))
		}
		fmt.Fprintln(w)
	}
	per = len(m.Products) / len(threads)
	for i := range per {
		fmt.Fprintf(w, "product with %s, Gop/s", m.Products[i].Type)
		for j := range threads {
			fmt.Fprintf(w, "\t%s", between(m.Products[j*per+i].Gops))
		}
		fmt.Fprintln(w)
	}
}

func between(s Spread) string { return fmt.Sprintf("%.1f (%.1f to %.1f)", s.Median, s.Min, s.Max) }

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func rate(v float64) string {
	if v < 100 {
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

func size(n int64) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f GB", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1f kB", float64(n)/1e3)
}

func count(n int64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.2f G", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1f M", float64(n)/1e6)
}
