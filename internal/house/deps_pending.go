//go:build pending

// Package house holds the laws of the code: the import ladder and the privileges of single packages.
package house

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/alecthomas/kong"
	_ "github.com/ardanlabs/jinja"
	_ "github.com/dlclark/regexp2/v2"
	_ "github.com/google/go-cmp/cmp"
	_ "github.com/lmittmann/tint"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/collectors"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "github.com/rogpeppe/go-internal/testscript"
	_ "github.com/rs/cors"
	_ "github.com/tiktoken-go/tokenizer/codec"
	_ "github.com/vbauerster/mpb/v8"
	_ "go.uber.org/goleak"
	_ "golang.org/x/sys/cpu"
	_ "golang.org/x/sys/unix"
	_ "golang.org/x/term"
	_ "golang.org/x/text/unicode/norm"
	_ "golang.org/x/time/rate"
	_ "pgregory.net/rapid"
)
