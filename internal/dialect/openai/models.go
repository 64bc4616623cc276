package openai

import (
	"slices"
	"strconv"

	"tinyloop/internal/dialect"
	"tinyloop/internal/fault"
	"tinyloop/internal/gen"
)

func listModels(c *dialect.Call) ([]byte, error) {
	return appendModels(c, func(dst []byte, m *dialect.Listed) []byte { return appendModel(dst, m, m.Name) }), nil
}

// appendModels gives the list of all models.
func appendModels(c *dialect.Call, one func(dst []byte, m *dialect.Listed) []byte) []byte {
	dst := []byte(`{"object":"list","data":[`)
	for i, m := range c.Models.List() {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = one(dst, &m)
	}
	return append(dst, "]}"...)
}

func getModel(c *dialect.Call) ([]byte, error) {
	m, id, err := asked(c)
	if err != nil {
		return nil, err
	}
	return appendModel(nil, m, id), nil
}

// asked finds the model of the path, under the name used there.
func asked(c *dialect.Call) (*dialect.Listed, string, error) {
	id := c.Value("id")
	all := c.Models.List()
	for i := range all {
		if all[i].Name == id || slices.Contains(all[i].Aliases, id) {
			return &all[i], id, nil
		}
	}
	return nil, id, &fault.Error{Kind: fault.NotFound, Field: "model", Code: "model_not_found", Msg: "there is no model " + strconv.Quote(fault.Clip(id, 40))}
}

// appendModel appends OpenAI's model object, llama.cpp's meta, vLLM's max_model_len and the loops.
func appendModel(dst []byte, m *dialect.Listed, id string) []byte {
	in := &m.Info
	dst = append(dst, `{"id":`...)
	dst = dialect.AppendString(dst, id)
	dst = append(dst, `,"object":"model","created":`...)
	dst = strconv.AppendInt(dst, max(in.Created.Unix(), 0), 10)
	dst = append(dst, `,"owned_by":"tinyloop","aliases":[`...)
	for i, a := range m.Aliases {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = dialect.AppendString(dst, a)
	}
	dst = append(dst, `],"max_model_len":`...)
	dst = dialect.AppendInt(dst, in.Context)
	dst = appendLoops(dst, in)
	dst = append(dst, `,"meta":{"chat":`...)
	dst = strconv.AppendBool(dst, in.Chat)
	dst = append(dst, `,"family":`...)
	dst = dialect.AppendString(dst, in.Family)
	dst = append(dst, `,"quantization":`...)
	dst = dialect.AppendString(dst, in.Quant)
	dst = append(dst, `,"n_vocab":`...)
	dst = dialect.AppendInt(dst, in.Vocab)
	dst = append(dst, `,"n_ctx_train":`...)
	dst = dialect.AppendInt(dst, in.TrainedContext)
	dst = append(dst, `,"n_params":`...)
	dst = strconv.AppendInt(dst, in.Params, 10)
	dst = append(dst, `,"n_params_unrolled":`...)
	dst = strconv.AppendInt(dst, in.UnrolledParams, 10)
	dst = append(dst, `,"size":`...)
	dst = strconv.AppendInt(dst, in.Bytes, 10)
	dst = append(dst, `,"kv_bytes_per_token":`...)
	dst = strconv.AppendInt(dst, in.KVBytesPerToken, 10)
	dst = append(dst, `,"license":`...)
	dst = dialect.AppendString(dst, in.License)
	return append(dst, "}}"...)
}

// appendLoops appends the range of depth, with a comma before it.
func appendLoops(dst []byte, in *gen.Info) []byte {
	dst = append(dst, `,"loops":{"default":`...)
	dst = dialect.AppendInt(dst, in.Loops.Default)
	dst = append(dst, `,"trained_min":`...)
	dst = dialect.AppendInt(dst, in.Loops.TrainedMin)
	dst = append(dst, `,"trained_mean":`...)
	dst = dialect.AppendInt(dst, in.Loops.TrainedMean)
	dst = append(dst, `,"trained_max":`...)
	dst = dialect.AppendInt(dst, in.Loops.TrainedMax)
	dst = append(dst, `},"max_loops":`...)
	return dialect.AppendInt(dst, in.Loops.HardMax)
}
