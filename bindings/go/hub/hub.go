// Package hub downloads models of the Hugging Face Hub: "hf:owner/name" and "hf:owner/name:quantization" become a path
// in the cache of the Hub's own client. realizar.Load uses it. [EncoderName] names the encoder of such a model.
//
// A model that is complete in the cache needs no connection. Otherwise files are downloaded next to the cache's blobs,
// verified with the Hub's hashes, renamed, and linked into a snapshot once all are complete; refs/main is updated last.
// HF_HOME, HF_HUB_CACHE, HF_TOKEN, HF_ENDPOINT, HF_HUB_OFFLINE and the proxies of the environment apply.
package hub

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Prefix is the prefix of model names of the Hub.
const Prefix = "hf:"

// attempts without progress, and the time before the second attempt; each later pause is twice as long.
const attempts = 5

var pause = time.Second

// timeout is the maximum time for response headers, for a listing, and without a byte of a file.
var timeout = 30 * time.Second

// makeLink creates symbolic links.
var makeLink = os.Symlink

// Options are optional; the zero value means the defaults.
type Options struct {
	Free     uint64                         // free memory in bytes, to choose a quantization; 0: unknown
	Progress func(done, total uint64) error // gets bytes; an error ends the download; may be nil
}

// Error is a failed download: a message with the remedy, and the cause if there is one. If the context ended the
// download, the cause is the context's error and its cause.
type Error struct {
	Message string
	Err     error
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, which may be nil.
func (e *Error) Unwrap() error { return e.Err }

func failed(cause error, format string, arguments ...any) error {
	return &Error{fmt.Sprintf(format, arguments...), cause}
}

// Fetch downloads a model, unless it is in the cache, and returns its path. Without a quantization, it chooses the
// largest one of at most 8 bits that fits into free memory. Interrupted downloads resume.
func Fetch(ctx context.Context, model string, options *Options) (string, error) {
	if ctx == nil {
		return "", failed(nil, "ctx is nil; it must be set")
	}
	if options == nil {
		options = &Options{}
	}
	named, err := choose(model, nil, 0, false)
	if err != nil {
		return "", err
	}
	c, err := cacheOf(named.Repository)
	if err != nil {
		return "", err
	}
	if found := c.find(model, options.Free); found != "" {
		return found, nil
	}
	if slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(os.Getenv("HF_HUB_OFFLINE"))) {
		return "", failed(nil, "%s is not complete in %s, and HF_HUB_OFFLINE is set: unset it to fetch the model", model, c.root)
	}
	s := newServer(named.Repository)
	listing, err := s.listing(ctx)
	if err != nil {
		return "", err
	}
	chosen, err := choose(model, listing, options.Free, false)
	if err == errListing {
		return "", s.strange()
	} else if err != nil {
		return "", err
	}
	f := &fetch{server: s, cache: c, commit: chosen.Commit, total: chosen.Size, progress: options.Progress}
	if err := f.run(ctx, chosen.Files); err != nil {
		return "", err
	}
	return c.model(chosen.Commit, chosen.Load), nil
}

// server is the Hub server that the environment names.
type server struct {
	repository, endpoint, token string
	client                      *http.Client
}

func newServer(repository string) *server {
	transport := http.DefaultTransport.(*http.Transport).Clone() // with the proxies of the environment
	transport.ResponseHeaderTimeout = timeout
	return &server{
		repository: repository,
		endpoint:   strings.TrimRight(cmp.Or(os.Getenv("HF_ENDPOINT"), "https://huggingface.co"), "/"),
		token:      strings.TrimSpace(os.Getenv("HF_TOKEN")),
		client: &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // get follows it, without the token
		}},
	}
}

// cut is a failed connection, or a response status.
type cut struct {
	cause  error
	status int
}

func (c *cut) Error() string { return fmt.Sprint(c.cause, c.status) }

