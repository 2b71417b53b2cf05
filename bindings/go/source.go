package realizar

import (
	"context"
	"fmt"
	"io"
	"math"
	"runtime"
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
	err = withSources(sources, func(raw *rz_source, n uintptr) error {
		model, err = loadWith(ctx, options, func(params *rz_model_params, handle **rz_model, e *rz_error) int32 {
			return lib.rz_model_load_from(raw, n, params, handle, e)
		})
		return err
	})
	return model, err
}

// withSources calls f with the sources as the library takes them. The error of a reader counts in place of the
// library's.
func withSources(sources []Source, f func(raw *rz_source, n uintptr) error) error {
	if len(sources) == 0 {
		return wrong("sources is empty; it must have the files of a model")
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	raw := make([]rz_source, len(sources))
	transfers := make([]transfer, len(sources))
	for i, source := range sources {
		if err := noNUL("name", source.Name); err != nil {
			return err
		}
		if source.Size < 0 {
			return wrong("Size is %d; it must be a whole number from 0 to %d", source.Size, math.MaxInt64)
		} else if source.Reader == nil {
			return missing(fmt.Sprintf("sources[%d].Reader", i))
		}
		transfers[i].readerAt = source.Reader
		user, forget := keep(&transfers[i])
		defer forget()
		raw[i] = rz_source{kind: rz_SOURCE_READER, size: uint64(source.Size), read: readAtCallback(), user: user}
		sizedStruct(&raw[i])
		if source.Name != "" {
			raw[i].name = cString(source.Name)
			pinner.Pin(raw[i].name)
		}
	}
	err := f(&raw[0], uintptr(len(raw)))
	for i := range transfers {
		err = transfers[i].instead(err)
	}
	return err
}
