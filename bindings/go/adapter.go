package realizar

/*
#include <stdlib.h>
#include <realizar.h>
*/
import "C"

import "unsafe"

// Adapter is a low-rank adapter of a model, usable with any number of its sessions at once.
type Adapter struct{ adapter *owned[*C.rz_adapter] }

// LoadAdapter loads a GGUF file or a folder of PEFT.
func (m *Model) LoadAdapter(path string) (*Adapter, error) {
	if err := noNUL("path", path); err != nil {
		return nil, err
	}
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	return made(m.model, func(model *C.rz_model, out **C.rz_adapter, e *C.rz_error) C.rz_status {
		return C.rz_adapter_load(model, name, nil, out, e)
	}, func(handle *C.rz_adapter) { C.rz_adapter_free(handle) }, func(o *owned[*C.rz_adapter]) *Adapter { return &Adapter{o} })
}

// Close frees the adapter; sessions that use it go on. Closing twice is fine.
func (a *Adapter) Close() error {
	a.adapter.close()
	return nil
}

// ScaledAdapter is an adapter and the factor on what it changes.
type ScaledAdapter struct {
	Adapter *Adapter
	Scale   float32
}

// SetAdapters has the session use some adapters, or none. It empties the session. Forks that are made later use them
// too.
func (s *Session) SetAdapters(adapters ...ScaledAdapter) error {
	handles, scales, release, err := acquireAdapters(adapters)
	if err != nil {
		return err
	}
	defer release()
	return use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_adapters_set(cache, unsafe.SliceData(handles), unsafe.SliceData(scales), C.size_t(len(adapters)), e)
	})
}

// acquireAdapters gives handles and factors, and what ends their use.
func acquireAdapters(adapters []ScaledAdapter) (handles []*C.rz_adapter, scales []C.float, release func(), err error) {
	release = func() {
		for _, a := range adapters[:len(handles)] {
			a.Adapter.adapter.release()
		}
	}
	for _, a := range adapters {
		handle, err := a.Adapter.adapter.acquire()
		if err != nil {
			release()
			return nil, nil, nil, err
		}
		handles, scales = append(handles, handle), append(scales, C.float(a.Scale))
	}
	return handles, scales, release, nil
}
