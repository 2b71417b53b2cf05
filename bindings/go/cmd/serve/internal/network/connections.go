// Connections of clients. A client that closes only its sending direction (half-closed) gets its answer, and a client
// that has disconnected is noticed. net/http treats a half-closed connection as disconnected.
//
// Both look the same to a reader: end of file. Writing distinguishes them, because the system answers bytes for a
// closed socket with a reset, after which writes fail. Therefore the service writes "100 Continue" before an answer has
// begun, which every HTTP/1.1 client skips; a stream writes comments.
package network

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// WriteTimeout is the time for which a client may take no bytes of an answer.
const WriteTimeout = 30 * time.Second

// LookEvery is the interval between checks of a half-closed connection. The first checks write bytes, because a proxy
// notices only by them that its client has disconnected; of the later checks, one in probeRarely writes bytes.
var LookEvery = 250 * time.Millisecond

const (
	EarlyProbes = 3 // number of the first checks
	probeRarely = 40
	interim     = "HTTP/1.1 100 Continue\r\n\r\n"
)

// Watch returns a listener whose connections are of the type [Connection].
func Watch(accepts net.Listener) net.Listener { return listener{accepts} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &Connection{Conn: accepted, ended: make(chan struct{}), woken: make(chan struct{}), closed: make(chan struct{})}, nil
}

// Connection is the connection of a client.
type Connection struct {
	net.Conn
	ended  chan struct{} // closed: the client has closed its sending direction
	closed chan struct{} // closed: Close was called
	end    sync.Once     // closes ended
	over   sync.Once     // closes closed

	reads sync.Mutex
	woken chan struct{} // closed: a read deadline was set that had already passed
	until time.Time     // read deadline; zero: none

	mu     sync.Mutex // held while bytes are written
	asked  bool       // a request is being answered
	silent bool       // the request is older than HTTP/1.1, whose clients accept interim responses
	begun  bool       // bytes of the answer have been written
}

type connectionKey struct{}

// WithConnection is the ConnContext of http.Server.
func WithConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// ConnectionOf returns the connection of a request; nil: unknown.
func ConnectionOf(ctx context.Context) *Connection {
	c, _ := ctx.Value(connectionKey{}).(*Connection)
	return c
}

// Answering records that the answer to a request begins; the returned function records that it has ended.
func (c *Connection) Answering(r *http.Request) (done func()) {
	if c == nil {
		return func() {}
	}
	set := func(asked bool) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.asked, c.silent, c.begun = asked, !r.ProtoAtLeast(1, 1), false
	}
	set(true)
	return func() { set(false) }
}

// HalfClosed returns a channel that is closed when the client has closed its sending direction; nil: never known.
func (c *Connection) HalfClosed() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.ended
}

// Read reads. While a request is being answered, net/http reads one byte ahead, and cancels the request if that read
// fails. Therefore Read reports an end of file only after the client is known to have disconnected.
func (c *Connection) Read(data []byte) (n int, err error) {
	n, err = c.Conn.Read(data)
	if err == io.EOF && len(data) == 1 {
		err = c.watch()
	}
	return n, err
}

// watch returns when the client has disconnected, the read deadline has passed, or the connection is closed.
func (c *Connection) watch() error {
	c.end.Do(func() {
		close(c.ended)
		giveUpSilent(c.Conn)
	})
	c.reads.Lock()
	woken, until := c.woken, c.until
	c.reads.Unlock()
	look := time.NewTicker(LookEvery)
	defer look.Stop()
	probes, next := 0, 0
	for n := 0; ; n++ {
		select {
		case <-woken:
			return os.ErrDeadlineExceeded
		case <-c.closed:
			return net.ErrClosed
		case <-look.C:
		}
		probed, alive := c.look(n >= next)
		switch {
		case !until.IsZero() && time.Now().After(until):
			return os.ErrDeadlineExceeded
		case !alive:
			return io.EOF
		case probed && probes < EarlyProbes-1:
			probes, next = probes+1, n+2
		case probed:
			next = n + probeRarely
		}
	}
}

// look reports whether writes succeed; with probe it writes an interim response if the request has no answer yet.
func (c *Connection) look(probe bool) (probed, alive bool) {
	if !c.mu.TryLock() { // bytes of the answer are being written; that write reports errors itself
		return false, true
	}
	defer c.mu.Unlock()
	waits := c.asked && !c.begun
	if waits && c.silent {
		return false, false
	}
	var data []byte // an empty write still reports an earlier error
	if probed = waits && probe; probed {
		data = []byte(interim)
	}
	_ = c.Conn.SetWriteDeadline(time.Now().Add(WriteTimeout))
	_, err := c.Conn.Write(data)
	return probed, err == nil
}

func (c *Connection) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = c.begun || string(data) != interim // which net/http writes itself for "Expect: 100-continue"
	return c.Conn.Write(data)
}

// SetReadDeadline sets the deadline; net/http ends its read-ahead by a deadline in the past.
func (c *Connection) SetReadDeadline(t time.Time) error {
	c.reads.Lock()
	defer c.reads.Unlock()
	select {
	case <-c.woken:
		c.woken = make(chan struct{})
	default:
	}
	if c.until = t; !t.IsZero() && time.Until(t) <= 0 {
		close(c.woken)
	}
	return c.Conn.SetReadDeadline(t)
}

// CloseWrite lets net/http end an answer before the client has sent its whole request.
func (c *Connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *Connection) Close() error {
	c.over.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
