package realizar

import (
	"errors"
	"unsafe"

	"realizar.dev/go/internal/choice"
)

func init() { choice.Choose = chooseFiles }

// chooseFiles gives package hub what the library makes of a model's name and, by a listing, the files of the model.
func chooseFiles(model string, listing []byte, free uint64, isCached bool) ([]byte, *choice.Failure) {
	var flags uint32
	if isCached {
		flags = rz_HUB_CACHED
	}
	err := Open("")
	for capacity := uintptr(4096); err == nil; {
		out, n := make([]byte, capacity), uintptr(0)
		var e rz_error
		status := lib.rz_hub_choose_into(unsafe.StringData(model), uintptr(len(model)), unsafe.SliceData(listing), uintptr(len(listing)),
			free, flags, unsafe.SliceData(out), capacity, &n, &e)
		if status >= 0 {
			return out[:n], nil
		}
		if capacity = n; status != rz_ERR_BUFFER_TOO_SMALL {
			err = check(status, &e)
		}
	}
	failure := &choice.Failure{Message: err.Error(), Err: err}
	if e := (*Error)(nil); errors.As(err, &e) {
		failure.Status, failure.Message = int32(e.Code), e.Message
	}
	return nil, failure
}
