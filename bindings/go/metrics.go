package realizar

import (
	"time"
	"unsafe"
)

// Phase counts how often something was done, and how long it took in all.
type Phase struct {
	Count uint64
	Time  time.Duration
}

// Metrics tell what a model has done since it was loaded or [Model.ResetMetrics] was called.
type Metrics struct {
	Load, Tokenize, Prefill, Decode, Sample, Detokenize, Encode Phase
}

// DeviceKind is the kind of a device.
type DeviceKind uint32

const (
	CPU DeviceKind = rz_DEVICE_CPU // the processor
	GPU DeviceKind = rz_DEVICE_GPU // a graphics card
)

// DeviceMetrics tell what one kind of device has done: a dispatch is one pass through its layers.
type DeviceMetrics struct {
	Dispatches, Bytes                               uint64
	LatencySum, LatencyMin, LatencyMax, LatencyMean time.Duration
	LatencyHistogram                                [32]uint64 // entry i: below 2^i microseconds
}

// Metrics reads the counters of the model.
func (m *Model) Metrics() (Metrics, error) {
	var c rz_metrics
	c.struct_size = uint32(unsafe.Sizeof(c))
	err := use(m, func(handle *rz_model, e *rz_error) int32 { return lib.rz_metrics_get(handle, &c, e) })
	phase := func(p rz_phase_metrics) Phase { return Phase{p.count, time.Duration(p.sum_ns)} }
	return Metrics{
		Load: phase(c.load), Tokenize: phase(c.tokenize), Prefill: phase(c.prefill),
		Decode: phase(c.decode), Sample: phase(c.sample), Detokenize: phase(c.detokenize), Encode: phase(c.encode),
	}, err
}

// DeviceMetrics reads the counters of one kind of device.
func (m *Model) DeviceMetrics(kind DeviceKind) (DeviceMetrics, error) {
	var c rz_backend_metrics
	c.struct_size = uint32(unsafe.Sizeof(c))
	err := use(m, func(handle *rz_model, e *rz_error) int32 {
		return lib.rz_backend_metrics_get(handle, uint32(kind), &c, e)
	})
	return DeviceMetrics{
		Dispatches: c.dispatches, Bytes: c.bytes,
		LatencySum: time.Duration(c.latency_sum_ns), LatencyMin: time.Duration(c.latency_min_ns),
		LatencyMax: time.Duration(c.latency_max_ns), LatencyMean: time.Duration(c.latency_mean_ns),
		LatencyHistogram: c.latency_histogram,
	}, err
}

// ResetMetrics sets the counters to zero.
func (m *Model) ResetMetrics() error {
	return use(m, func(handle *rz_model, e *rz_error) int32 {
		lib.rz_metrics_reset(handle)
		return rz_OK
	})
}
