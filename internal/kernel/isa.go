package kernel

// ISANames lists what the environment variable TINYLOOP_ISA may name: the most that the kernels use. A set that the processor lacks changes nothing.
func ISANames() []string { return []string{"generic", "avx2", "avx512vnni", "neon"} }