// get returns the response to a GET, from this byte on, after redirects. Only the Hub's own host gets the token.
func (s *server) get(ctx context.Context, address string, start uint64) (*http.Response, error) {
	origin, _ := url.Parse(s.endpoint)
	for range 10 {
		at, err := url.Parse(address)
		if err != nil || at.Scheme != "http" && at.Scheme != "https" {
			break
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
		if err != nil {
			break
		}
		request.Header.Set("Accept-Encoding", "identity")
		request.Header.Set("User-Agent", "realizar")
		if start > 0 {
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", start))
		}
		if s.token != "" && at.Scheme == origin.Scheme && at.Host == origin.Host {
			request.Header.Set("Authorization", "Bearer "+s.token)
		}
		response, err := s.client.Do(request)
		if err != nil {
			return nil, &cut{cause: err}
		}
		if response.StatusCode == 200 || response.StatusCode == 206 {
			return response, nil
		}
		response.Body.Close()
		next, err := response.Location()
		if err != nil || response.StatusCode/100 != 3 {
			return nil, &cut{status: response.StatusCode}
		}
		address = next.String()
	}
	return nil, s.strange()
}

// listing returns the files of the main branch with their sizes and hashes, in JSON.
func (s *server) listing(ctx context.Context) ([]byte, error) {
	var body bytes.Buffer
	err := s.attempts(ctx, func() uint64 { return 0 }, func(ctx context.Context, alive func()) error {
		response, err := s.get(ctx, s.endpoint+"/api/models/"+s.repository+"/revision/main?blobs=true", 0)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		body.Reset()
		if _, err := io.Copy(&body, io.LimitReader(response.Body, 1<<26)); err != nil {
			return &cut{cause: err}
		}
		return nil
	})
	// Nil would mean no listing.
	return append([]byte{' '}, body.Bytes()...), err
}

// attempts repeats work if a connection fails, as long as progress exceeds its previous maximum in between. A
// connection that is silent for the timeout is closed.
func (s *server) attempts(ctx context.Context, progress func() uint64, work func(ctx context.Context, alive func()) error) error {
	for n, furthest := 0, progress(); ; {
		within, cancel := context.WithCancelCause(ctx)
		timer := time.AfterFunc(timeout, func() { cancel(errors.New("nothing came for 30 seconds")) })
		err := work(within, func() { timer.Reset(timeout) })
		timer.Stop()
		cancel(nil)
		var e *cut
		if ctx.Err() != nil {
			return ended(ctx)
		} else if !errors.As(err, &e) {
			return err
		}
		if n++; progress() > furthest {
			n, furthest = 1, progress()
		}
		if n >= attempts || e.status/100 == 4 && e.status != http.StatusTooManyRequests {
			return s.refused(e)
		}
		if err := wait(ctx, pause<<(n-1)); err != nil {
			return err
		}
	}
}

// ended returns the error of an ended context, with its cause.
func ended(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return ctx.Err()
}

func wait(ctx context.Context, pause time.Duration) error {
	select {
	case <-ctx.Done():
		return ended(ctx)
	case <-time.After(pause):
		return nil
	}
}

func (s *server) refused(e *cut) error {
	where, repository := s.endpoint, s.repository
	switch {
	case e.status == 401 && s.token != "":
		return failed(nil, "%s rejects the token in HF_TOKEN for %s: create a new one at %s/settings/tokens", where, repository, where)
	case e.status == 401:
		return failed(nil, "%s does not exist, or needs a token: check the name, or set HF_TOKEN to one of %s/settings/tokens", repository, where)
	case e.status == 403:
		return failed(nil, "%s is gated: accept its terms at %s/%s, and set HF_TOKEN", repository, where, repository)
	case e.status == 404:
		return failed(nil, "there is no %s at %s: check the name", repository, where)
	case e.status == 429:
		return failed(nil, "%s receives too many requests from this address: wait some minutes, or set HF_TOKEN", where)
	case e.status != 0:
		return failed(nil, "%s answers with status %d: try again later", where, e.status)
	}
	cause := e.cause
	if inner := (*url.Error)(nil); errors.As(cause, &inner) {
		cause = inner.Err
	}
	return failed(e.cause, "%s cannot be reached (%v): check the network and HTTPS_PROXY; the next try resumes the download", where, cause)
}

func (s *server) strange() error {
	return failed(nil, "%s does not answer like the Hugging Face Hub: log in to the network if it requires that, or check HTTPS_PROXY and HF_ENDPOINT", s.endpoint)
}

// cache is the folder of a repository in the cache.
type cache struct{ root, name, folder string }

func cacheOf(repository string) (*cache, error) {
	root := os.Getenv("HF_HUB_CACHE")
	if root == "" {
		home := os.Getenv("HF_HOME")
		if home == "" {
			home = filepath.Join(cmp.Or(os.Getenv("XDG_CACHE_HOME"), filepath.Join("~", ".cache")), "huggingface")
		}
		root = filepath.Join(home, "hub")
	}
	if root == "~" || strings.HasPrefix(root, "~"+string(filepath.Separator)) {
		user, err := os.UserHomeDir()
		if err != nil {
			return nil, failed(err, "this system names no home of the user: set HF_HOME to a folder")
		}
		root = filepath.Join(user, root[1:])
	}
	name := "models--" + strings.ReplaceAll(repository, "/", "--")
	return &cache{root, name, filepath.Join(root, name)}, nil
}

func (c *cache) blob(digest string) string { return filepath.Join(c.folder, "blobs", digest) }

func (c *cache) model(commit, load string) string {
	return filepath.Join(c.folder, "snapshots", commit, filepath.FromSlash(load))
}

// find returns the path of a complete model, or "".
func (c *cache) find(model string, free uint64) string {
	main, err := os.ReadFile(filepath.Join(c.folder, "refs", "main"))
	if err != nil {
		return ""
	}
	commit := strings.TrimSpace(string(main))
	top, files := filepath.Join(c.folder, "snapshots", commit), []map[string]any{}
	filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if stat, err := os.Stat(path); err == nil { // a link may point to nothing
			if name, err := filepath.Rel(top, path); err == nil {
				files = append(files, map[string]any{"rfilename": filepath.ToSlash(name), "size": stat.Size()})
			}
		}
		return nil
	})
	listing, err := json.Marshal(map[string]any{"siblings": files})
	if err != nil {
		return ""
	}
	chosen, err := choose(model, listing, free, true)
	if err != nil || len(chosen.Files) == 0 {
		return ""
	}
	return c.model(commit, chosen.Load)
}

