package realizar

import (
	"context"
	"unsafe"
)

// Plan is the memory that a model and its sessions take, in bytes.
type Plan struct {
	GPULayers                  int
	WeightsHost, WeightsDevice uint64
	CacheHost, CacheDevice     uint64 // KV cache of one session
	CacheToken                 uint64 // memory per additional token of a session's capacity
	ScratchHost, ScratchDevice uint64
	LoadPeakHost               uint64
	TotalHost, TotalDevice     uint64
	ExpertsHost, ExpertsDevice uint64       // experts of layers on GPUs, which are part of the weights
	FirstExpertsHost           int          // first of these layers whose experts are on the CPU
	NExpertsHost               int          // number of layers from that one to the last
	Devices                    []PlanDevice // memory on each GPU that has layers
}

// PlanDevice is the part of a plan that is on one GPU, in bytes.
type PlanDevice struct {
	Device                         uint32
	Layers                         int
	Weights, Cache, Scratch, Total uint64
}

// planned is a plan as the library writes it.
type planned struct {
	plan    rz_model_plan
	devices [rz_DEVICES_MAX]rz_model_plan_device
	n       uintptr
}

// PlanLoad returns the memory that [Load] and this number of sessions will take, before a weight is read.
func PlanLoad(ctx context.Context, path string, options *LoadOptions, session *SessionOptions, sessions int) (Plan, error) {
	if err := noNUL("path", path); err != nil {
		return Plan{}, err
	}
	n, err := whole(sessions, "sessions")
	if err != nil {
		return Plan{}, err
	}
	name := cString(path)
	return plan(ctx, options, session, func(params *rz_model_params, cache *rz_cache_params, out *planned, e *rz_error) int32 {
		return lib.rz_model_plan_get(name, nil, 0, params, cache, n, &out.plan, &out.devices[0], rz_DEVICES_MAX, &out.n, e)
	})
}

// PlanLoadFrom is [PlanLoad] for the sources of [LoadFrom].
func PlanLoadFrom(ctx context.Context, sources []Source, options *LoadOptions, session *SessionOptions, sessions int) (found Plan, err error) {
	caches, err := whole(sessions, "sessions")
	if err != nil {
		return Plan{}, err
	}
	err = withSources(sources, func(raw *rz_source, n uintptr) error {
		found, err = plan(ctx, options, session, func(params *rz_model_params, cache *rz_cache_params, out *planned, e *rz_error) int32 {
			return lib.rz_model_plan_get(nil, raw, n, params, cache, caches, &out.plan, &out.devices[0], rz_DEVICES_MAX, &out.n, e)
		})
		return err
	})
	return found, err
}

func plan(ctx context.Context, options *LoadOptions, session *SessionOptions,
	f func(params *rz_model_params, cache *rz_cache_params, out *planned, e *rz_error) int32) (Plan, error) {
	cache, err := session.params()
	if err != nil {
		return Plan{}, err
	}
	var out planned
	out.plan.struct_size = uint32(unsafe.Sizeof(out.plan))
	for i := range out.devices {
		out.devices[i].struct_size = uint32(unsafe.Sizeof(out.devices[i]))
	}
	shared, err := withParams(ctx, options, func(params *rz_model_params, e *rz_error) int32 { return f(params, &cache, &out, e) })
	if err != nil {
		return Plan{}, err
	}
	shared.release()
	c := &out.plan
	found := Plan{
		GPULayers: int(c.gpu_layers), WeightsHost: c.weights_host, WeightsDevice: c.weights_device,
		CacheHost: c.cache_host, CacheDevice: c.cache_device, CacheToken: c.cache_token,
		ScratchHost: c.scratch_host, ScratchDevice: c.scratch_device, LoadPeakHost: c.load_peak_host,
		TotalHost: c.total_host, TotalDevice: c.total_device,
		ExpertsHost: c.experts_host, ExpertsDevice: c.experts_device,
		FirstExpertsHost: int(c.experts_host_first), NExpertsHost: int(c.experts_host_layers),
	}
	for _, d := range out.devices[:out.n] {
		found.Devices = append(found.Devices, PlanDevice{
			d.device, int(d.n_layers), d.weights, d.cache, d.scratch, d.total,
		})
	}
	return found, nil
}
