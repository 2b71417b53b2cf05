//go:build !cgo

package realizar

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A child prints what Open says of one library, and what is left then.
func TestOpenNamesTheFile(t *testing.T) {
	if path, is := os.LookupEnv("REALIZAR_OPEN"); is {
		err := Open(path)
		_, made := NewSampler(Sampling{})
		fmt.Println(err, "version", Version(), len(Devices()), made, ErrBusy)
		os.Exit(0)
	}
	noLibrary := t.TempDir() + "/librealizar.so"
	must(t, os.WriteFile(noLibrary, []byte("no library"), 0o600))
	for path, why := range map[string]string{
		"/none/librealizar.so":        "cannot load the library /none/librealizar.so: ",
		noLibrary:                     "cannot load the library " + noLibrary + ": ",
		os.Getenv("REALIZAR_FOREIGN"): "it has no function rz_abi_version",
		os.Getenv("REALIZAR_OTHER"):   "is 99; it must be 1",
	} {
		if path == "" {
			continue
		}
		child := exec.Command(os.Args[0], "-test.run=^TestOpenNamesTheFile$")
		child.Env = append(os.Environ(), "REALIZAR_OPEN="+path, "LD_LIBRARY_PATH=", "DYLD_LIBRARY_PATH=")
		out, err := child.Output()
		said := string(out)
		if err != nil || !strings.Contains(said, why) || !strings.Contains(said, path) {
			t.Errorf("%s: %s %v", path, out, err)
		}
		// Where the system has no other one, there is none.
		if !strings.Contains(said, "version 0.") && !strings.Contains(said, "version  0 realizar: cannot load the library librealizar.") {
			t.Errorf("%s: %s", path, said)
		}
	}
	must(t, Open(""))
	if err := Open("/none/librealizar.so"); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "/none/librealizar.so") {
		t.Error("a second library", err)
	}
}
