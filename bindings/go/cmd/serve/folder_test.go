package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
)

// copied copies a file, and creates the folder of the target.
func copied(t *testing.T, from, to string) {
	t.Helper()
	file, err := os.ReadFile(from)
	must(t, err)
	must(t, os.MkdirAll(filepath.Dir(to), 0o700))
	must(t, os.WriteFile(to, file, 0o600))
}

// listedNames returns the names in /v1/models.
func (s *service) listedNames(t *testing.T) (names []string) {
	t.Helper()
	_, list := s.get(t, "/v1/models")
	for _, one := range list["data"].([]any) {
		names = append(names, one.(map[string]any)["id"].(string))
	}
	return names
}

func (s *service) get(t *testing.T, path string) (int, map[string]any) {
	t.Helper()
	status, _, text := send(t, http.DefaultClient, http.MethodGet, s.url+path, "")
	var answer map[string]any
	must(t, jsonOf(text, &answer))
	return status, answer
}

func TestModelsOfAFolder(t *testing.T) {
	folder, file := t.TempDir(), chatModel(t, plainTemplate)
	for _, name := range []string{
		"b.gguf", "a.GGUF", "plain.gguf", ".hidden.gguf", "mmproj-x.gguf", "split-00001-of-00002.gguf", "split-00002-of-00002.gguf", "notes.txt",
		"seeing/model.gguf", "seeing/mmproj-F16.gguf", "two/x.gguf", "two/y.gguf", "empty/readme.md",
	} {
		copied(t, file, filepath.Join(folder, name))
	}
	copied(t, file, filepath.Join(folder, "hf", "config.json"))
	must(t, os.Symlink(filepath.Join(folder, "b.gguf"), filepath.Join(folder, "link.gguf")))
	must(t, os.Symlink(filepath.Join(folder, "none"), filepath.Join(folder, "broken.gguf")))
	s := serve(t, "-models", folder, "-alias", "other=b", "-alias", "gpt=plain")
	want := []string{"plain", "thinking", "a", "b", "hf", "link", "seeing", "split", "two/x", "two/y", "gpt", "other"}
	if names := s.listedNames(t); !slices.Equal(names, want) {
		t.Error(names)
	}
	if seeing := s.models.byName["seeing"]; seeing.encoder != filepath.Join(folder, "seeing", "mmproj-F16.gguf") || s.models.byName["two/x"].encoder != "" {
		t.Error(seeing)
	}
	must(t, s.models.loadFirst(t.Context()))
	for name, loaded := range map[string]bool{"plain": true, "b": false, "other": false, "gpt": true} {
		status, description := s.get(t, "/v1/models/"+name)
		if status != http.StatusOK || at(description, "realizar", "loaded") != loaded {
			t.Error(name, description)
		}
	}
	for _, name := range []string{"b", "other", "two/x"} {
		if text := content(s.chat(t, name, "Once upon a time", `"temperature": 0, "max_tokens": 12`)); text == "" || !strings.HasPrefix(story, text) {
			t.Errorf("%s: %q", name, text)
		}
	}
	_, description := s.get(t, "/v1/models/other")
	if at(description, "realizar", "alias_of") != "b" || at(description, "realizar", "context") != 512.0 || at(description, "realizar", "chat") != true {
		t.Error(description)
	}
	if at(s.chat(t, "other", "x", `"max_tokens": 1`), "model") != "other" {
		t.Error("the answer names another model")
	}
	// New files are added and removed files disappear, without disturbing other models.
	copied(t, file, filepath.Join(folder, "new.gguf"))
	must(t, os.Remove(filepath.Join(folder, "a.GGUF")))
	must(t, os.RemoveAll(filepath.Join(folder, "two")))
	must(t, s.readAgain())
	names := s.listedNames(t)
	if !slices.Contains(names, "new") || slices.Contains(names, "a") || slices.Contains(names, "two/x") || len(names) != len(want)-2 {
		t.Error(names)
	}
	until(t, "a model that is gone stays loaded", func() bool {
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		return len(s.models.retired) == 0
	})
	if status, _, _ := s.post(t, "/v1/chat/completions", body("two/x", "x", ``)); status != http.StatusNotFound {
		t.Error(status)
	}
	if n := testutil.ToFloat64(s.metrics.memory.WithLabelValues("two/x")); n != 0 {
		t.Error(n)
	}
	s.chat(t, "new", "x", `"max_tokens": 1`)
	must(t, os.RemoveAll(folder))
	if err := s.readAgain(); err == nil || !strings.Contains(err.Error(), "-models") {
		t.Error(err)
	}
	s.chat(t, "new", "x", `"max_tokens": 1`)
}

func TestAFolderAlone(t *testing.T) {
	folder := t.TempDir()
	o, err := parse([]string{"-models", folder, "-threads", "2"})
	must(t, err)
	s, err := newServer(o)
	must(t, err)
	defer s.models.close()
	if o.maxBodies(s.models.count()) < o.body {
		t.Error("no request has room")
	}
	if list := s.models.listed(); len(list) != 0 {
		t.Error(list)
	}
	for _, flags := range [][]string{
		{"-models", filepath.Join(folder, "none")}, {"-models", folder, "-preload", "x"}, {"-models", folder, "-alias", "a=b"},
		{"-m", "a=b", "-alias", "a=a"}, {"-m", "a=b", "-alias", "c"}, {"-m", "a=b", "-alias", "c=a", "-alias", "c=a"}, {"-m", "a=b", "-alias", "c=a", "-alias", "d=c"},
	} {
		o, err := parse(flags)
		must(t, err)
		if _, err := newServer(o); err == nil {
			t.Error(flags)
		}
	}
}

