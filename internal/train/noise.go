package train

import (
	"tinyloop/internal/model"
)

// formatSteps gives the steps from 0 to the largest value of a block, for the formats whose noise is known.
func formatSteps(format string) float32 {
	switch format {
	case "q8_0":
		return 127
	case "q4_0":
		return 8
	}
	return 0
}

// noiseBlock is the values that share a scale in these formats.
const noiseBlock = 32

// addNoise adds to every looped matrix what storing it would: uniform noise of half a step to either side, the step being that of each block of 32
// values along a row. An error that comes back in every loop is thus met in training already (noise as in arXiv 2004.07320, on looped weights only).
func addNoise(w []float32, layout []model.Param, format string, seed uint64, step int) {
	steps := formatSteps(format)
	for i := range layout {
		p := &layout[i]
		if !p.Looped || p.K == 0 {
			continue
		}
		rng := source(seed, streamNoise, step, i)
		x := w[p.Off : p.Off+p.Len]
		for lo := 0; lo < len(x); lo += noiseBlock {
			b := x[lo:min(lo+noiseBlock, len(x))]
			largest := float32(0)
			for _, v := range b {
				largest = max(largest, v, -v)
			}
			unit := largest / steps / (1 << 32) // of 32 random bits
			for j := range b {
				b[j] += float32(int32(uint32(rng.Uint64()>>32))) * unit
			}
		}
	}
}
