// Package nn holds the layers as forward/backward pairs over rows: linear, norm, attention over KV pages, MLP, loop injection. One definition of each,
// for inference and for training.
package nn
