package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
)

// send sends a request with headers, and returns the status, the headers and the body of the answer.
func send(t *testing.T, client *http.Client, method, url, body string, headers ...string) (int, http.Header, string) {
	t.Helper()
	request, err := http.NewRequest(method, url, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
		if headers[i] == "Host" {
			request.Host = headers[i+1]
		}
	}
	response, err := client.Do(request)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, response.Header, string(text)
}

func written(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestKeysHaveLimits(t *testing.T) {
	file := written(t, "keys", "slow name=slow rpm=2\none name=one concurrent=1 # a comment is no word\n")
	if _, err := readKeys(file, nil); err == nil || !strings.Contains(err.Error(), "line 2") || strings.Contains(err.Error(), "comment") {
		t.Error(err)
	}
	must(t, os.WriteFile(file, []byte("slow name=slow rpm=2\none name=one concurrent=1\nfree\n"), 0o600))
	s := serve(t, "-keys", file)
	ask := func(key string) (int, http.Header, string) {
		return send(t, http.DefaultClient, http.MethodGet, s.url+"/v1/models", "", "Authorization", "Bearer "+key)
	}
	for i, want := range []int{200, 200, 429} {
		status, header, text := ask("slow")
		if status != want || header.Get("X-Ratelimit-Limit-Requests") != "2" || header.Get("X-Ratelimit-Remaining-Requests") != fmt.Sprint(max(0, 1-i)) {
			t.Error(i, status, header)
		}
		// Two requests per minute are one request per 30 seconds.
		if want == 429 && (header.Get("Retry-After") != "30" || !strings.Contains(text, "rate_limit_exceeded")) {
			t.Error(header, text)
		}
	}
	if status, _, _ := ask("free"); status != http.StatusOK {
		t.Error("the limit of a key is another key's")
	}
	one := (*s.keys.Load())[1]
	must(t, asError(one.limits.enter(http.Header{}, time.Now())))
	if status, header, _ := ask("one"); status != http.StatusTooManyRequests || header.Get("Retry-After") != "1" {
		t.Error(status, header)
	}
	one.leave()
	for range 3 { // each ends before the next
		if status, _, _ := ask("one"); status != http.StatusOK {
			t.Error(status)
		}
	}
	// Keys that are read again keep their counts, and an unreadable file changes nothing.
	must(t, os.WriteFile(file, []byte("slow name=slow rpm=2\nnew\n"), 0o600))
	must(t, s.readAgain())
	for key, want := range map[string]int{"slow": 429, "new": 200, "free": 401} {
		if status, _, _ := ask(key); status != want {
			t.Error(key, status)
		}
	}
	must(t, os.WriteFile(file, []byte("new rpm=0\n"), 0o600))
	if err := s.readAgain(); err == nil {
		t.Error("the limit is zero")
	}
	if status, _, _ := ask("slow"); status != http.StatusTooManyRequests {
		t.Error(status)
	}
}

// asError returns a nil error for a nil *apiError.
func asError(e *apiError) error {
	if e == nil {
		return nil
	}
	return e
}

func TestALimitIsFilledWithTime(t *testing.T) {
	k, err := keyOf([]string{"k", "rpm=60"}, "k")
	must(t, err)
	now := time.Unix(1000, 0)
	for i := range 61 {
		if e := k.limits.enter(http.Header{}, now); (e == nil) != (i < 60) {
			t.Fatal(i, e)
		}
	}
	for second := range 5 {
		now = now.Add(time.Second)
		if e := k.limits.enter(http.Header{}, now); e != nil {
			t.Error(second, e)
		}
		if e := k.limits.enter(http.Header{}, now); e == nil || e.retryAfter > time.Second {
			t.Error(second, e)
		}
	}
}

func TestFilesOfKeysAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		"# none\n": "no key", "a\na\n": "line 2", "a name=x\nb name=x": "line 2", "a rpm=x": `"rpm"`, "a concurrent=-1": `"concurrent"`,
		"a name=": "name", "a secret": "unknown word", "a admin=yes": "admin", "a name=key-2\nb": "line 2",
	} {
		if _, err := readKeys(written(t, "keys", text), nil); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") && want == "unknown word" {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPagesOfAllowedOrigins(t *testing.T) {
	s := serve(t, "-cors", "https://App.example/", "-cors", "http://localhost:*")
	all := serve(t, "-cors", "*")
	keyed := serve(t, "-cors", "https://app.example", "-keys", written(t, "keys", "key\n"))
	for _, c := range []struct {
		s      *service
		origin string
		want   string // Access-Control-Allow-Origin
		status int
	}{
		{s, "https://app.example", "https://app.example", 200}, {s, "HTTPS://APP.example", "HTTPS://APP.example", 200},
		{s, "http://localhost:3000", "http://localhost:3000", 200}, {s, "http://localhost", "http://localhost", 200},
		{s, "http://app.example", "", 403}, {s, "https://app.example.evil", "", 403}, {s, "http://localhost.evil:80", "", 403},
		{s, "http://localhost:3000.evil", "", 403}, {s, "null", "", 403},
		{all, "https://evil.example", "*", 200}, {all, "null", "*", 200},
		{keyed, "https://app.example", "https://app.example", 401}, {keyed, "https://other.example", "", 401},
	} {
		status, header, _ := send(t, http.DefaultClient, http.MethodGet, c.s.url+"/v1/models", "", "Origin", c.origin, "Sec-Fetch-Site", "cross-site")
		if status != c.status || header.Get("Access-Control-Allow-Origin") != c.want || header.Get("Vary") != "Origin" {
			t.Errorf("%s: %d %v", c.origin, status, header)
		}
		status, header, text := send(t, http.DefaultClient, http.MethodOptions, c.s.url+"/v1/chat/completions", "", "Origin", c.origin,
			"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,x-stainless-os")
		if (status == http.StatusNoContent) != (c.want != "") || header.Get("Access-Control-Allow-Origin") != c.want {
			t.Errorf("%s: %d %v %s", c.origin, status, header, text)
		}
		if status == http.StatusNoContent && (header.Get("Access-Control-Allow-Methods") != "POST" ||
			header.Get("Access-Control-Allow-Headers") != "authorization,x-stainless-os" || text != "") {
			t.Error(header)
		}
	}
	// Without -cors nothing is allowed, and no header says so.
	plain := serve(t)
	status, header, _ := send(t, http.DefaultClient, http.MethodOptions, plain.url+"/v1/models", "", "Origin", "https://app.example", "Access-Control-Request-Method", "GET")
	if status != http.StatusForbidden || header.Get("Access-Control-Allow-Origin") != "" {
		t.Error(status, header)
	}
	for _, origin := range []string{"app.example", "https://", "https://a/b", "https://a?b", "**", "https://*.example:*:*", ""} {
		if _, err := parse([]string{"-cors", origin, "-m", "a=b"}); err == nil {
			t.Error(origin)
		}
	}
}

