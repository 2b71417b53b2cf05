package realizar

import (
	"runtime"
	"unsafe"
)

// Store is a prefix cache for sessions and conversations of one model. With a folder, other processes use it too. It
// changes no bit of results. It may be used by any number of goroutines at once, and keeps its model alive.
type Store struct {
	model *owned[*rz_model]
	store *owned[*rz_store]
}

// NewStore creates a store, with the prefixes that its folder contains.
func (m *Model) NewStore(options *StoreOptions) (*Store, error) {
	if options == nil {
		options = &StoreOptions{}
	}
	if options.DiskLimit != 0 && options.Path == "" {
		return nil, wrong("DiskLimit is %d; it must be 0 without Path", options.DiskLimit)
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	if options.Path != "" {
		if err := noNUL("Path", options.Path); err != nil {
			return nil, err
		}
		params.path = cString(options.Path)
		var pinner runtime.Pinner
		defer pinner.Unpin()
		pinner.Pin(params.path)
	}
	return keeping(m, func(model *rz_model, out **rz_store, e *rz_error) int32 {
		return lib.rz_store_new(model, &params, out, e)
	}, lib.rz_store_free,
		func(model *owned[*rz_model], store *owned[*rz_store]) *Store { return &Store{model, store} })
}

// Take creates a session with the longest stored prefix of the prompt, never the whole prompt: append
// tokens[session.Len():].
func (s *Store) Take(tokens []uint32, options *SessionOptions) (*Session, error) {
	store, release, err := required[*rz_store](s, "the store")
	if err != nil {
		return nil, err
	}
	defer release()
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return makeSession(s.model, func(_ *rz_model, cache **rz_cache, e *rz_error) int32 {
		var common uint32
		return lib.rz_store_take(store, unsafe.SliceData(tokens), uintptr(len(tokens)), &params, nil, cache, &common, e)
	})
}

// Put stores the session's tokens and KV cache as a prefix; the session remains usable. It fails with [ErrMismatch] for
// a session of another model.
func (s *Store) Put(session *Session) error {
	cache, release, err := required[*rz_cache](session, "session")
	if err != nil {
		return err
	}
	defer release()
	return use(s, func(store *rz_store, e *rz_error) int32 { return lib.rz_store_put(store, cache, e) })
}

// Clear removes all prefixes, and the files of the model from the folder.
func (s *Store) Clear() error {
	return use(s, lib.rz_store_clear)
}

// Info returns the state of the store.
func (s *Store) Info() (StoreInfo, error) {
	return described(s, lib.rz_store_info_get, (*rz_store_info).value)
}

// Close frees the store once no conversation uses it; if it has a folder, its prefixes in memory are written there
// first. Closing twice is fine.
func (s *Store) Close() error {
	return s.held().close()
}