// lock takes the Hub client's lock for a blob, if the file system supports locks.
func (c *cache) lock(ctx context.Context, digest string) (unlock func() error, err error) {
	folder := filepath.Join(c.root, ".locks", c.name)
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(folder, digest+".lock"), os.O_RDWR|os.O_CREATE, 0o664)
	if err != nil {
		return nil, err
	}
	for !lock(file) {
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			file.Close()
			return nil, err
		}
	}
	return file.Close, nil
}

// link adds a blob to a snapshot: a relative link, or the file itself if links are not supported.
func (c *cache) link(commit, file, digest string) error {
	path := filepath.Join(c.folder, "snapshots", commit, filepath.FromSlash(file))
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	os.Remove(path) // a dangling link
	target, err := filepath.Rel(filepath.Dir(path), c.blob(digest))
	if err != nil {
		return err
	}
	if err := makeLink(target, path); err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	from, err := os.Open(c.blob(digest))
	if err != nil {
		return err
	}
	defer from.Close()
	return writeBeside(path, from)
}

// writeBeside writes a file under another name, and renames it.
func writeBeside(path string, from io.Reader) error {
	beside := fmt.Sprintf("%s.%d", path, os.Getpid())
	to, err := os.Create(beside)
	if err == nil {
		_, err = io.Copy(to, from)
		err = cmp.Or(err, to.Close())
	}
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return err
}

// fetch is the download of a model's files into the cache.
type fetch struct {
	*server
	*cache
	commit      string
	done, total uint64
	progress    func(done, total uint64) error
}

// callback is an error of the caller's callback.
type callback struct{ error }

func (f *fetch) run(ctx context.Context, files []file) error {
	err := f.all(ctx, files)
	var mine *Error
	var theirs callback
	switch {
	case errors.As(err, &theirs):
		return theirs.error
	case err == nil || errors.As(err, &mine) || ctx.Err() != nil:
		return err
	case errors.Is(err, errFull):
		return f.checkRoom(1 << 62)
	}
	cause := err
	if inner := (*fs.PathError)(nil); errors.As(err, &inner) {
		cause = inner.Err
	}
	return failed(err, "%s cannot be written (%v): set HF_HOME to a folder that can", f.root, cause)
}

func (f *fetch) all(ctx context.Context, files []file) error {
	if err := os.MkdirAll(filepath.Join(f.folder, "blobs"), 0o777); err != nil {
		return err
	}
	needed := f.total
	for _, one := range files {
		needed -= min(f.kept(one), needed)
	}
	if err := f.checkRoom(needed); err != nil {
		return err
	}
	for _, one := range files {
		if err := f.one(ctx, one); err != nil {
			return err
		}
	}
	for _, one := range files {
		if err := f.link(f.commit, one.Name, one.Digest); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(f.folder, "refs"), 0o777); err != nil {
		return err
	}
	return writeBeside(filepath.Join(f.folder, "refs", "main"), strings.NewReader(f.commit))
}