// signed writes a certificate for 127.0.0.1 and its key.
func signed(t *testing.T, folder string, number int64) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	public, err := x509.CreateCertificate(rand.Reader, about, about, &secret.PublicKey, secret)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(folder, "cert"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: public}), 0o600))
	must(t, os.WriteFile(filepath.Join(folder, "key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
}

// running runs the service as the program does, until the end of the test.
func running(t *testing.T, flags ...string) (addresses []net.Addr) {
	t.Helper()
	o, err := parse(append([]string{"-threads", "2", "-context", "512", "-demand", "-m", "plain=" + chatModel(t, plainTemplate)}, flags...))
	must(t, err)
	accepts, err := network.Listen(o.socket, o.socketMode, o.address)
	must(t, err)
	for _, one := range accepts {
		addresses = append(addresses, one.Addr())
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- run(ctx, o, accepts...) }()
	t.Cleanup(func() {
		stop()
		must(t, <-ended)
	})
	return addresses
}

func TestTLS(t *testing.T) {
	folder := t.TempDir()
	signed(t, folder, 1)
	cert, key := filepath.Join(folder, "cert"), filepath.Join(folder, "key")
	address := running(t, "-a", "127.0.0.1:0", "-tls-cert", cert, "-tls-key", key)[0].String()
	// trusting is a client that has only this certificate.
	trusting := func() *http.Client {
		pool := x509.NewCertPool()
		text, err := os.ReadFile(cert)
		must(t, err)
		pool.AppendCertsFromPEM(text)
		return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}
	}
	client := trusting()
	ask := body("plain", "Once upon a time", `"temperature": 0, "max_tokens": 8`)
	until(t, "not ready", func() bool {
		status, _, _ := send(t, client, http.MethodGet, "https://"+address+"/ready", "")
		return status == http.StatusOK
	})
	for _, text := range []string{ask, streamed(ask)} {
		status, _, answer := send(t, client, http.MethodPost, "https://"+address+"/v1/chat/completions", text)
		if status != http.StatusOK || !strings.Contains(answer, "there") {
			t.Error(status, answer)
		}
	}
	// A half-closed client is answered, and http is distinguished from https.
	connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	must(t, err)
	defer connection.Close()
	_, err = fmt.Fprintf(connection, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(ask), ask)
	must(t, err)
	must(t, connection.CloseWrite())
	if answer, err := io.ReadAll(connection); err != nil || !bytes.Contains(answer, []byte("200 OK")) {
		t.Errorf("%s %v", answer, err)
	}
	if status, _, text := send(t, http.DefaultClient, http.MethodGet, "http://"+address+"/health", ""); status != http.StatusBadRequest || !strings.Contains(text, "https") {
		t.Error(status, text)
	}
	if _, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("old versions of TLS are spoken")
	}
	// SIGHUP reads a new certificate; an unreadable one leaves the old certificate in use.
	serial := func() string {
		connection, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		defer connection.Close()
		return connection.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	signed(t, folder, 2)
	raise(t, syscall.SIGHUP)
	until(t, "the old certificate is used", func() bool { return serial() == "2" })
	must(t, os.WriteFile(cert, nil, 0o600))
	raise(t, syscall.SIGHUP)
	time.Sleep(50 * time.Millisecond)
	if n := serial(); n != "2" {
		t.Error(n)
	}
	for _, flags := range [][]string{{"-tls-cert", cert}, {"-tls-key", key}} {
		if _, err := parse(flags); err == nil {
			t.Error(flags)
		}
	}
	o, err := parse([]string{"-m", "a=b", "-tls-cert", cert, "-tls-key", key})
	must(t, err)
	if _, err := newServer(o); err == nil || !strings.Contains(err.Error(), "-tls-cert") {
		t.Error(err)
	}
}

func TestAUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	// A socket at which nothing listens is replaced.
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	must(t, err)
	stale.SetUnlinkOnClose(false)
	stale.Close()
	before := realizar.Version()
	addresses := running(t, "-socket", path, "-socket-mode", "0620")
	if len(addresses) != 1 || addresses[0].String() != path {
		t.Error(addresses)
	}
	file, err := os.Lstat(path)
	must(t, err)
	if file.Mode().Perm() != 0o620 {
		t.Error(file.Mode())
	}
	client := &http.Client{Transport: &http.Transport{Dial: func(string, string) (net.Conn, error) { return net.Dial("unix", path) }}}
	status, _, text := send(t, client, http.MethodPost, "http://any/v1/chat/completions", body("plain", "Once upon a time", `"temperature": 0, "max_tokens": 8`))
	if status != http.StatusOK || !strings.Contains(text, "there") {
		t.Error(status, text)
	}
	if _, _, text := send(t, client, http.MethodGet, "http://any/version", ""); text != `{"version":"`+before+`"}` {
		t.Error(text)
	}
	// A socket at which a process listens, and a file that is not a socket, are not replaced.
	other := written(t, "file", "x")
	for _, path := range []string{path, other, filepath.Join(other, "below"), "/" + strings.Repeat("x", 200)} {
		if _, err := network.Listen(path, 0o600, ""); err == nil || !strings.Contains(err.Error(), "-socket") {
			t.Error(path, err)
		}
	}
	if text, err := os.ReadFile(other); err != nil || string(text) != "x" {
		t.Error(string(text), err)
	}
}

