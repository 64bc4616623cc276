package native

import (
	"cmp"
	"context"
	"time"

	"tinyloop/internal/dialect"
	"tinyloop/internal/gen"
)

// lensTime bounds a look into the loops.
const lensTime = time.Minute

// lens answers POST /lens {prompt, loops, reasoning_effort, top, model}: what every position would say after every loop.
func lens(c *dialect.Call) ([]byte, error) {
	o, err := dialect.ParseObject(c.Body)
	if err != nil {
		return nil, err
	}
	r := &gen.Request{Loops: o.Int("loops"), Effort: o.Str("reasoning_effort"), TopLogprobs: 5}
	prompt(o.Need("prompt"), r)
	if n := o.Int("top"); n != nil {
		r.TopLogprobs = *n
	}
	model := o.Str("model")
	o.Done()
	c.Ignored = o.Ignored()
	if err := o.Err(); err != nil {
		return nil, err
	}
	g, release, err := c.Models.Open(model)
	if err != nil {
		return nil, err
	}
	defer release()
	ctx, cancel := context.WithTimeout(cmp.Or(c.Ctx, context.Background()), lensTime)
	defer cancel()
	l, err := g.Lens(ctx, r)
	if err != nil {
		return nil, dialect.Rename(err, map[string]string{"top_logprobs": "top", "effort": "reasoning_effort"})
	}
	return appendLens(nil, g, l), nil
}

// appendLens appends {"loops","positions":[{"id","text","loops":[{"top":[{"id","text","logprob"}],"entropy","change","gate"}]}],"warnings":[]}.
func appendLens(dst []byte, g *gen.Generator, l *gen.Lens) []byte {
	dst = dialect.AppendInt(append(dst, `{"loops":`...), l.Loops)
	dst = append(dst, `,"positions":[`...)
	for i, id := range l.IDs {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = dialect.AppendInt(append(dst, `{"id":`...), int(id))
		dst = dialect.AppendString(append(dst, `,"text":`...), g.Tokenizer().Piece(id))
		dst = append(dst, `,"loops":[`...)
		for k := range l.Depths[i] {
			if k > 0 {
				dst = append(dst, ',')
			}
			dst = appendDepth(dst, &l.Depths[i][k])
		}
		dst = append(dst, `]}`...)
	}
	dst = dialect.AppendStrings(append(dst, `],"warnings":`...), l.Warnings)
	return append(dst, '}')
}

func appendDepth(dst []byte, d *gen.Depth) []byte {
	dst = append(dst, `{"top":[`...)
	for i := range d.Top {
		if i > 0 {
			dst = append(dst, ',')
		}
		t := &d.Top[i]
		dst = dialect.AppendInt(append(dst, `{"id":`...), int(t.ID))
		dst = dialect.AppendString(append(dst, `,"text":`...), t.Text)
		dst = append(dialect.AppendFloat32(append(dst, `,"logprob":`...), t.Logprob), '}')
	}
	dst = dialect.AppendFloat(append(dst, `],"entropy":`...), d.Entropy)
	dst = appendKnown(append(dst, `,"change":`...), d.Change)
	dst = appendKnown(append(dst, `,"gate":`...), d.Gate)
	return append(dst, '}')
}

// appendKnown appends a number that is not negative, null for one that is.
func appendKnown(dst []byte, x float64) []byte {
	if x < 0 {
		return append(dst, "null"...)
	}
	return dialect.AppendFloat(dst, x)
}
