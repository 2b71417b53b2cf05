package realizar

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const storyModel = "../../tests/data/stories260K-f32.gguf"

func tokensOf(t *testing.T, session *Session, text string) []uint32 {
	t.Helper()
	tokens, err := tokenize(session.model, text, 1)
	must(t, err)
	return tokens
}

func TestRuntime(t *testing.T) {
	var mu sync.Mutex
	var said []string
	shared, err := NewRuntime(&RuntimeOptions{Threads: 1, MemoryLimit: 8 << 20, Log: func(level LogLevel, message string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprint(level, message))
	}})
	must(t, err)
	model, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: shared})
	must(t, err)
	shared.Close()
	if _, err := model.NewSession(&SessionOptions{Capacity: 1 << 20}); !errors.Is(err, ErrLimit) {
		t.Error(err)
	}
	model.Close()
	if len(said) != 2 || !strings.HasPrefix(said[0], "3 llama, 5 layers") && !strings.HasPrefix(said[0], "3llama, 5 layers") {
		t.Errorf("%q", said)
	}
	if _, err := Load(t.Context(), storyModel, &LoadOptions{Runtime: shared}); err != ErrClosed {
		t.Error(err)
	}
	if version := Version(); !strings.HasPrefix(version, "0.") {
		t.Errorf("version %q", version)
	}
	if devices := Devices(); len(devices) == 0 || devices[0].Index != 1 || devices[0].Kind != CPU || !devices[0].Available {
		t.Errorf("%+v", devices)
	}
}

func TestModelOfTheHub(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HF_HUB_CACHE", home)
	t.Setenv("HF_HUB_OFFLINE", "1")
	if _, err := Load(t.Context(), "hf:stories", nil); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "hf:owner/name") {
		t.Error(err)
	}
	if _, err := Load(t.Context(), "hf:tests/story", nil); !errors.Is(err, ErrIO) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE") {
		t.Error(err)
	}
	folder := filepath.Join(home, "models--tests--story")
	must(t, os.MkdirAll(filepath.Join(folder, "snapshots", "5"), 0o777))
	must(t, os.MkdirAll(filepath.Join(folder, "refs"), 0o777))
	must(t, os.WriteFile(filepath.Join(folder, "refs", "main"), []byte("5"), 0o666))
	story, err := filepath.Abs(storyModel)
	must(t, err)
	must(t, os.Symlink(story, filepath.Join(folder, "snapshots", "5", "story-F32.gguf")))
	model, err := Load(t.Context(), "hf:tests/story:f32", nil)
	must(t, err)
	must(t, model.Close())
}

func TestModelFromReader(t *testing.T) {
	file, err := os.Open(storyModel)
	must(t, err)
	defer file.Close()
	stat, err := file.Stat()
	must(t, err)
	model, err := LoadFrom(t.Context(), []Source{{Size: stat.Size(), Reader: file}}, nil)
	must(t, err)
	defer model.Close()
	if text := generate(t, newSession(t, model, 64), prompt, &JobOptions{MaxTokens: 20}); !strings.HasPrefix(story, text) {
		t.Error(text)
	}
	plan, err := PlanLoadFrom(t.Context(), []Source{{Size: stat.Size(), Reader: file}}, nil, nil, 1)
	if info, _ := model.Info(); err != nil || plan.WeightsHost != info.WeightBytes {
		t.Error(plan, err)
	}
	half := io.NewSectionReader(file, 0, stat.Size()/2)
	if _, err := LoadFrom(t.Context(), []Source{{Size: stat.Size(), Reader: half}}, nil); !errors.Is(err, io.EOF) {
		t.Error("a source that is shorter than it says:", err)
	}
	// A panic goes on behind the call, also one on a thread of the library, where weights are read.
	for _, from := range []int64{0, stat.Size() / 2} {
		wrong := panicking{file, from}
		if value := panics(func() {
			_, _ = LoadFrom(t.Context(), []Source{{Size: stat.Size(), Reader: wrong}}, &LoadOptions{Threads: 2})
		}); value != "read" {
			t.Error(from, value)
		}
	}
}

// panicking panics where it is read from some byte on.
type panicking struct {
	io.ReaderAt
	from int64
}

func (p panicking) ReadAt(bytes []byte, offset int64) (int, error) {
	if offset+int64(len(bytes)) > p.from {
		panic("read")
	}
	return p.ReaderAt.ReadAt(bytes, offset)
}
