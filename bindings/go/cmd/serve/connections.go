// Connections of clients. A client that closes only its sending direction (half-closed) gets its answer, and a client
// that has hung up is noticed; net/http takes the first for the second.
//
// Both look the same to a reader: an end of file. Writing tells them apart, because a system answers bytes for a closed
// socket with a reset, and then writes fail. So before an answer has begun the service writes "100 Continue", which
// every HTTP/1.1 client skips, and a stream writes comments.
package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// lookEvery is the time between two looks at a connection whose client has ended what it sends. Bytes go with the first
// looks, because a proxy between needs some to notice that its client has gone, then with one in probeRarely.
var lookEvery = 250 * time.Millisecond

const (
	earlyProbes = 3
	probeRarely = 40
	interim     = "HTTP/1.1 100 Continue\r\n\r\n"
)

// listener accepts connections.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &connection{Conn: accepted, ended: make(chan struct{}), woken: make(chan struct{}), closed: make(chan struct{})}, nil
}

// connection is a client's.
type connection struct {
	net.Conn
	ended  chan struct{} // closed: the client has ended what it sends
	closed chan struct{} // closed: Close was called
	end    sync.Once     // closes ended
	over   sync.Once     // closes closed

	reads sync.Mutex
	woken chan struct{} // closed: the deadline of reads was over when it was set
	until time.Time     // deadline of reads; zero: none

	mu     sync.Mutex // held while bytes are written
	asked  bool       // a request is being answered
	silent bool       // it is not of HTTP/1.1, whose clients take interim answers
	begun  bool       // bytes of the answer are written
}

type connectionKey struct{}

// withConnection is the ConnContext of http.Server.
func withConnection(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, c)
}

// connectionOf is the connection that a request has come by; nil: unknown.
func connectionOf(ctx context.Context) *connection {
	c, _ := ctx.Value(connectionKey{}).(*connection)
	return c
}

// answering says that the answer to a request begins now, and with the returned function that it has ended.
func (c *connection) answering(r *http.Request) (done func()) {
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

// halfClosed is closed when the client has ended what it sends; nil: that is never known.
func (c *connection) halfClosed() <-chan struct{} {
	if c == nil {
		return nil
	}
	return c.ended
}

// Read reads. While a request is answered net/http reads a single byte ahead, and cancels the request if that fails, so
// an end of file is not told then before the client is known to have gone.
func (c *connection) Read(data []byte) (n int, err error) {
	n, err = c.Conn.Read(data)
	if err == io.EOF && len(data) == 1 {
		err = c.watch()
	}
	return n, err
}

// watch returns when the client has gone, reading is over or the connection is closed.
func (c *connection) watch() error {
	c.end.Do(func() {
		close(c.ended)
		giveUpSilent(c.Conn)
	})
	c.reads.Lock()
	woken, until := c.woken, c.until
	c.reads.Unlock()
	look := time.NewTicker(lookEvery)
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
		case probed && probes < earlyProbes-1:
			probes, next = probes+1, n+2
		case probed:
			next = n + probeRarely
		}
	}
}

// look tells whether writing is possible, and with probe writes an interim answer where there may be one.
func (c *connection) look(probe bool) (probed, alive bool) {
	if !c.mu.TryLock() { // bytes of the answer are being written, which fail by themselves
		return false, true
	}
	defer c.mu.Unlock()
	waits := c.asked && !c.begun
	if waits && c.silent {
		return false, false
	}
	var data []byte // none: an error that there was is told all the same
	if probed = waits && probe; probed {
		data = []byte(interim)
	}
	_ = c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Conn.Write(data)
	return probed, err == nil
}

func (c *connection) Write(data []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = c.begun || string(data) != interim // which net/http writes itself for "Expect: 100-continue"
	return c.Conn.Write(data)
}

// SetReadDeadline is how net/http ends its reading ahead.
func (c *connection) SetReadDeadline(t time.Time) error {
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

// CloseWrite lets net/http end an answer before a client has sent all of its request.
func (c *connection) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *connection) Close() error {
	c.over.Do(func() { close(c.closed) })
	return c.Conn.Close()
}
