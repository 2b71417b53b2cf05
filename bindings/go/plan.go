package realizar

import "context"

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
	sizedStruct(&out.plan)
	for i := range out.devices {
		sizedStruct(&out.devices[i])
	}
	shared, err := withParams(ctx, options, func(params *rz_model_params, e *rz_error) int32 { return f(params, &cache, &out, e) })
	if err != nil {
		return Plan{}, err
	}
	shared.release()
	found := out.plan.value()
	for _, device := range out.devices[:out.n] {
		found.Devices = append(found.Devices, device.value())
	}
	return found, nil
}