// A file that has changed is another model. Later requests use it while earlier requests finish with the old one.
func TestAFileOfTheFolderThatChanges(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "m.gguf")
	copied(t, chatModel(t, plainTemplate), path)
	s := serve(t, "-models", folder, "-preload", "m", "-demand")
	must(t, s.models.loadFirst(t.Context()))
	old, err := s.models.lease(t.Context(), "m")
	must(t, err)
	copied(t, chatModel(t, "{{ bos_token }}{% for m in messages %}{{ m.content }}{% endfor %} and so"), path)
	must(t, os.Chtimes(path, time.Now(), time.Now().Add(time.Hour)))
	must(t, s.readAgain())
	fresh := s.leased(t, "m")
	if fresh.Model == old.Model {
		t.Error("it is the old model")
	}
	if n := testutil.ToFloat64(s.metrics.slots.WithLabelValues("m")); n != 16 {
		t.Error(n)
	}
	if _, err := old.Tokenize("Once", true, true); err != nil {
		t.Error(err)
	}
	old.release()
	slots := s.metrics.slots.WithLabelValues("m")
	until(t, "the old model stays", func() bool { return testutil.ToFloat64(slots) == 8 })
	must(t, s.readAgain())
	if s.leased(t, "m").Model != fresh.Model {
		t.Error("what has not changed is read again")
	}
}

func TestModelsAreAdministered(t *testing.T) {
	s := serve(t, "-alias", "other=plain")
	is := func(loaded bool) {
		t.Helper()
		if _, description := s.get(t, "/v1/models/plain"); at(description, "realizar", "loaded") != loaded {
			t.Error(description)
		}
	}
	for _, step := range []struct {
		path, model string
		loaded      bool
	}{
		{"load", "plain", true}, {"load", "plain", true}, {"unload", "plain", false}, {"unload", "other", false}, {"reload", "other", true}, {"reload", "plain", true},
	} {
		answer := s.ask(t, "/models/"+step.path, fmt.Sprintf(`{"model": %q}`, step.model))
		if answer["id"] != step.model || at(answer, "realizar", "loaded") != step.loaded {
			t.Error(step, answer)
		}
		is(step.loaded)
	}
	if answer := s.ask(t, "/models/reload", `{}`); answer["object"] != "list" {
		t.Error(answer)
	}
	for text, want := range map[string]int{`{"model": "nobody"}`: 404, `{}`: 400, `{"model": 1}`: 400, `{"name": "plain"}`: 400, ``: 400} {
		if status, answer, _ := s.post(t, "/models/unload", text); status != want {
			t.Error(text, status, answer)
		}
	}
	// An unload waits for requests, and later requests wait for it.
	l, err := s.models.lease(t.Context(), "plain")
	must(t, err)
	plain := s.models.byName["plain"]
	unloaded := make(chan error)
	go func() { unloaded <- s.models.drain(t.Context(), plain) }()
	until(t, "no unload waits", func() bool {
		s.models.mu.Lock()
		defer s.models.mu.Unlock()
		return plain.unused != nil
	})
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := s.models.lease(short, "plain"); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	answered := make(chan error)
	go func() {
		later, err := s.models.lease(t.Context(), "plain")
		if err == nil {
			later.release()
		}
		answered <- err
	}()
	l.again().release()
	l.release()
	must(t, <-unloaded)
	must(t, <-answered)
	is(true)
	// An abandoned unload leaves the model loaded.
	l = s.leased(t, "plain")
	ended, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.models.drain(ended, plain); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	s.chat(t, "plain", "x", `"max_tokens": 1`)
}

func TestAdministrationNeedsARight(t *testing.T) {
	s, keyed := serve(t), serve(t, "-keys", written(t, "keys", "user\nroot admin\n"))
	for _, c := range []struct {
		url     string
		headers []string
		want    int
	}{
		{s.url, nil, 200}, {s.url, []string{"X-Forwarded-For", "1.2.3.4"}, 403}, {s.url, []string{"Forwarded", "for=1.2.3.4"}, 403},
		{s.url, []string{"Origin", "https://evil.example"}, 403},
		{keyed.url, nil, 401}, {keyed.url, []string{"Authorization", "Bearer user"}, 403}, {keyed.url, []string{"Authorization", "Bearer root"}, 200},
		{keyed.url, []string{"X-Api-Key", "root", "X-Forwarded-For", "1.2.3.4"}, 200},
	} {
		for _, path := range []string{"/models/load", "/models/unload", "/models/reload"} {
			if status, _, text := send(t, http.DefaultClient, http.MethodPost, c.url+path, `{"model": "plain"}`, c.headers...); status != c.want {
				t.Errorf("%v %s: %d %s", c, path, status, text)
			}
		}
	}
	for address, want := range map[string]bool{"127.0.0.1:1": true, "[::1]:1": true, "@": true, "": true, "192.168.0.2:1": false, "[2001:db8::1]:1": false} {
		if isLocal(&http.Request{RemoteAddr: address}) != want {
			t.Error(address)
		}
	}
}

func TestProbes(t *testing.T) {
	s := serve(t)
	for state, want := range map[int32][3]int{loadingModels: {200, 503, 503}, ready: {200, 200, 200}, stopping: {200, 503, 503}} {
		s.state.Store(state)
		for i, path := range []string{"/live", "/ready", "/health"} {
			if status, _ := s.get(t, path); status != want[i] {
				t.Error(state, path, status)
			}
		}
	}
}
