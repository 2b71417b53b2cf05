// Metrics of the service, which GET /metrics returns.
package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are the counters of the service.
type metrics struct {
	registry   *prometheus.Registry
	requests   *prometheus.CounterVec
	durations  *prometheus.HistogramVec
	tokens     *prometheus.CounterVec
	firstToken *prometheus.HistogramVec
	queue      *prometheus.GaugeVec
	busy       *prometheus.GaugeVec
	slots      *prometheus.GaugeVec
	generated  *prometheus.CounterVec
	memory     *prometheus.GaugeVec
	limit      prometheus.Gauge
}

// modelMetrics are the metrics of one model.
type modelMetrics struct {
	prompt, cached, completion, reasoning prometheus.Counter
	firstToken                            prometheus.Observer
	queue, busy, slots, memory            prometheus.Gauge
	generated                             prometheus.Counter
}

func newMetrics() *metrics {
	byModel := []string{"model"}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, byModel)
	}
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realizar_requests_total", Help: "Requests that have ended; the code 499: the client has hung up.",
		}, []string{"path", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "realizar_request_duration_seconds", Help: "Time of requests, streams included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 18),
		}, []string{"path"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realizar_tokens_total",
			Help: "Tokens by kind: of prompts, cached of them, of completions, of reasoning among these.",
		}, []string{"model", "kind"}),
		firstToken: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "realizar_time_to_first_token_seconds", Help: "Time from a request for a reply to its first text, waiting included.",
			Buckets: prometheus.ExponentialBuckets(0.005, 2, 16),
		}, byModel),
		queue: gauge("realizar_queue_length", "Replies that wait for a slot."),
		busy:  gauge("realizar_slots_busy", "Slots that are taken."),
		slots: gauge("realizar_slots", "Slots of a loaded model; 0: it is not loaded."),
		generated: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "realizar_generated_tokens_total", Help: "Generated tokens, including those of replies that still run.",
		}, byModel),
		memory: gauge("realizar_memory_bytes", "Expected host memory of a model with its KV caches; 0: it is not loaded."),
		limit: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "realizar_memory_limit_bytes", Help: "Limit of the host memory of all models; 0: none.",
		}),
	}
	m.registry.MustRegister(m.requests, m.durations, m.tokens, m.firstToken, m.queue, m.busy, m.slots, m.generated, m.memory, m.limit,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// of returns the metrics of a model.
func (m *metrics) of(model string) *modelMetrics {
	return &modelMetrics{
		prompt: m.tokens.WithLabelValues(model, "prompt"), cached: m.tokens.WithLabelValues(model, "cached"),
		completion: m.tokens.WithLabelValues(model, "completion"), reasoning: m.tokens.WithLabelValues(model, "reasoning"),
		firstToken: m.firstToken.WithLabelValues(model), queue: m.queue.WithLabelValues(model),
		busy: m.busy.WithLabelValues(model), slots: m.slots.WithLabelValues(model),
		memory: m.memory.WithLabelValues(model), generated: m.generated.WithLabelValues(model),
	}
}

// count counts the tokens of a reply.
func (m *modelMetrics) count(o *outcome) {
	m.prompt.Add(float64(o.Prompt))
	m.cached.Add(float64(o.Cached))
	m.completion.Add(float64(o.Completion))
	m.reasoning.Add(float64(o.Reasoning))
}
