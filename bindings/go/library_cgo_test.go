//go:build cgo

package realizar

import (
	"errors"
	"strings"
	"testing"
)

func TestALinkedLibraryHasNoPath(t *testing.T) {
	must(t, Open(""), Open(""))
	if err := Open("/none/librealizar.so"); err == nil || !strings.Contains(err.Error(), "/none/librealizar.so") {
		t.Error(err)
	}
	if _, _, err := find("/none/librealizar.so"); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
}
