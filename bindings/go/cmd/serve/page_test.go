package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page needs no key, can be opened from any link, and loads nothing from other sites.
func TestThePageIsServed(t *testing.T) {
	keys := filepath.Join(t.TempDir(), "keys")
	must(t, os.WriteFile(keys, []byte("key\n"), 0o600))
	for _, s := range []*service{serve(t), serve(t, "-keys", keys)} {
		for path, kind := range map[string]string{
			"/": "text/html", "/page/page.js": "text/javascript", "/page/page.css": "text/css", "/page/icon.svg": "image/svg+xml",
			"/page/licenses.txt": "text/plain",
		} {
			ask := func(headers ...string) (*http.Response, string) {
				request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
				must(t, err)
				request.Header.Set("Sec-Fetch-Site", "cross-site")
				for i := 0; i < len(headers); i += 2 {
					request.Header.Set(headers[i], headers[i+1])
				}
				response, err := http.DefaultTransport.RoundTrip(request)
				must(t, err)
				defer response.Body.Close()
				text, err := io.ReadAll(response.Body)
				must(t, err)
				return response, string(text)
			}
			packed, text := ask() // Go's client requests gzip and decompresses it
			header := packed.Header
			policy := header.Get("Content-Security-Policy")
			if packed.StatusCode != 200 || !strings.HasPrefix(header.Get("Content-Type"), kind) || header.Get("X-Content-Type-Options") != "nosniff" ||
				!packed.Uncompressed || !strings.HasPrefix(policy, "default-src 'none'; script-src 'self'; ") || strings.Contains(policy, "unsafe") {
				t.Error(path, packed.Status, header)
			}
			plain, same := ask("Accept-Encoding", "identity")
			if plain.StatusCode != 200 || same != text || text == "" || plain.Header.Get("ETag") == header.Get("ETag") {
				t.Error(path, plain.Status, plain.Header)
			}
			known, nothing := ask("Accept-Encoding", "identity", "If-None-Match", plain.Header.Get("ETag"))
			if known.StatusCode != http.StatusNotModified || nothing != "" {
				t.Error(path, known.Status)
			}
		}
		for path, want := range map[string]int{"/page/": 404, "/page/none.js": 404, "/index.html": 404, "/page/../go.mod": 404} {
			response, err := http.Get(s.url + path)
			must(t, err)
			response.Body.Close()
			if response.StatusCode != want {
				t.Error(path, response.Status)
			}
		}
	}
}

func TestModelsAreDescribed(t *testing.T) {
	s := serve(t, "-lora", "drawing=plain,"+data+"story-adapter.gguf")
	s.leased(t, "plain")
	response, err := http.Get(s.url + "/v1/models")
	must(t, err)
	defer response.Body.Close()
	var list any
	must(t, json.NewDecoder(response.Body).Decode(&list))
	for i, loaded := range map[int]bool{0: true, 1: false, 2: true} {
		details, _ := at(list, "data", i, "realizar").(map[string]any)
		if details["loaded"] != loaded || loaded != (details["context"] == float64(512)) {
			t.Error(i, details)
		}
		if loaded && (details["chat"] != true || details["tools"] != true || details["image"] != false || details["slots"] != float64(8) || details["memory"] == nil) {
			t.Error(details)
		}
	}
}
