package optim

import (
	"math"

	"tinyloop/internal/fault"
)

// Shape is how the learning rate falls after its warm-up.
type Shape string

const (
	Trapezoid Shape = "trapezoid" // flat, then a line
	Cosine    Shape = "cosine"    // half a wave
	Linear    Shape = "linear"    // a line from the start
	Constant  Shape = "constant"
)

// Schedule gives the factor on the learning rates.
type Schedule struct {
	Shape  Shape
	Warmup int     // steps from near 0 up to 1
	Flat   float64 // Trapezoid: the part of the run after which the line begins, 0 to 1
	Final  float64 // factor at the end, 0 to 1
}

// Validate names the field at fault.
func (s *Schedule) Validate() error {
	switch s.Shape {
	case Trapezoid, Cosine, Linear, Constant:
	default:
		return fault.New(fault.Invalid, "schedule.shape", "schedule.shape must be trapezoid, cosine, linear or constant, is %q", fault.Clip(string(s.Shape), 40))
	}
	if s.Warmup < 0 || s.Warmup > 1_000_000 {
		return fault.New(fault.Invalid, "schedule.warmup", "schedule.warmup must be 0 to 1000000 steps, is %d", s.Warmup)
	}
	if !(s.Flat >= 0 && s.Flat <= 1) {
		return fault.New(fault.Invalid, "schedule.flat", "schedule.flat must be 0 to 1, is %g", s.Flat)
	}
	if !(s.Final >= 0 && s.Final <= 1) {
		return fault.New(fault.Invalid, "schedule.final", "schedule.final must be 0 to 1, is %g", s.Final)
	}
	return nil
}

// At gives the factor of a step counted from 0, when the part `progress` of the run, 0 to 1, is done: of its steps, or of its time.
func (s *Schedule) At(step int, progress float64) float64 {
	progress = min(max(progress, 0), 1)
	f := s.fall(progress)
	if step < s.Warmup {
		f *= float64(step+1) / float64(s.Warmup)
	}
	return f
}

func (s *Schedule) fall(progress float64) float64 {
	line := func(x float64) float64 { return 1 + x*(s.Final-1) }
	switch s.Shape {
	case Cosine:
		return s.Final + (1-s.Final)*(1+math.Cos(math.Pi*progress))/2
	case Linear:
		return line(progress)
	case Trapezoid:
		if progress <= s.Flat || s.Flat >= 1 {
			return 1
		}
		return line((progress - s.Flat) / (1 - s.Flat))
	}
	return 1
}
