package realizar

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

const storyModel = "../../../tests/data/stories260K-f32.gguf"

// TestMain opens the library of the variable REALIZAR_LIBRARY, and as a child of TestOpenNamesTheFile prints the error
// of that.
func TestMain(m *testing.M) {
	path := os.Getenv("REALIZAR_LIBRARY")
	err := Open(path)
	if os.Getenv("REALIZAR_CHILD") != "" {
		fmt.Println(err)
		os.Exit(0)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestOpenNamesTheFile(t *testing.T) {
	noLibrary := t.TempDir() + "/librealizar.so"
	if err := os.WriteFile(noLibrary, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, why := range map[string]string{
		"/none/librealizar.so":        "the library /none/librealizar.so cannot be loaded: ",
		noLibrary:                     "the library " + noLibrary + " cannot be loaded: ",
		os.Getenv("REALIZAR_FOREIGN"): "has no function rz_abi_version",
		os.Getenv("REALIZAR_OTHER"):   "has the interface 99, 1 is needed",
	} {
		if path == "" {
			continue
		}
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "REALIZAR_CHILD=1", "REALIZAR_LIBRARY="+path)
		out, err := child.Output()
		if err != nil || !strings.Contains(string(out), why) || !strings.Contains(string(out), path) {
			t.Errorf("%s: %s %v", path, out, err)
		}
	}
	if err := Open("/none/librealizar.so"); err == nil || Open("") != nil {
		t.Error("a second library", err)
	}
	if version, err := Version(); err != nil || version == "" {
		t.Error(version, err)
	}
}

func tokensOf(t *testing.T, session *Session, text string) []uint32 {
	t.Helper()
	tokens, err := session.model.Tokenize(text, true, false)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func TestFilesInMemory(t *testing.T) {
	file, err := os.ReadFile(storyModel)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	shared, err := NewRuntime(&RuntimeOptions{Threads: 1, MemoryLimit: 8 << 20, Log: func(level LogLevel, message string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, message)
	}})
	if err != nil {
		t.Fatal(err)
	}
	model, err := LoadFrom(t.Context(), map[string][]byte{"story.gguf": file}, &LoadOptions{Runtime: shared})
	if err != nil {
		t.Fatal(err)
	}
	shared.Close()
	defer model.Close()
	if _, err := model.NewSession(&SessionOptions{Capacity: 1 << 20}); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	if len(said) == 0 || !strings.HasPrefix(said[0], "llama, 5 layers") {
		t.Error(said)
	}
	if devices, err := Devices(); err != nil || devices[0].Kind != CPU || devices[0].Unavailable != "" {
		t.Error(devices, err)
	}
	if text, err := model.Detokenize([]uint32{1}, true); err != nil || text != "<s>" {
		t.Error(text, err)
	}
}
