package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestModelsOfTheHub(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("HF_HUB_CACHE", cache)
	t.Setenv("HF_HUB_OFFLINE", "1")
	folder := filepath.Join(cache, "models--owner--tiny")
	file, err := os.ReadFile(data + "stories260K-f32.gguf")
	must(t, err)
	for name, content := range map[string][]byte{
		"refs/main": []byte("0123"), "snapshots/0123/tiny-F32.gguf": file,
	} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(folder, name), content, 0o600))
	}
	s := serve(t, "-m", "tiny=hf:owner/tiny", "-m", "absent=hf:owner/absent")
	status, answer, _ := s.post(t, "/v1/completions",
		`{"model": "tiny", "prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}`)
	choices, _ := answer["choices"].([]any)
	if status != http.StatusOK || len(choices) != 1 {
		t.Fatal(status, answer)
	}
	if text, _ := choices[0].(map[string]any)["text"].(string); text == "" || !strings.HasPrefix(story, text) {
		t.Errorf("%q", text)
	}
	status, answer, _ = s.post(t, "/v1/completions", `{"model": "absent", "prompt": "Once", "max_tokens": 1}`)
	if problem, _ := answer["error"].(map[string]any); status != 500 || problem["message"] != `the model "absent" cannot be loaded` {
		t.Error(status, answer)
	}
}
