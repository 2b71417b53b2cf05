package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// The greedy continuation of the tiny model as an independent float64 implementation computes it.
const story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red " +
	"ball. She wanted to play with it, but it was too high.\nLily's mom said, \"Lily, let's go to the park.\""

func TestEachRunGoesOnFromTheOneBefore(t *testing.T) {
	model, err := filepath.Abs("../../../../tests/data/stories260K-f32.gguf")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if _, err := run(t.Context(), model, "state.bin", nil); err == nil {
		t.Error("neither a state nor a beginning")
	}
	said := ""
	for i := range 3 {
		beginning := []string{"Once upon a time"}
		if i > 0 {
			beginning = nil
		}
		text, err := run(t.Context(), model, "state.bin", beginning)
		if err != nil {
			t.Fatal(err)
		}
		said += text
	}
	if !strings.HasPrefix(story, said) || len(said) < 100 {
		t.Errorf("%q", said)
	}
}
