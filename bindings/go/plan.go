package realizar

/*
#include <stdlib.h>
#include <realizar.h>
*/
import "C"

import (
	"context"
	"unsafe"
)

// Plan is the memory that a model and its sessions take, in bytes.
type Plan struct {
	GPULayers                  int
	WeightsHost, WeightsDevice uint64
	CacheHost, CacheDevice     uint64 // of one session with room for all its tokens
	CacheToken                 uint64 // what one more token of capacity adds to a session
	ScratchHost, ScratchDevice uint64
	LoadPeakHost               uint64
	TotalHost, TotalDevice     uint64
	ExpertsHost, ExpertsDevice uint64       // parts of the weights: experts of layers on GPUs
	FirstExpertsHost           int          // first layer whose experts of these are on the CPU
	NExpertsHost               int          // layers from that to the last of them
	Devices                    []PlanDevice // what lies on each GPU that has layers
}

// PlanDevice is the part of a plan that is on one GPU, in bytes.
type PlanDevice struct {
	Device                         uint32
	Layers                         int
	Weights, Cache, Scratch, Total uint64
}

// planned is a plan as the library writes it.
type planned struct {
	plan    C.rz_model_plan
	devices [C.RZ_DEVICES_MAX]C.rz_model_plan_device
	n       C.size_t
}

// PlanLoad tells what [Load] and so many sessions will take, before a weight is read.
func PlanLoad(ctx context.Context, path string, options *LoadOptions, session *SessionOptions, sessions int) (Plan, error) {
	if err := noNUL("path", path); err != nil {
		return Plan{}, err
	}
	n, err := whole(sessions, "sessions")
	if err != nil {
		return Plan{}, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return plan(ctx, options, session, func(params *C.rz_model_params, cache *C.rz_cache_params, out *planned, e *C.rz_error) C.rz_status {
		return C.rz_model_plan_get(name, nil, 0, params, cache, n, &out.plan, &out.devices[0], C.RZ_DEVICES_MAX, &out.n, e)
	})
}

// PlanLoadFrom is [PlanLoad] for what [LoadFrom] takes.
func PlanLoadFrom(ctx context.Context, sources []Source, options *LoadOptions, session *SessionOptions, sessions int) (found Plan, err error) {
	caches, err := whole(sessions, "sessions")
	if err != nil {
		return Plan{}, err
	}
	err = withSources(sources, func(raw *C.rz_source, n C.size_t) error {
		found, err = plan(ctx, options, session, func(params *C.rz_model_params, cache *C.rz_cache_params, out *planned, e *C.rz_error) C.rz_status {
			return C.rz_model_plan_get(nil, raw, n, params, cache, caches, &out.plan, &out.devices[0], C.RZ_DEVICES_MAX, &out.n, e)
		})
		return err
	})
	return found, err
}

func plan(ctx context.Context, options *LoadOptions, session *SessionOptions,
	f func(params *C.rz_model_params, cache *C.rz_cache_params, out *planned, e *C.rz_error) C.rz_status) (Plan, error) {
	cache, err := session.params()
	if err != nil {
		return Plan{}, err
	}
	var out planned
	out.plan.struct_size = C.uint32_t(unsafe.Sizeof(out.plan))
	for i := range out.devices {
		out.devices[i].struct_size = C.uint32_t(unsafe.Sizeof(out.devices[i]))
	}
	shared, err := withParams(ctx, options, func(params *C.rz_model_params, e *C.rz_error) C.rz_status { return f(params, &cache, &out, e) })
	if err != nil {
		return Plan{}, err
	}
	shared.release()
	c := &out.plan
	found := Plan{
		GPULayers: int(c.gpu_layers), WeightsHost: uint64(c.weights_host), WeightsDevice: uint64(c.weights_device),
		CacheHost: uint64(c.cache_host), CacheDevice: uint64(c.cache_device), CacheToken: uint64(c.cache_token),
		ScratchHost: uint64(c.scratch_host), ScratchDevice: uint64(c.scratch_device), LoadPeakHost: uint64(c.load_peak_host),
		TotalHost: uint64(c.total_host), TotalDevice: uint64(c.total_device),
		ExpertsHost: uint64(c.experts_host), ExpertsDevice: uint64(c.experts_device),
		FirstExpertsHost: int(c.experts_host_first), NExpertsHost: int(c.experts_host_layers),
	}
	for _, d := range out.devices[:out.n] {
		found.Devices = append(found.Devices, PlanDevice{
			uint32(d.device), int(d.n_layers), uint64(d.weights), uint64(d.cache), uint64(d.scratch), uint64(d.total),
		})
	}
	return found, nil
}
