// Bodies of requests: their size, their time and their compression.
package main

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// maxDepth is the maximum nesting depth of the JSON of a request.
const maxDepth = 128

// unpack makes the body of a request decompress on reading, up to most bytes.
func unpack(w http.ResponseWriter, r *http.Request, most int64) error {
	coding := strings.ToLower(strings.TrimSpace(r.Header.Get("Content-Encoding")))
	var open func(io.Reader) (io.ReadCloser, error)
	switch coding {
	case "", "identity":
		return nil
	case "gzip", "x-gzip":
		open = func(packed io.Reader) (io.ReadCloser, error) { return gzip.NewReader(packed) }
	case "deflate":
		open = zlib.NewReader
	default:
		w.Header().Set("Accept-Encoding", "gzip, deflate")
		w.Header().Set("Connection", "close")
		return &apiError{status: http.StatusUnsupportedMediaType, message: fmt.Sprintf("the Content-Encoding is %.40q; it must be gzip, deflate or absent", coding)}
	}
	r.Body = http.MaxBytesReader(w, &packed{body: r.Body, open: open}, most)
	return nil
}

// packed is a compressed body, whose header is read on the first read.
type packed struct {
	body   io.ReadCloser
	open   func(io.Reader) (io.ReadCloser, error)
	reader io.ReadCloser
}

// errPacked reports a body that cannot be decompressed.
var errPacked = errors.New("cannot decompress the body: it is not valid in its Content-Encoding")

func (p *packed) Read(data []byte) (n int, err error) {
	if p.reader == nil {
		p.reader, err = p.open(p.body)
	}
	if err == nil {
		n, err = p.reader.Read(data)
	}
	if errors.Is(err, gzip.ErrHeader) || errors.Is(err, gzip.ErrChecksum) || errors.Is(err, zlib.ErrHeader) || errors.Is(err, zlib.ErrChecksum) {
		err = errPacked
	}
	return n, err
}

func (p *packed) Close() error { return p.body.Close() }

// counted is a body whose bytes count toward the limit for all bodies, until release. The limit is the maximum size of
// all requests that can run or wait at the same time. Without it, concurrent bodies could exhaust memory.
type counted struct {
	io.ReadCloser
	all   *atomic.Int64
	most  int64
	bytes int64

	content *excerpt // what is read; nil: it is not logged
}

func (c *counted) Read(data []byte) (n int, err error) {
	n, err = c.ReadCloser.Read(data)
	c.bytes += int64(n)
	if c.content != nil {
		c.content.add(data[:n])
	}
	if c.all.Add(int64(n)) > c.most {
		err = &apiError{
			status: http.StatusServiceUnavailable, code: "overloaded", retryAfter: time.Second,
			message: "cannot read the body: other requests take the memory for bodies; try again later",
		}
	}
	return n, err
}

func (c *counted) release() { c.all.Add(-c.bytes) }

// readBody reads the JSON of a request, and enforces the limits of depth, size and time.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := readAll(w, r)
	if err == nil && depth(body) > maxDepth {
		return nil, refuse("", "the JSON is nested deeper than %d levels", maxDepth)
	}
	return body, err
}

// readAll reads the body of a request, and enforces the limits of size and time.
func readAll(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		// If the deadline stayed set, its end would count as the end of the connection while the answer is generated.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	} else {
		w.Header().Set("Connection", "close") // otherwise the server would wait for the rest of the body
	}
	var large *http.MaxBytesError
	var network interface{ Timeout() bool }
	var refused *apiError
	switch {
	case errors.As(err, &refused):
		return nil, refused
	case errors.As(err, &large):
		return nil, &apiError{
			status: http.StatusRequestEntityTooLarge, message: fmt.Sprintf("the body is larger than the maximum of %d bytes (-body)", large.Limit),
		}
	case errors.As(err, &network) && network.Timeout():
		return nil, &apiError{status: http.StatusRequestTimeout, message: "the body did not arrive in time"}
	case errors.Is(err, errPacked):
		return nil, refuse("", "%v", err)
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network):
		return nil, refuse("", "the body ends early; it must be as long as the request says")
	case err != nil: // for example in the chunk headers
		return nil, refuse("", "cannot read the body: %v", err)
	}
	return body, nil
}

// depth returns the maximum nesting depth of the brackets outside texts.
func depth(text []byte) (deepest int) {
	level, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			level++
			deepest = max(deepest, level)
		case c == '}' || c == ']':
			level--
		}
	}
	return deepest
}
