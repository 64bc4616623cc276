package serve

import (
	"net/http"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tinyloop/internal/gen"
	"tinyloop/internal/host"
)

// metrics counts what was answered and reads the engines when it is asked. The names follow what dashboards for LLM servers expect: requests
// running and waiting, share of the KV cache, time to first token, time between tokens.
type metrics struct {
	reg     *prometheus.Registry
	handler http.Handler

	responses  *prometheus.CounterVec
	answers    *prometheus.CounterVec
	prompt     *prometheus.CounterVec
	cached     *prometheus.CounterVec
	generated  *prometheus.CounterVec
	ttft       *prometheus.HistogramVec
	interToken *prometheus.HistogramVec
	duration   *prometheus.HistogramVec
	queue      *prometheus.HistogramVec
}

func newMetrics(h *host.Host) *metrics {
	short := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}
	long := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "tinyloop_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "tinyloop_" + name, Help: help, Buckets: buckets}, labels)
	}
	m := &metrics{
		reg:        prometheus.NewRegistry(),
		responses:  counter("http_responses_total", "HTTP answers by route, method and status.", "route", "method", "code"),
		answers:    counter("requests_total", "Generation requests by model and by how they ended.", "model", "outcome"),
		prompt:     counter("prompt_tokens_total", "Tokens of prompts.", "model"),
		cached:     counter("prompt_tokens_cached_total", "Tokens of prompts that were found in the prefix cache.", "model"),
		generated:  counter("generated_tokens_total", "Tokens sampled.", "model"),
		ttft:       histogram("time_to_first_token_seconds", "From the request's arrival to its first token.", long, "model"),
		interToken: histogram("inter_token_latency_seconds", "Time between two tokens of a choice.", short, "model"),
		duration:   histogram("request_duration_seconds", "From the request's arrival to its last byte.", long, "model", "outcome"),
		queue:      histogram("queue_duration_seconds", "Time a request waited before its first step.", long, "model"),
	}
	m.reg.MustRegister(m.responses, m.answers, m.prompt, m.cached, m.generated, m.ttft, m.interToken, m.duration, m.queue,
		newEngines(h), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.handler = promhttp.HandlerFor(m.reg, promhttp.HandlerOpts{})
	return m
}

func (m *metrics) serve(x *exchange, r *http.Request) { m.handler.ServeHTTP(x, r) }

// answered counts one HTTP answer, and the generation behind it where there was one.
func (m *metrics) answered(x *exchange, method string) {
	switch method {
	case http.MethodGet, http.MethodPost, http.MethodHead, http.MethodOptions:
	default:
		method = "other" // a caller must not make new series
	}
	m.responses.WithLabelValues(x.route, method, strconv.Itoa(x.status)).Inc()
}

// generation counts a generation request that reached a model.
func (m *metrics) generation(x *exchange, seconds float64) {
	m.answers.WithLabelValues(x.model, x.outcome).Inc()
	m.duration.WithLabelValues(x.model, x.outcome).Observe(seconds)
	m.prompt.WithLabelValues(x.model).Add(float64(x.prompt))
	m.generated.WithLabelValues(x.model).Add(float64(x.completion))
}

// choice takes the times of a finished choice.
func (m *metrics) choice(model string, st *gen.Stats, first bool) {
	if first {
		m.queue.WithLabelValues(model).Observe(st.Queued.Seconds())
		m.cached.WithLabelValues(model).Add(float64(st.CachedTokens))
		if st.CompletionTokens > 0 {
			m.ttft.WithLabelValues(model).Observe(st.TTFT.Seconds())
		}
	}
}

// engines reads the state of every engine at the time of a scrape.
type engines struct {
	host                                           *host.Host
	running, waiting, usage, steps, preempted, age *prometheus.Desc
}

func newEngines(h *host.Host) *engines {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc("tinyloop_"+name, help, []string{"model"}, nil)
	}
	return &engines{
		host:      h,
		running:   desc("requests_running", "Choices that are being computed."),
		waiting:   desc("requests_waiting", "Choices and requests that wait for memory or their turn."),
		usage:     desc("kv_cache_usage_ratio", "Share of the KV pages that running choices hold, 0 to 1."),
		steps:     desc("engine_steps_total", "Steps of the engine's loop."),
		preempted: desc("preempted_total", "Times a running choice had to give its KV pages back."),
		age:       desc("engine_step_age_seconds", "How long the step in progress has been running."),
	}
}

func (e *engines) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{e.running, e.waiting, e.usage, e.steps, e.preempted, e.age} {
		ch <- d
	}
}

func (e *engines) Collect(ch chan<- prometheus.Metric) {
	for _, m := range e.host.List() {
		h := m.Engine().Health()
		gauge := func(d *prometheus.Desc, v float64) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, m.Name)
		}
		gauge(e.running, float64(h.Running))
		gauge(e.waiting, float64(h.Waiting))
		gauge(e.usage, float64(h.PagesUsed)/float64(max(h.PagesTotal, 1)))
		gauge(e.age, h.Age.Seconds())
		ch <- prometheus.MustNewConstMetric(e.steps, prometheus.CounterValue, float64(h.Steps), m.Name)
		ch <- prometheus.MustNewConstMetric(e.preempted, prometheus.CounterValue, float64(h.Preempted), m.Name)
	}
}
