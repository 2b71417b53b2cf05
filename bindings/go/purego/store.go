package realizar

import (
	"runtime"
	"unsafe"
)

// Store remembers what prompts left behind, for sessions and conversations of one model that begin with the same
// tokens: what was computed once is not computed again, with a folder by other processes neither. It changes no bit of
// what follows. It may be used by any number of goroutines at once, and keeps its model alive.
type Store struct {
	model *Model
	store *handle
}

// StoreOptions are optional; the zero value means the defaults.
type StoreOptions struct {
	MinTokens   int    // prefixes of fewer tokens are neither kept nor looked for; 0: 64
	MemoryLimit uint64 // bytes of prefixes in memory; 0: 1 GiB
	MaxEntries  int    // prefixes in memory; 0: 1024
	Path        string // folder of files that outlive the process, made where it is missing; "": none
	DiskLimit   uint64 // bytes of files in the folder; 0: 16 GiB
}

// NewStore makes an empty store, or one that knows what is in the folder.
func (m *Model) NewStore(options *StoreOptions) (*Store, error) {
	if options == nil {
		options = &StoreOptions{}
	}
	var counts counts
	params := rz_store_params{
		min_tokens: counts.of(options.MinTokens, "MinTokens"), memory_limit: options.MemoryLimit,
		max_entries: uintptr(counts.of(options.MaxEntries, "MaxEntries")), disk_limit: options.DiskLimit,
	}
	if counts.err != nil {
		return nil, counts.err
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if options.Path != "" {
		var err error
		if params.path, err = terminated("Path", options.Path); err != nil {
			return nil, err
		}
		pinner.Pin(params.path)
	}
	return made(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_store_new(model, &params, out, e)
	}, c.rz_store_free, func(h *handle) *Store { return &Store{m, h} })
}

// Take makes a session for a prompt, which holds so many of its first tokens as the store knows, but never the last
// one: tokens[session.Len():] are to be appended.
func (s *Store) Take(tokens []uint32, options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return s.model.session(s.store, func(store uintptr, out *uintptr, e *rz_error) int32 {
		var common uint32
		return c.rz_store_take(store, unsafe.SliceData(tokens), uintptr(len(tokens)), &params, 0, out, &common, e)
	})
}

// Put remembers the tokens that a session holds, which goes on by itself. It fails with [ErrMismatch] for a session of
// another model.
func (s *Store) Put(session *Session) error {
	cache, err := session.cache.acquire()
	if err != nil {
		return err
	}
	defer session.cache.release()
	return s.store.use(func(store uintptr, e *rz_error) int32 { return c.rz_store_put(store, cache, e) })
}

// Clear forgets all prefixes, and removes the files of the model from the folder.
func (s *Store) Clear() error { return s.store.use(c.rz_store_clear) }

// StoreInfo is the state of a store.
type StoreInfo struct {
	Entries, Files         int    // prefixes in memory, and in files of the model
	MemoryBytes, DiskBytes uint64 // bytes of these prefixes and files
	Hits, Misses           uint64 // times that a prefix was found, and was not
	ReusedTokens           uint64 // tokens that were not computed because of it
	Unwritten              int    // prefixes that were forgotten because they could not be written, as on a full disk
}

// Info is the state of the store.
func (s *Store) Info() (StoreInfo, error) {
	x, err := filled(s.store, c.rz_store_info_get)
	return StoreInfo{
		Entries: int(x.n_entries), Files: int(x.n_files), MemoryBytes: x.memory_bytes, DiskBytes: x.disk_bytes,
		Hits: x.hits, Misses: x.misses, ReusedTokens: x.reused_tokens,
		Unwritten: int(x.n_unwritten),
	}, err
}

// Close frees the store once no conversation uses it either; then what it has in memory goes to the folder, where there
// is one. Closing twice is fine.
func (s *Store) Close() error {
	s.store.close()
	return nil
}

func (s *Store) handle() *handle {
	if s == nil {
		return nil
	}
	return s.store
}
