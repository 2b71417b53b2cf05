package hub_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	_ "realizar.dev/go"
	"realizar.dev/go/hub"
)

const data = "../../../tests/data/hub.json"

// The facts of tests/data/hub.json.
var facts struct {
	Names    []struct{ Model, Error string }
	Encoders []struct{ Model, Encoder string }
	Choices  []struct {
		Files        map[string]uint64
		Quantization string
		Free         uint64
		Chosen       []string
		Error        string
	}
	Faults []struct {
		Fault, Token, Model, Error, Path string
		Offline                          bool
		Kept                             int64
		Patience                         float64
		Files                            []string
		Tree                             map[string]any
		Requests                         [][3]*string
	}
	Unwritable string
}

var address string

func TestMain(m *testing.M) {
	*hub.Pause = 0
	if model := os.Getenv("REALIZAR_TEST_FETCH"); model != "" {
		fmt.Println(hub.Fetch(context.Background(), model, nil))
		return
	}
	text, err := os.ReadFile(data)
	if err == nil {
		err = json.Unmarshal(text, &facts)
	}
	if err != nil {
		panic(err)
	}
	server := exec.Command("python3", "../../../tests/hub/server.py")
	input, _ := server.StdinPipe()
	output, _ := server.StdoutPipe()
	if err := server.Start(); err != nil {
		fmt.Println("SKIPPED: the tests of models of the Hub, because there is no python3")
		return
	}
	line, _ := bufio.NewReader(output).ReadString('\n')
	address = strings.TrimSpace(line)
	code := m.Run()
	input.Close()
	server.Wait()
	os.Exit(code)
}

// use has a server with a fault, and gives its address.
func use(t *testing.T, fault string) string {
	endpoint := address + "/" + fault
	if fault == "down" {
		endpoint = "http://127.0.0.1:1"
	}
	t.Setenv("HF_ENDPOINT", endpoint)
	return endpoint
}

// fresh has an empty cache, and gives its folder.
func fresh(t *testing.T) string {
	home := t.TempDir()
	for _, name := range []string{"HF_HUB_CACHE", "HF_TOKEN", "HF_HUB_OFFLINE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HF_HOME", home)
	use(t, "ok")
	requests(t)
	return filepath.Join(home, "hub")
}

// requests are those since the last call: host, token, range.
func requests(t *testing.T) (told [][3]*string) {
	t.Helper()
	response, err := http.Get(address + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var all [][4]*string
	if err := json.NewDecoder(response.Body).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		told = append(told, [3]*string{one[0], one[2], one[3]})
	}
	return told
}

// tree is the files and links below a folder, without locks, with sizes and targets.
func tree(top string) map[string]string {
	found := map[string]string{}
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.Contains(path, ".locks") {
			return nil
		}
		name, _ := filepath.Rel(top, path)
		if target, err := os.Readlink(path); err == nil {
			found[name] = target
		} else if stat, err := entry.Info(); err == nil {
			found[name] = fmt.Sprint(stat.Size())
		}
		return nil
	})
	return found
}

// fails checks that a fetch fails with a sentence, in which {*} is anything.
func fails(t *testing.T, model, sentence, endpoint, cache string) error {
	t.Helper()
	_, err := hub.Fetch(t.Context(), model, &hub.Options{Free: 1 << 34})
	sentence = strings.NewReplacer("{endpoint}", endpoint, "{cache}", cache).Replace(sentence)
	form := "^" + strings.ReplaceAll(regexp.QuoteMeta(sentence), regexp.QuoteMeta("{*}"), ".+") + "$"
	if err == nil || !regexp.MustCompile(form).MatchString(err.Error()) {
		t.Errorf("%s: %v, not %s", model, err, sentence)
	}
	return err
}

