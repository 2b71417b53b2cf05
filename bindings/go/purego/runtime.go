package realizar

import (
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// values are what callbacks are handed by number, because C keeps no pointers of Go.
var (
	values sync.Map
	number atomic.Uintptr
)

// keep gives a value its number, until forget.
func keep(value any) (user uintptr, forget func()) {
	user = number.Add(1)
	values.Store(user, value)
	return user, func() { values.Delete(user) }
}

func kept[T any](user uintptr) T {
	value, _ := values.Load(user)
	return value.(T)
}

// LogLevel is how urgent a log message is.
type LogLevel int32

const (
	LogError   LogLevel = rz_LOG_ERROR
	LogWarning LogLevel = rz_LOG_WARNING
	LogInfo    LogLevel = rz_LOG_INFO
)

// RuntimeOptions are optional; the zero value means the defaults.
type RuntimeOptions struct {
	Threads     int                                  // 0: as many as there are cores; 1: the calling one alone
	MemoryLimit uint64                               // bytes of weights and caches in host memory; 0: no limit
	CPUs        []uint32                             // processors that the threads are bound to; nil: none
	Log         func(level LogLevel, message string) // called from any goroutine or thread, several at once; a panic of it is lost; kept for as long as the process
}

// Runtime is what several models share: threads, a limit on memory, a log.
type Runtime struct{ runtime *handle }

var logCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(level uintptr, message *byte, length, user uintptr) uintptr {
		defer func() { _ = recover() }() // there may be no goroutine to go on in
		kept[func(LogLevel, string)](user)(LogLevel(level), string(unsafe.Slice(message, length)))
		return 0
	})
})

// NewRuntime makes a runtime.
func NewRuntime(options *RuntimeOptions) (*Runtime, error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	if options == nil {
		options = &RuntimeOptions{}
	}
	threads, err := whole(options.Threads, "Threads")
	if err != nil {
		return nil, err
	}
	params := rz_runtime_params{threads: threads, memory_limit: options.MemoryLimit, n_cpus: uintptr(len(options.CPUs))}
	params.struct_size = uint32(unsafe.Sizeof(params))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	params.cpus = pinned(&pinner, options.CPUs)
	if options.Log != nil {
		params.log = logCallback()
		params.log_user, _ = keep(options.Log)
	}
	return made(nil, func(_ uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_runtime_new(&params, out, e)
	}, c.rz_runtime_free, func(h *handle) *Runtime { return &Runtime{h} })
}

// SetThreads changes the number of threads that compute, from the next step on; 0: as many as there are cores.
func (r *Runtime) SetThreads(n int) error {
	threads, err := whole(n, "n")
	if err != nil {
		return err
	}
	return r.runtime.use(func(object uintptr, e *rz_error) int32 { return c.rz_runtime_threads_set(object, threads, e) })
}

// Close frees the runtime once the models that were loaded with it are closed too. Closing twice is fine.
func (r *Runtime) Close() error {
	r.runtime.close()
	return nil
}

// DeviceKind is the kind of a device.
type DeviceKind uint32

const (
	CPU DeviceKind = rz_DEVICE_CPU
	GPU DeviceKind = rz_DEVICE_GPU
)

// Device is something to compute on; its index is where [Devices] lists it, from 1.
type Device struct {
	Name, ISA               string
	ID                      string // the same in every process: "cpu", or the UUID of a GPU; "": unknown
	Kind                    DeviceKind
	MemoryTotal, MemoryFree uint64
	Unavailable             string // why; "": it is available
}

// Devices lists what there is to compute on, the CPU first.
func Devices() ([]Device, error) {
	if err := Open(""); err != nil {
		return nil, err
	}
	devices := make([]Device, c.rz_device_count())
	for i := range devices {
		info, err := filled(nil, func(_ uintptr, out *rz_device_info, e *rz_error) int32 {
			return c.rz_device_info_get(uint32(i+1), out, e)
		})
		if err != nil {
			return nil, err
		}
		devices[i] = Device{text(info.name[:]), text(info.isa[:]), text(info.id[:]), DeviceKind(info.kind), info.memory_total, info.memory_free, text(info.unavailable[:])}
	}
	return devices, nil
}
