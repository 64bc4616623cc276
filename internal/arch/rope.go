package arch

import (
	"math"

	"tinyloop/internal/model"
)

// ropeSlot is the name of the divisors of the rotations' frequencies in model.Slot.
const ropeSlot = "rope_freqs.weight"

// hfRope reads how positions rotate: rope_theta and rope_scaling, or rope_parameters, which newer configurations have in their place. Known are the kinds
// default, linear (every frequency divided by one factor) and llama3.
func hfRope(c *config, b *model.Block) {
	outer := c.float("rope_theta", false, 10000)
	b.RopeTheta = outer
	for _, key := range []string{"rope_scaling", "rope_parameters"} {
		v, full, ok := c.get(key)
		if !ok {
			continue
		}
		o, ok := v.(map[string]any)
		if !ok {
			c.wrong(full, "an object", v)
			return
		}
		sub := &config{meta: object(o), where: c.where + key + ".", read: map[string]bool{}, made: c.made}
		b.RopeTheta = sub.float("rope_theta", false, b.RopeTheta)
		if v, _, ok := c.get("rope_theta"); ok && b.RopeTheta != outer {
			c.fail(invalid("rope_theta", "%srope_theta is %v, %s.rope_theta %v", c.where, clip(v), key, b.RopeTheta))
		}
		sub.off("partial_rotary_factor", 1)
		scaling(sub, b)
		if err := sub.done(); err != nil {
			c.fail(err)
		}
		c.made = sub.made
	}
}

func scaling(c *config, b *model.Block) {
	kind := c.text("rope_type")
	if kind == "" {
		kind = c.text("type")
	} else {
		c.off("type", kind)
	}
	switch kind {
	case "", "default":
		c.ignore("factor")
	case "linear":
		stretch(c, b, c.float("factor", true, 1))
	case "llama3":
		llama3(c, b)
	default:
		c.refused("rope_type", kind)
	}
}

// stretch divides every frequency by one factor.
func stretch(c *config, b *model.Block, factor float32) {
	if !(factor > 0) || math.IsInf(float64(factor), 0) {
		c.wrong(c.prefix+"factor", "a finite number above 0", factor)
		return
	}
	factors(c, b, func(float64) float64 { return float64(factor) })
}

// llama3 divides the frequencies of long waves by factor, leaves those of short ones, and goes from one to the other between: waves that fit
// original_max_position_embeddings at most low_freq_factor times are long, those that fit high_freq_factor times are short (Llama 3.1's reference code).
func llama3(c *config, b *model.Block) {
	factor := float64(c.float("factor", true, 1))
	low, high := float64(c.float("low_freq_factor", true, 1)), float64(c.float("high_freq_factor", true, 4))
	trained := float64(c.size("original_max_position_embeddings", true, 1))
	if !(factor >= 1 && factor < 1e6 && low > 0 && high > low && high < 1e6 && trained >= 1) {
		c.fail(invalid("rope_scaling", "%sfactor must be at least 1, and high_freq_factor above low_freq_factor: they are %v, %v and %v", c.where, factor, high, low))
		return
	}
	factors(c, b, func(freq float64) float64 {
		fits := trained * freq / (2 * math.Pi)
		switch {
		case fits <= low:
			return factor
		case fits >= high:
			return 1
		}
		smooth := (fits - low) / (high - low)
		return 1 / ((1-smooth)/factor + smooth)
	})
}

// factors makes the tensor of divisors out of the frequency of each rotation.
func factors(c *config, b *model.Block, divisor func(freq float64) float64) {
	rot := b.Rot()
	if rot > 1<<16 {
		return // Validate says what is wrong
	}
	v := make([]float32, rot/2)
	for j := range v {
		v[j] = float32(divisor(math.Pow(float64(b.RopeTheta), -2*float64(j)/float64(rot))))
	}
	b.RopeFactors = true
	c.make(ropeSlot, v)
}
