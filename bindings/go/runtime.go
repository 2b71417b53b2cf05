package realizar

import (
	"runtime"
	"unsafe"
)

// LogLevel is the level of a log message.
type LogLevel int32

const (
	LogError   LogLevel = rz_LOG_ERROR   // something failed
	LogWarning LogLevel = rz_LOG_WARNING // something is done differently than requested
	LogInfo    LogLevel = rz_LOG_INFO    // what was loaded, and how
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

func (r *Runtime) held() *owned[*rz_runtime] {
	if r == nil {
		return nil
	}
	return r.runtime
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

// RuntimeInfo is the state of a runtime.
type RuntimeInfo struct {
	Threads     int    // compute threads, including the calling one
	MemoryUsed  uint64 // bytes of weights, caches and scratch memory
	MemoryPeak  uint64 // peak of MemoryUsed
	MemoryLimit uint64 // 0: none
}

// Info returns the number of threads and the memory in use.
func (r *Runtime) Info() (RuntimeInfo, error) {
	var c rz_runtime_info
	c.struct_size = uint32(unsafe.Sizeof(c))
	err := use(r, func(handle *rz_runtime, e *rz_error) int32 {
		return lib.rz_runtime_info_get(handle, &c, e)
	})
	return RuntimeInfo{int(c.threads), c.memory_used, c.memory_peak, c.memory_limit}, err
}

// Close frees the runtime once the models that were loaded with it are closed too. It never waits. Closing twice is
// fine.
func (r *Runtime) Close() error {
	return r.held().close()
}

// Device is a CPU or GPU; its index is its position in [Devices], from 1.
type Device struct {
	Name, ISA               string
	ID                      string // equal in every process: "cpu", or the UUID of a GPU; "": unknown
	Kind                    DeviceKind
	MemoryTotal, MemoryFree uint64
	Available               bool
	Unavailable             string // the reason why it cannot be used; "": it can
}

// Devices returns the devices, the CPU first; none if the library cannot be loaded.
func Devices() []Device {
	if Open("") != nil {
		return nil
	}
	devices := make([]Device, 0, lib.rz_device_count())
	for i := range cap(devices) {
		var c rz_device_info
		c.struct_size = uint32(unsafe.Sizeof(c))
		lib.rz_device_info_get(uint32(i+1), &c, nil)
		devices = append(devices, Device{
			Name: stringOf(c.name[:]), ISA: stringOf(c.isa[:]), ID: stringOf(c.id[:]), Kind: DeviceKind(c.kind),
			MemoryTotal: c.memory_total, MemoryFree: c.memory_free,
			Available: c.available != 0, Unavailable: stringOf(c.unavailable[:]),
		})
	}
	return devices
}
