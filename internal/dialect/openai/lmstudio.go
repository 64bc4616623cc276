package openai

import (
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"tinyloop/internal/dialect"
	"tinyloop/internal/gen"
)

// LM Studio's routes below /api/v0: OpenAI's requests and answers, with three objects beside them. A stream has them in the last chunk of every choice.
//
//	stats       of the choice (of the first one, where an answer is whole): ours, and LM Studio's names
//	model_info  arch, quant, format, context_length
//	runtime     name, version, supported_formats

// studio is what answers of these routes have beside OpenAI's.
type studio struct {
	version string
	model   []byte // model_info and runtime with the commas before them
	stats   []byte // of the first choice
}

// studioRoutes lists them.
func (opt Options) studioRoutes() []dialect.Route {
	post := func(path string, decode func(*dialect.Call) (*dialect.Job, error)) dialect.Route {
		return dialect.Route{Method: http.MethodPost, Path: "/api/v0" + path, Decode: func(c *dialect.Call) (*dialect.Job, error) {
			j, err := decode(c)
			if err == nil {
				j.Encoder.(*encoder).studio = &studio{version: opt.Version}
			}
			return j, err
		}}
	}
	return []dialect.Route{
		post("/chat/completions", decodeChat),
		post("/completions", opt.decodeCompletion),
		{Method: http.MethodGet, Path: "/api/v0/models", Answer: listStudioModels},
		{Method: http.MethodGet, Path: "/api/v0/models/{id...}", Answer: getStudioModel},
	}
}

// begin encodes what does not change.
func (s *studio) begin(in *gen.Info) {
	b := append(s.model[:0], `,"model_info":{"arch":`...)
	b = dialect.AppendString(b, in.Family)
	b = append(b, `,"quant":`...)
	b = dialect.AppendString(b, in.Quant)
	b = append(b, `,"format":`...)
	b = dialect.AppendString(b, format(in.Path))
	b = append(b, `,"context_length":`...)
	b = dialect.AppendInt(b, in.Context)
	b = append(b, `},"runtime":{"name":"tinyloop","version":`...)
	b = dialect.AppendString(b, s.version)
	s.model = append(b, `,"supported_formats":["tinyloop","gguf","safetensors","llama2.c"]}`...)
}

// format names the kind of file that a model came from.
func format(path string) string {
	switch ext := strings.ToLower(filepath.Ext(path)); ext {
	case ".tinyloop", ".gguf":
		return ext[1:]
	case ".bin":
		return "llama2.c"
	}
	return "safetensors"
}

// appendTo appends the three objects, each with a comma before it.
func (s *studio) appendTo(dst, stats []byte) []byte {
	dst = append(append(dst, `,"stats":`...), stats...)
	return append(dst, s.model...)
}

// appendStudioStats appends our stats with LM Studio's names added, whose times are seconds.
func appendStudioStats(dst []byte, ev *gen.Event, p *dialect.Prompt) []byte {
	st := &ev.Stats
	dst = dialect.AppendOpenStats(dst, ev, p)
	dst = append(dst, `,"time_to_first_token":`...)
	dst = appendSeconds(dst, st.TTFT)
	dst = append(dst, `,"generation_time":`...)
	dst = appendSeconds(dst, st.Decode)
	if d := &st.Draft; d.Drafted > 0 {
		dst = append(dst, `,"total_draft_tokens_count":`...)
		dst = dialect.AppendInt(dst, d.Drafted)
		dst = append(dst, `,"accepted_draft_tokens_count":`...)
		dst = dialect.AppendInt(dst, d.Accepted)
		dst = append(dst, `,"rejected_draft_tokens_count":`...)
		dst = dialect.AppendInt(dst, d.Judged-d.Accepted)
		dst = append(dst, `,"ignored_draft_tokens_count":`...)
		dst = dialect.AppendInt(dst, max(0, d.Drafted-d.Judged))
	}
	return append(dst, '}')
}

// appendSeconds appends d in seconds, to the microsecond.
func appendSeconds(dst []byte, d time.Duration) []byte {
	return dialect.AppendFloat(dst, float64(d.Microseconds())/1e6)
}

func listStudioModels(c *dialect.Call) ([]byte, error) {
	return appendModels(c, func(dst []byte, m *dialect.Listed) []byte { return appendStudioModel(dst, m, m.Name) }), nil
}

func getStudioModel(c *dialect.Call) ([]byte, error) {
	m, id, err := asked(c)
	if err != nil {
		return nil, err
	}
	return appendStudioModel(nil, m, id), nil
}

// appendStudioModel appends LM Studio's model object, and the loops.
func appendStudioModel(dst []byte, m *dialect.Listed, id string) []byte {
	in := &m.Info
	publisher, _, ok := strings.Cut(m.Name, "/")
	if !ok {
		publisher = "tinyloop"
	}
	dst = append(dst, `{"id":`...)
	dst = dialect.AppendString(dst, id)
	dst = append(dst, `,"object":"model","type":"llm","publisher":`...)
	dst = dialect.AppendString(dst, publisher)
	dst = append(dst, `,"arch":`...)
	dst = dialect.AppendString(dst, in.Family)
	dst = append(dst, `,"compatibility_type":`...)
	dst = dialect.AppendString(dst, format(in.Path))
	dst = append(dst, `,"quantization":`...)
	dst = dialect.AppendString(dst, in.Quant)
	dst = append(dst, `,"state":"loaded","max_context_length":`...)
	dst = dialect.AppendInt(dst, in.TrainedContext)
	dst = append(dst, `,"loaded_context_length":`...)
	dst = dialect.AppendInt(dst, in.Context)
	return append(appendLoops(dst, in), '}')
}
