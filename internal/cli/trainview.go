package cli

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"
	"golang.org/x/term"

	"tinyloop/internal/tok"
)

// trainView shows how far the training of a tokenizer is: bars on a terminal, elsewhere a line now and then.
type trainView struct {
	out   io.Writer
	last  tok.TrainProgress
	shown time.Time
	bars  *mpb.Progress // nil: lines
	read  *mpb.Bar
	merge *mpb.Bar
}

const lineEvery = 2 * time.Second

func newTrainView(io *IO) *trainView {
	v := &trainView{out: io.Err, shown: time.Now()}
	if f, ok := io.Err.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		v.bars = mpb.NewWithContext(io.Ctx, mpb.WithOutput(io.Err), mpb.WithWidth(40))
		v.read = v.bars.New(0, mpb.SpinnerStyle(), mpb.PrependDecorators(decor.Name("reading ")),
			mpb.AppendDecorators(decor.Any(func(s decor.Statistics) string { return size(s.Current) })), mpb.BarRemoveOnComplete())
	}
	return v
}

// show takes a report; it is called on one goroutine.
func (v *trainView) show(p tok.TrainProgress) {
	merging := p.Words > 0
	first := merging && v.last.Words == 0
	v.last = p
	if v.bars != nil {
		v.draw(p, first)
		return
	}
	switch now := time.Now(); {
	case first:
		fmt.Fprintf(v.out, "read %s, %d distinct words\n", size(p.Bytes), p.Words)
		v.shown = now
	case now.Sub(v.shown) < lineEvery:
	case merging:
		fmt.Fprintf(v.out, "%d of %d entries\n", p.Tokens, p.Target)
		v.shown = now
	default:
		fmt.Fprintf(v.out, "read %s\n", size(p.Bytes))
		v.shown = now
	}
}

func (v *trainView) draw(p tok.TrainProgress, first bool) {
	if p.Words == 0 {
		v.read.SetCurrent(p.Bytes)
		return
	}
	if first {
		v.read.SetTotal(-1, true)
		v.merge = v.bars.AddBar(int64(p.Target), mpb.PrependDecorators(decor.Name("merging "), decor.CountersNoUnit("%d / %d")),
			mpb.AppendDecorators(decor.AverageETA(decor.ET_STYLE_GO)), mpb.BarRemoveOnComplete())
	}
	v.merge.SetCurrent(int64(p.Tokens))
}

// end takes the bars away.
func (v *trainView) end() {
	if v.bars == nil {
		return
	}
	v.read.Abort(true)
	if v.merge != nil {
		v.merge.Abort(true)
	}
	v.bars.Wait()
}