func TestASocketEndsWithTheService(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	made := func() net.Listener {
		all, err := network.Listen(path, 0o600, "")
		must(t, err)
		return all[0]
	}
	first := made()
	must(t, first.Close())
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Error(err)
	}
	// The socket of a service that has replaced this one stays.
	first = made()
	must(t, os.Remove(path))
	second := made()
	must(t, first.Close())
	if file, err := os.Lstat(path); err != nil || file.Mode().Type() != fs.ModeSocket {
		t.Error(err)
	}
	must(t, second.Close())
	all, err := os.ReadDir(filepath.Dir(path))
	if len(all) > 0 {
		t.Error(all, err)
	}
	for _, mode := range []string{"8", "1777", "-1", ""} {
		if _, err := parse([]string{"-socket", path, "-socket-mode", mode}); err == nil {
			t.Error(mode)
		}
	}
	both, err := parse([]string{"-socket", path, "-a", "127.0.0.1:0"})
	must(t, err)
	accepts, err := network.Listen(both.socket, both.socketMode, both.address)
	must(t, err)
	if len(accepts) != 2 || !slices.ContainsFunc(accepts, func(l net.Listener) bool { return l.Addr().Network() == "tcp" }) {
		t.Error(accepts)
	}
	for _, one := range accepts {
		one.Close()
	}
}