func fetched(t *testing.T, model string) string {
	t.Helper()
	path, err := hub.Fetch(t.Context(), model, nil)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestNames(t *testing.T) {
	for _, one := range facts.Names {
		if err := fails(t, one.Model, one.Error, "", ""); !errors.Is(err, hub.ErrName) {
			t.Error(err)
		}
	}
}

func TestChoices(t *testing.T) {
	for _, one := range facts.Choices {
		files := []map[string]any{}
		for name, size := range one.Files {
			files = append(files, map[string]any{"rfilename": name, "size": size, "blobId": strings.Repeat("a", 40)})
		}
		listing, _ := json.Marshal(map[string]any{"sha": strings.Repeat("5", 40), "siblings": files})
		model := strings.TrimSuffix("hf:o/n:"+one.Quantization, ":")
		chosen, err := hub.Choose(model, listing, one.Free)
		if one.Error != "" && (err == nil || err.Error() != one.Error) || one.Error == "" && !slices.Equal(chosen, one.Chosen) {
			t.Errorf("%v: %v, %v", one, chosen, err)
		}
	}
	if len(facts.Choices) < 20 {
		t.Error("few choices")
	}
}

func TestNamesOfEncoders(t *testing.T) {
	for _, one := range facts.Encoders {
		if name := hub.EncoderName(one.Model); name != one.Encoder {
			t.Error(name, one)
		}
	}
	if len(facts.Encoders) < 5 {
		t.Error("few names")
	}
}

func TestFaults(t *testing.T) {
	cache := fresh(t)
	fetched(t, "hf:tests/many:Q8_0")
	before := tree(cache)
	for _, one := range facts.Faults {
		t.Run(one.Fault+" "+one.Model, func(t *testing.T) {
			endpoint := use(t, one.Fault)
			t.Setenv("HF_TOKEN", one.Token)
			if one.Offline {
				t.Setenv("HF_HUB_OFFLINE", "1")
			}
			requests(t)
			if one.Error == "" {
				t.Setenv("HF_HOME", t.TempDir())
				succeeds(t, one.Model, one.Path, one.Token, one.Files, one.Requests)
				if found := tree(filepath.Join(os.Getenv("HF_HOME"), "hub")); one.Tree != nil && fmt.Sprint(found) != fmt.Sprint(one.Tree) {
					t.Errorf("%v", found)
				}
				return
			}
			if one.Patience > 0 {
				defer func(before time.Duration) { *hub.Timeout = before }(*hub.Timeout)
				*hub.Timeout = time.Duration(one.Patience * float64(time.Second))
			}
			fails(t, one.Model, one.Error, endpoint, cache)
			after := tree(cache)
			for name, size := range maps.Clone(after) {
				if strings.HasSuffix(name, ".part") && size == fmt.Sprint(one.Kept) {
					delete(after, name)
					os.Remove(filepath.Join(cache, name))
				}
			}
			if !maps.Equal(before, after) {
				t.Errorf("%v", after)
			}
		})
	}
	// What was found in the cache before still is, without a connection.
	use(t, "down")
	if path := fetched(t, "hf:tests/many"); !strings.HasSuffix(path, "many-Q8_0.gguf") {
		t.Error(path)
	}
}

func succeeds(t *testing.T, model, end, token string, files []string, expected [][3]*string) {
	var last [2]uint64
	path, err := hub.Fetch(t.Context(), model, &hub.Options{Progress: func(done, total uint64) error {
		last = [2]uint64{done, total}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	snapshot := strings.TrimSuffix(strings.TrimSuffix(filepath.ToSlash(path), end), "/")
	if !regexp.MustCompile("/models--tests--[a-z]+/snapshots/5{40}$").MatchString(snapshot) {
		t.Error(path)
	}
	if files == nil {
		files = []string{end}
	}
	var size uint64
	for _, file := range files {
		stat, err := os.Stat(filepath.Join(snapshot, file))
		if err != nil {
			t.Fatal(err)
		}
		size += uint64(stat.Size())
	}
	if last != [2]uint64{size, size} || len(tree(snapshot)) != len(files) {
		t.Error(last, size, tree(snapshot))
	}
	told := requests(t)
	if expected != nil && !reflect.DeepEqual(told, expected) {
		text, _ := json.Marshal(told)
		t.Errorf("%s", text)
	}
	for _, one := range told {
		if wanted := *one[0] == "hub" && token != ""; wanted != (one[1] != nil) || wanted && *one[1] != "Bearer "+token {
			t.Error("a token for another host, or none")
		}
	}
	use(t, "down")
	if again := fetched(t, model); again != path {
		t.Error(again)
	}
}

func TestWhatWasKeptIsGoneOnWith(t *testing.T) {
	cache := fresh(t)
	use(t, "gone")
	if _, err := hub.Fetch(t.Context(), "hf:tests/many:Q4_K_M", nil); err == nil {
		t.Error("no error")
	}
	use(t, "ok")
	requests(t)
	fetched(t, "hf:tests/many:Q4_K_M")
	told := requests(t)
	if last := told[len(told)-1]; last[2] == nil || *last[2] != "bytes=1500-" {
		t.Error(told)
	}
	for name := range tree(cache) {
		if strings.HasSuffix(name, ".part") {
			t.Error(name)
		}
	}
}

func TestAFolderThatCannotBeWritten(t *testing.T) {
	fresh(t)
	t.Setenv("HF_HOME", data)
	fails(t, "hf:tests/many:Q4_K_M", facts.Unwritable, "", filepath.Join(data, "hub"))
}

func TestTwoProcessesFetchOnceAndThroughAProxy(t *testing.T) {
	fresh(t)
	run := func(environment ...string) (*exec.Cmd, *strings.Builder) {
		said := &strings.Builder{}
		process := exec.Command(os.Args[0])
		process.Env = append(append(os.Environ(), "REALIZAR_TEST_FETCH=hf:tests/many:Q4_K_M"), environment...)
		process.Stdout = said
		if err := process.Start(); err != nil {
			t.Fatal(err)
		}
		return process, said
	}
	a, first := run()
	b, second := run()
	a.Wait()
	b.Wait()
	n := 0
	for _, one := range requests(t) {
		if *one[0] == "files" {
			n++
		}
	}
	if first.String() != second.String() || !strings.HasSuffix(first.String(), "many-Q4_K_M.gguf <nil>\n") || n != 1 {
		t.Error(first, second, n)
	}
	home := t.TempDir()
	c, third := run("HF_HOME="+home, "HF_ENDPOINT=http://hub.invalid/ok", "http_proxy="+address)
	c.Wait()
	if !strings.HasPrefix(third.String(), home) {
		t.Error(third)
	}
}

func TestCopiesWhereThereAreNoLinks(t *testing.T) {
	fresh(t)
	*hub.MakeLink = func(string, string) error { return fs.ErrPermission }
	defer func() { *hub.MakeLink = os.Symlink }()
	path := fetched(t, "hf:tests/many:Q4_K_M")
	if stat, err := os.Lstat(path); err != nil || stat.Size() != 3000 {
		t.Error(stat, err)
	}
	use(t, "down")
	if again := fetched(t, "hf:tests/many"); again != path {
		t.Error(again)
	}
}

func TestContextsAndProgressEndAFetch(t *testing.T) {
	fresh(t)
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(enough)
	if _, err := hub.Fetch(ctx, "hf:tests/many:Q4_K_M", nil); !errors.Is(err, context.Canceled) || !errors.Is(err, enough) {
		t.Error(err)
	}
	var none context.Context
	if _, err := hub.Fetch(none, "hf:tests/many:Q4_K_M", nil); err == nil || !strings.Contains(err.Error(), "ctx is nil") {
		t.Error(err)
	}
	if _, err := hub.Fetch(t.Context(), "hf:tests/many:Q4_K_M", &hub.Options{Progress: func(_, _ uint64) error { return enough }}); err != enough {
		t.Error(err)
	}
}
