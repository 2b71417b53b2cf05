package realizar

/*
#include <stdint.h>
#include <stdlib.h>
#include <realizar.h>

void realizarGoLog(int32_t level, char *message, size_t len, void *user);
static rz_log_callback log_callback(void) { return (rz_log_callback)realizarGoLog; }
*/
import "C"

import (
	"fmt"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// LogLevel is how urgent a log message is.
type LogLevel int32

const (
	LogError   LogLevel = C.RZ_LOG_ERROR
	LogWarning LogLevel = C.RZ_LOG_WARNING
	LogInfo    LogLevel = C.RZ_LOG_INFO
)

// RuntimeOptions are optional; the zero value means the defaults.
type RuntimeOptions struct {
	Threads     int                                  // 0: as many as there are cores; 1: the calling one alone
	MemoryLimit uint64                               // bytes of weights and caches in host memory; 0: no limit. Beyond it calls fail with ErrLimit
	CPUs        []uint32                             // processors that the threads are bound to; nil: none
	Log         func(level LogLevel, message string) // called from any goroutine or thread, several at once; a panic of it is lost
}

// Runtime is what several models share: threads, a limit on memory, a log.
type Runtime struct{ runtime *owned[*C.rz_runtime] }

// NewRuntime makes a runtime.
func NewRuntime(options *RuntimeOptions) (*Runtime, error) {
	if options == nil {
		options = &RuntimeOptions{}
	}
	if version := C.rz_abi_version(); version != C.RZ_ABI_VERSION {
		return nil, &Error{Code: ErrVersion, Message: fmt.Sprintf("librealizar %s has the interface %d, %d is needed",
			Version(), version, C.RZ_ABI_VERSION)}
	}
	threads, err := whole(options.Threads, "Threads")
	if err != nil {
		return nil, err
	}
	params := C.rz_runtime_params{threads: threads, memory_limit: C.uint64_t(options.MemoryLimit)}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params.cpus, params.n_cpus = (*C.uint32_t)(pinned(&pinner, options.CPUs)), C.size_t(len(options.CPUs))
	var log *cgo.Handle // in memory of C, which may keep it
	if options.Log != nil {
		log = (*cgo.Handle)(C.malloc(C.size_t(unsafe.Sizeof(*log))))
		*log = cgo.NewHandle(options.Log)
		params.log, params.log_user = C.log_callback(), unsafe.Pointer(log)
	}
	free := func(handle *C.rz_runtime) {
		C.rz_runtime_free(handle)
		if log != nil {
			log.Delete()
			C.free(unsafe.Pointer(log))
		}
	}
	var e C.rz_error
	var handle *C.rz_runtime
	if err := check(C.rz_runtime_new(&params, &handle, &e), &e); err != nil {
		free(nil)
		return nil, err
	}
	r := &Runtime{own(handle, free)}
	runtime.AddCleanup(r, (*owned[*C.rz_runtime]).close, r.runtime)
	return r, nil
}

// SetThreads changes the number of threads that compute, from the next step on; 0: as many as there are cores.
func (r *Runtime) SetThreads(n int) error {
	threads, err := whole(n, "n")
	if err != nil {
		return err
	}
	return use(r.runtime, func(handle *C.rz_runtime, e *C.rz_error) C.rz_status {
		return C.rz_runtime_threads_set(handle, threads, e)
	})
}

// SetMemoryLimit changes the ceiling on memory in bytes; 0: none. It may be below what is in use, which stays.
func (r *Runtime) SetMemoryLimit(bytes uint64) error {
	return use(r.runtime, func(handle *C.rz_runtime, e *C.rz_error) C.rz_status {
		return C.rz_runtime_memory_limit_set(handle, C.uint64_t(bytes), e)
	})
}

// RuntimeInfo is the state of a runtime.
type RuntimeInfo struct {
	Threads     int    // that compute, the calling one among them
	MemoryUsed  uint64 // bytes of weights, caches and scratch memory
	MemoryPeak  uint64 // the most that they were
	MemoryLimit uint64 // 0: none
}

// Info tells the threads in effect and the memory in use.
func (r *Runtime) Info() (RuntimeInfo, error) {
	var c C.rz_runtime_info
	c.struct_size = C.uint32_t(unsafe.Sizeof(c))
	err := use(r.runtime, func(handle *C.rz_runtime, e *C.rz_error) C.rz_status {
		return C.rz_runtime_info_get(handle, &c, e)
	})
	return RuntimeInfo{int(c.threads), uint64(c.memory_used), uint64(c.memory_peak), uint64(c.memory_limit)}, err
}

// Close frees the runtime once the models that were loaded with it are closed too. It never waits. Closing twice is
// fine.
func (r *Runtime) Close() error {
	r.runtime.close()
	return nil
}

// Device is something to compute on; its index is where [Devices] lists it, from 1.
type Device struct {
	Name, ISA               string
	ID                      string // the same in every process: "cpu", or the UUID of a GPU; "": unknown
	Kind                    DeviceKind
	MemoryTotal, MemoryFree uint64
	Available               bool
	Unavailable             string // why
}

// Devices lists what there is to compute on, the CPU first.
func Devices() []Device {
	devices := make([]Device, 0, C.rz_device_count())
	for i := range cap(devices) {
		var c C.rz_device_info
		c.struct_size = C.uint32_t(unsafe.Sizeof(c))
		C.rz_device_info_get(C.uint32_t(i+1), &c, nil)
		devices = append(devices, Device{
			Name: C.GoString(&c.name[0]), ISA: C.GoString(&c.isa[0]), ID: C.GoString(&c.id[0]), Kind: DeviceKind(c.kind),
			MemoryTotal: uint64(c.memory_total), MemoryFree: uint64(c.memory_free),
			Available: c.available != 0, Unavailable: C.GoString(&c.unavailable[0]),
		})
	}
	return devices
}
