package realizar

import (
	"runtime"
)

// Runtime has the threads, the memory limit and the log that several models may share.
type Runtime struct{ runtime *owned[*rz_runtime] }

// NewRuntime makes a runtime.
func NewRuntime(options *RuntimeOptions) (*Runtime, error) {
	if options == nil {
		options = &RuntimeOptions{}
	}
	if err := Open(""); err != nil {
		return nil, err
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params.cpus, params.n_cpus = pinned(&pinner, options.CPUs), uintptr(len(options.CPUs))
	forget := func() {}
	if options.Log != nil {
		params.log = logCallback()
		params.log_user, forget = keep(options.Log)
	}
	free := func(handle *rz_runtime) {
		lib.rz_runtime_free(handle)
		forget()
	}
	var e rz_error
	var handle *rz_runtime
	if err := check(lib.rz_runtime_new(&params, &handle, &e), &e); err != nil {
		free(nil)
		return nil, err
	}
	r := &Runtime{own(handle, free)}
	runtime.AddCleanup(r, (*owned[*rz_runtime]).drop, r.runtime)
	return r, nil
}

// SetThreads sets the number of compute threads, from the next step on; 0: as in RuntimeOptions.
func (r *Runtime) SetThreads(n int) error {
	threads, err := whole(n, "n")
	if err != nil {
		return err
	}
	return use(r, func(handle *rz_runtime, e *rz_error) int32 {
		return lib.rz_runtime_threads_set(handle, threads, e)
	})
}

// SetMemoryLimit sets the memory limit in bytes; 0: none. It may be below current use, which is not freed.
func (r *Runtime) SetMemoryLimit(bytes uint64) error {
	return use(r, func(handle *rz_runtime, e *rz_error) int32 {
		return lib.rz_runtime_memory_limit_set(handle, bytes, e)
	})
}

// Info returns the number of threads and the memory in use.
func (r *Runtime) Info() (RuntimeInfo, error) {
	return described(r, lib.rz_runtime_info_get, (*rz_runtime_info).value)
}

// Close frees the runtime once the models that were loaded with it are closed too. It never waits. Closing twice is
// fine.
func (r *Runtime) Close() error {
	return r.held().close()
}

// Devices returns the devices, the CPU first, with the indices 1, 2, ...; none if the library cannot be loaded.
func Devices() []Device {
	if Open("") != nil {
		return nil
	}
	devices := make([]Device, 0, lib.rz_device_count())
	for i := range cap(devices) {
		var c rz_device_info
		lib.rz_device_info_get(uint32(i+1), sizedStruct(&c), nil)
		devices = append(devices, c.value())
	}
	return devices
}
