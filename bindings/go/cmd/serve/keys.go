// API keys: their file, their limits, and who may administer the service.
package main

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// key is an API key of a client.
type key struct {
	name   string // for the log; never the key itself
	digest [sha256.Size]byte
	admin  bool // may load and unload models
	*limits
}

// limits restrict the requests of one key. Reading the file again keeps the counts.
type limits struct {
	mu         sync.Mutex
	perMinute  int // 0: no limit
	concurrent int // 0: no limit
	running    int
	left       float64   // requests that are admitted without waiting; at most perMinute
	filled     time.Time // when left was computed
}

// keyForm describes a line of the file of keys.
const keyForm = "KEY [name=NAME] [rpm=REQUESTS PER MINUTE] [concurrent=REQUESTS] [admin]"

// readKeys reads a file with a key per line; empty lines and lines that begin with "#" are ignored. Errors do not quote
// the file, which is secret. A key that is also in `before` keeps its counts of requests.
func readKeys(path string, before []*key) (keys []*key, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the file of keys (-keys): %w", err)
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		words := strings.Fields(lines.Text())
		if len(words) == 0 || words[0][0] == '#' {
			continue
		}
		one, err := keyOf(words, fmt.Sprintf("key-%d", len(keys)+1))
		for _, other := range keys {
			if err == nil && (other.digest == one.digest || other.name == one.name) {
				err = errors.New("has the key or the name of another line; both must be unique")
			}
		}
		if err != nil {
			return nil, fmt.Errorf("line %d of %s (-keys) %w", n, path, err)
		}
		keys = append(keys, one)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("cannot read the file of keys (-keys): %w", err)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("the file %s contains no key (-keys); it must have at least one", path)
	}
	for _, key := range keys {
		for _, old := range before {
			if old.digest == key.digest {
				key.limits = old.limits.changed(key.limits)
			}
		}
	}
	return keys, nil
}

// keyOf reads the words of a line.
func keyOf(words []string, name string) (*key, error) {
	k := &key{name: name, digest: sha256.Sum256([]byte(words[0])), limits: &limits{}}
	for _, word := range words[1:] {
		field, value, _ := strings.Cut(word, "=")
		var number *int
		switch field {
		case "admin":
			if value != "" || strings.Contains(word, "=") {
				return nil, errors.New(`has a value of "admin"; the word must be alone`)
			}
			k.admin = true
		case "name":
			if value == "" || len(value) > 64 {
				return nil, fmt.Errorf("has a name of %d bytes; it must have 1 to 64", len(value))
			}
			k.name = value
		case "rpm":
			number = &k.perMinute
		case "concurrent":
			number = &k.concurrent
		default:
			return nil, fmt.Errorf("has an unknown word after the key; it must be %s", keyForm)
		}
		if number != nil {
			var err error
			if *number, err = strconv.Atoi(value); err != nil || *number < 1 || *number > 1e9 {
				return nil, fmt.Errorf("has a value of %q that is no number from 1 to 1000000000", field)
			}
		}
	}
	k.left = float64(k.perMinute)
	return k, nil
}

// changed sets the bounds of l to those of the argument. The running requests stay counted.
func (l *limits) changed(to *limits) *limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.perMinute != to.perMinute {
		l.perMinute, l.left, l.filled = to.perMinute, float64(to.perMinute), time.Time{}
	}
	l.concurrent = to.concurrent
	return l
}

// enter counts a request that begins, or rejects it. It sets the headers in which OpenAI reports the limit.
func (l *limits) enter(header http.Header, now time.Time) *apiError {
	l.mu.Lock()
	defer l.mu.Unlock()
	refused := func(wait time.Duration, format string, bound int) *apiError {
		return &apiError{status: http.StatusTooManyRequests, code: "rate_limit_exceeded", message: fmt.Sprintf(format, bound), retryAfter: wait}
	}
	if l.concurrent > 0 && l.running >= l.concurrent {
		return refused(time.Second, "the key has %d requests running, its limit; try again later", l.concurrent)
	}
	if l.perMinute > 0 {
		most, perSecond := float64(l.perMinute), float64(l.perMinute)/60
		if !l.filled.IsZero() {
			l.left = min(most, l.left+max(0, now.Sub(l.filled).Seconds())*perSecond)
		}
		l.filled = now
		header.Set("X-Ratelimit-Limit-Requests", strconv.Itoa(l.perMinute))
		header.Set("X-Ratelimit-Remaining-Requests", strconv.Itoa(int(max(0, l.left-1))))
		if l.left < 1 {
			wait := time.Duration(math.Ceil((1 - l.left) / perSecond * float64(time.Second)))
			return refused(wait, "the key has had its limit of %d requests per minute; try again later", l.perMinute)
		}
		l.left--
	}
	l.running++
	return nil
}

func (l *limits) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running--
}

// requiresKeys reports whether requests need a key.
func (s *server) requiresKeys() bool { return s.options.keys != "" }

// keyOf returns the key of a request, in constant time; nil: it has none of the keys.
func (s *server) keyOf(r *http.Request) *key {
	scheme, given, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		given = r.Header.Get("X-Api-Key")
	}
	digest := sha256.Sum256([]byte(given))
	var found *key
	for _, key := range *s.keys.Load() {
		if subtle.ConstantTimeCompare(digest[:], key.digest[:]) == 1 {
			found = key
		}
	}
	return found
}

// enter admits a request if it has a key and is within the key's limits, or if no key is required. The returned
// function ends the request.
func (s *server) enter(w http.ResponseWriter, r *http.Request) (leave func(), err error) {
	if !s.requiresKeys() {
		return func() {}, nil
	}
	key := s.keyOf(r)
	if key == nil {
		return nil, &apiError{status: http.StatusUnauthorized, code: "invalid_api_key", message: "the key is missing or unknown"}
	}
	recordOf(r.Context()).key = key
	if err := key.limits.enter(w.Header(), time.Now()); err != nil {
		return nil, err
	}
	return key.leave, nil
}

// mayAdminister rejects a request that is not an administrator's. The request needs a key with the word admin; if no
// key is required, it must come from this machine.
func (s *server) mayAdminister(r *http.Request) error {
	key := recordOf(r.Context()).key
	message := ""
	switch {
	case s.requiresKeys() && !key.admin:
		message = "the key cannot administer models; its line in the file of keys must have the word admin (-keys)"
	case !s.requiresKeys() && !isLocal(r):
		message = "cannot administer models from another machine without a key (-keys)"
	default:
		return nil
	}
	return &apiError{status: http.StatusForbidden, code: "admin_required", message: message}
}

// isLocal reports whether a request comes from this machine, and not through a proxy on it.
func isLocal(r *http.Request) bool {
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		if r.Header.Get(name) != "" {
			return false
		}
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil { // a unix socket has no client addresses
		return r.RemoteAddr == "" || r.RemoteAddr == "@"
	}
	address := net.ParseIP(host)
	return address != nil && address.IsLoopback()
}

// readKeys reads the file of keys, if there is one. If that fails, the keys stay as they are.
func (s *server) readKeys() error {
	if !s.requiresKeys() {
		return nil
	}
	var before []*key
	if all := s.keys.Load(); all != nil {
		before = *all
	}
	keys, err := readKeys(s.options.keys, before)
	if err == nil {
		s.keys.Store(&keys)
	}
	return err
}
