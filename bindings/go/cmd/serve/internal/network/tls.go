// TLS of the service: its certificate, which SIGHUP reads again.
package network

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// Certificate is the certificate with its key, from two PEM files.
type Certificate struct {
	file, keyFile string
	current       atomic.Pointer[tls.Certificate]
}

// NewCertificate reads a certificate.
func NewCertificate(file, keyFile string) (*Certificate, error) {
	c := &Certificate{file: file, keyFile: keyFile}
	return c, c.Read()
}

// Read reads the files. If that fails, the certificate stays as it is.
func (c *Certificate) Read() error {
	pair, err := tls.LoadX509KeyPair(c.file, c.keyFile)
	if err != nil {
		return fmt.Errorf("cannot read the certificate (-tls-cert, -tls-key): %w", err)
	}
	if leaf := pair.Leaf; leaf != nil && time.Now().After(leaf.NotAfter) {
		slog.Warn(fmt.Sprintf("the certificate of %s (-tls-cert) expired at %s", c.file, leaf.NotAfter.Format(time.RFC3339)))
	}
	c.current.Store(&pair)
	return nil
}

// Secure returns a listener whose connections are encrypted. HTTP/2 is not offered, because a [Connection] needs one
// connection per client.
func (c *Certificate) Secure(accepts net.Listener) net.Listener {
	return &secureListener{accepts, &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}}
}

type secureListener struct {
	net.Listener
	config *tls.Config
}

func (l *secureListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &secureConnection{tls.Server(accepted, l.config)}, nil
}

// secureConnection is a connection whose handshake takes place at the first read, within the timeout for headers.
type secureConnection struct{ *tls.Conn }

// Read answers a client that uses http instead of https.
func (c *secureConnection) Read(data []byte) (int, error) {
	n, err := c.Conn.Read(data)
	var other tls.RecordHeaderError
	if errors.As(err, &other) && other.Conn != nil && isHTTP(other.RecordHeader[:]) {
		_ = other.Conn.SetWriteDeadline(time.Now().Add(WriteTimeout))
		_, _ = io.WriteString(other.Conn, "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nThis server speaks https, not http.\n")
	}
	return n, err
}

// isHTTP reports whether bytes can be the beginning of an HTTP request, instead of a TLS record.
func isHTTP(start []byte) bool {
	for _, c := range start {
		if (c < 'A' || c > 'Z') && c != ' ' && c != '/' {
			return false
		}
	}
	return true
}