// kept returns the bytes of a file that are downloaded.
func (f *fetch) kept(listed file) uint64 {
	for _, path := range []string{f.blob(listed.Digest), f.blob(listed.Digest) + ".part"} {
		if stat, err := os.Stat(path); err == nil {
			return uint64(stat.Size())
		}
	}
	return 0
}

func (f *fetch) checkRoom(needed uint64) error {
	free, err := room(f.root)
	if err != nil || needed <= free {
		return err
	}
	return failed(errFull, "%s takes %s, and the disk of %s has %s left: free space, or set HF_HOME to a folder on another disk",
		f.repository, sizeOf(f.total), f.root, sizeOf(free))
}

func (f *fetch) tell(n uint64) error {
	f.done += n
	if f.progress == nil {
		return nil
	}
	if err := f.progress(f.done, f.total); err != nil {
		return callback{err}
	}
	return nil
}

// one downloads a file to the cache, unless it is there.
func (f *fetch) one(ctx context.Context, listed file) error {
	path := f.blob(listed.Digest)
	part := path + ".part"
	unlock, err := f.lock(ctx, listed.Digest)
	if err != nil {
		return err
	}
	defer unlock()
	if stat, err := os.Stat(path); err == nil && uint64(stat.Size()) == listed.Size {
		return f.tell(listed.Size)
	}
	isWhole, err := f.receive(ctx, part, listed)
	if err != nil {
		if stat, e := os.Stat(part); errors.Is(err, errFull) || e == nil && stat.Size() == 0 {
			os.Remove(part)
		}
		return err
	}
	if !isWhole {
		os.Remove(part)
		return failed(nil, "%s has another hash than %s lists, and was deleted: try again, without a proxy or mirror if that does not help",
			listed.Name, f.endpoint)
	}
	return os.Rename(part, path)
}

// receive resumes a file until it is complete, and returns whether its hash is right.
func (f *fetch) receive(ctx context.Context, path string, listed file) (isWhole bool, err error) {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666)
	if err != nil {
		return false, err
	}
	defer out.Close()
	p := &part{fetch: f, out: out, listed: listed}
	if stat, err := out.Stat(); err != nil {
		return false, err
	} else if uint64(stat.Size()) > listed.Size {
		err = out.Truncate(0)
		if err != nil {
			return false, err
		}
	}
	p.begin()
	if err := p.take(out, io.Discard, func() {}); err != nil {
		return false, err
	}
	address := f.endpoint + "/" + f.repository + "/resolve/" + f.commit + "/" + (&url.URL{Path: listed.Name}).EscapedPath()
	err = f.attempts(ctx, func() uint64 { return p.at }, func(ctx context.Context, alive func()) error { return p.goOn(ctx, address, alive) })
	if err != nil {
		return false, err
	}
	return p.at == listed.Size && hex.EncodeToString(p.hashed.Sum(nil)) == listed.Digest, out.Sync()
}

// part is a partially downloaded file.
type part struct {
	*fetch
	out    *os.File
	listed file
	hashed hash.Hash
	at     uint64
}

func (p *part) begin() {
	if p.hashed, p.at = sha256.New(), 0; len(p.listed.Digest) == 40 {
		p.hashed = sha1.New()
		fmt.Fprintf(p.hashed, "blob %d\x00", p.listed.Size)
	}
}

// goOn receives the missing bytes until the connection ends.
func (p *part) goOn(ctx context.Context, address string, alive func()) error {
	if p.at == p.listed.Size {
		return nil
	}
	response, err := p.get(ctx, address, p.at)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if strings.Contains(response.Header.Get("Content-Type"), "text/html") {
		return p.strange()
	}
	if response.StatusCode != http.StatusPartialContent {
		if err := p.out.Truncate(0); err != nil {
			return err
		}
		p.done -= p.at
		p.begin()
	}
	if err = p.take(response.Body, p.out, alive); err == nil && p.at < p.listed.Size {
		err = &cut{cause: io.ErrUnexpectedEOF}
	}
	return err
}

// take counts and hashes the data, up to some bytes more than the file has.
func (p *part) take(from io.Reader, to io.Writer, alive func()) error {
	buffer := make([]byte, 1<<20)
	for p.at <= p.listed.Size {
		n, err := from.Read(buffer)
		alive()
		if _, err := to.Write(buffer[:n]); err != nil {
			return err
		}
		p.hashed.Write(buffer[:n])
		p.at += uint64(n)
		if err := p.tell(uint64(n)); err != nil {
			return err
		}
		if err == io.EOF {
			return nil
		} else if err != nil {
			return &cut{cause: err}
		}
	}
	return nil
}
