package kernel

//go:generate go run -C gen . -out ../avx2_amd64.s -stubs ../avx2_amd64.go -pkg kernel
//go:generate go run -C gen . -set train -out ../train_amd64.s -stubs ../train_amd64.go -pkg kernel
//go:generate go run -C gen . -set neon ../neon_arm64.s
//go:generate go run -C gen . -set vnni -out ../vnni_amd64.s -stubs ../vnni_amd64.go -pkg kernel
