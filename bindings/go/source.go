package realizar

/*
#include <stdlib.h>
#include <realizar.h>

int32_t realizarGoReadAt(uint64_t offset, void *out, size_t n, void *user);
static rz_source_callback source_callback(void) { return realizarGoReadAt; }
*/
import "C"

import (
	"context"
	"io"
	"runtime"
	"runtime/cgo"
	"unsafe"
)

// Source is one file of a model.
type Source struct {
	Name   string // as in the folder of the model; may be empty where there is only one
	Size   int64
	Reader io.ReaderAt // read from several goroutines at once
}

// LoadFrom is [Load] for a model whose files are not files of their own: a .gguf file, all files of a split set, a
// .safetensors file, or the files of a folder that its model needs. They are read during the call only.
func LoadFrom(ctx context.Context, sources []Source, options *LoadOptions) (model *Model, err error) {
	err = withSources(sources, func(raw *C.rz_source, n C.size_t) error {
		model, err = loadWith(ctx, options, func(params *C.rz_model_params, handle **C.rz_model, e *C.rz_error) C.rz_status {
			return C.rz_model_load_from(raw, n, params, handle, e)
		})
		return err
	})
	return model, err
}

// withSources calls f with the sources as the library takes them. The error of a reader counts in place of the
// library's.
func withSources(sources []Source, f func(raw *C.rz_source, n C.size_t) error) error {
	if len(sources) == 0 {
		return &Error{Code: ErrInvalidArgument, Message: "there are no sources of a model"}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	raw := make([]C.rz_source, len(sources))
	transfers := make([]transfer, len(sources))
	handles := make([]cgo.Handle, len(sources))
	pinner.Pin(&handles[0])
	for i, source := range sources {
		if err := noNUL("name", source.Name); err != nil {
			return err
		}
		transfers[i].readerAt = source.Reader
		handles[i] = cgo.NewHandle(&transfers[i])
		defer handles[i].Delete()
		raw[i] = C.rz_source{
			struct_size: C.uint32_t(unsafe.Sizeof(raw[i])), kind: C.RZ_SOURCE_READER, size: C.uint64_t(max(source.Size, 0)),
			read: C.source_callback(), user: unsafe.Pointer(&handles[i]),
		}
		if source.Name != "" {
			raw[i].name = C.CString(source.Name)
			defer C.free(unsafe.Pointer(raw[i].name))
		}
	}
	err := f(&raw[0], C.size_t(len(raw)))
	for i := range transfers {
		err = transfers[i].instead(err)
	}
	return err
}
