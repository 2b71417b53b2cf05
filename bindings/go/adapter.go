package realizar

import "unsafe"

// Adapter is a low-rank adapter of a model, usable with any number of its sessions at once.
type Adapter struct{ adapter *owned[*rz_adapter] }

// LoadAdapter loads a GGUF file or a folder of PEFT.
func (m *Model) LoadAdapter(path string) (*Adapter, error) {
	if err := noNUL("path", path); err != nil {
		return nil, err
	}
	name := cString(path)
	return made(m, func(model *rz_model, out **rz_adapter, e *rz_error) int32 {
		return lib.rz_adapter_load(model, name, nil, out, e)
	}, lib.rz_adapter_free, func(o *owned[*rz_adapter]) *Adapter { return &Adapter{o} })
}

// Close frees the adapter; sessions that use it remain usable. Closing twice is fine.
func (a *Adapter) Close() error {
	return a.held().close()
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
	return use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_cache_adapters_set(cache, unsafe.SliceData(handles), unsafe.SliceData(scales), uintptr(len(adapters)), e)
	})
}

// acquireAdapters gives handles and factors, and what ends their use.
func acquireAdapters(adapters []ScaledAdapter) (handles []*rz_adapter, scales []float32, release func(), err error) {
	for _, a := range adapters {
		scales = append(scales, a.Scale)
	}
	handles, release, err = handlesOf[*rz_adapter](adapters, "adapters")
	return handles, scales, release, err
}

func (a ScaledAdapter) held() *owned[*rz_adapter] { return a.Adapter.held() }
