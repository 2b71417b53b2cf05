package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"realizar.dev/go/cmd/serve/internal/network"
)

// lookOften makes the service check connections often, until the end of a test.
func lookOften(t *testing.T) {
	t.Helper()
	before := network.LookEvery
	network.LookEvery = 10 * time.Millisecond
	t.Cleanup(func() { network.LookEvery = before })
}

// raw sends the bytes of a request.
func (s *service) raw(t *testing.T, head, body string) *net.TCPConn {
	t.Helper()
	connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(t, err)
	t.Cleanup(func() { connection.Close() })
	_, err = fmt.Fprintf(connection, "%s\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", head, len(body), body)
	must(t, err)
	return connection.(*net.TCPConn)
}

// answerOf reads an answer to its end, and counts the interim responses before it.
func answerOf(t *testing.T, connection net.Conn) (status, interims int, text string) {
	t.Helper()
	lines := bufio.NewReader(connection)
	for {
		response, err := http.ReadResponse(lines, nil)
		must(t, err)
		if response.StatusCode == http.StatusContinue {
			interims++
			continue
		}
		all, err := io.ReadAll(response.Body)
		must(t, err)
		if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
			t.Errorf("%q %v", rest, err)
		}
		return response.StatusCode, interims, string(all)
	}
}

// A half-closed client gets its whole answer, whether it waits for a slot, for a token or for nothing.
func TestWhoEndsSendingIsAnswered(t *testing.T) {
	lookOften(t)
	s := serve(t, "-slots", "1")
	l := s.leased(t, "plain")
	for path, request := range asked {
		request = fmt.Sprintf(request, "Once upon a time")
		for _, request := range []string{request, streamed(request)} {
			for _, queued := range []bool{false, true} {
				leave := func() {}
				if queued {
					var err error
					leave, err = l.engine.enter(t.Context())
					must(t, err)
				}
				connection := s.raw(t, "POST "+path+" HTTP/1.1", request)
				must(t, connection.CloseWrite())
				if queued {
					queue := s.metrics.queue.WithLabelValues("plain")
					until(t, "nobody waits", func() bool { return testutil.ToFloat64(queue) == 1 })
					time.Sleep(10 * network.LookEvery)
					leave()
				}
				status, interims, text := answerOf(t, connection)
				if status != http.StatusOK || !strings.Contains(text, "length") && !strings.Contains(text, "max_") || strings.Contains(text, "error\":{") {
					t.Error(path, status, text)
				}
				if queued && interims == 0 && !strings.Contains(request, `"stream"`) {
					t.Error(path, "nothing was sent to see whether the client is there")
				}
			}
		}
	}
	// A further request on a connection that stays open is answered as before.
	connection := s.raw(t, "POST /v1/chat/completions HTTP/1.1", body("plain", "Hi", `"max_tokens": 1`))
	answers := bufio.NewReader(connection)
	for range 2 {
		response, err := http.ReadResponse(answers, nil)
		must(t, err)
		_, err = io.Copy(io.Discard, response.Body)
		must(t, err)
		if response.StatusCode != http.StatusOK {
			t.Error(response)
		}
		_, err = io.WriteString(connection, "GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
	}
}

// A client that closes its connection is noticed, whatever it waits for, although half-closed clients look the same at
// first.
func TestWhoClosesIsNoticed(t *testing.T) {
	lookOften(t)
	s := serve(t, "-slots", "1", "-context", "100000")
	l := s.leased(t, "plain")
	busy, queue := s.metrics.busy.WithLabelValues("plain"), s.metrics.queue.WithLabelValues("plain")
	gone := 0.0
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/responses", "/v1/completions", "/v1/embeddings"} {
		long := strings.NewReplacer(`"max_tokens": 4`, `"max_tokens": 90000`, `"max_output_tokens": 4`, `"max_output_tokens": 90000`).Replace(fmt.Sprintf(asked[path], "Once"))
		requests := []string{long, streamed(long)}
		if path == "/v1/embeddings" {
			long = `{"model": "plain", "input": "x", "pooling": "mean"}`
			requests = []string{long}
		}
		for _, request := range requests {
			for _, version := range []string{"1.1", "1.0"} {
				if version == "1.0" && path != "/v1/messages" {
					continue
				}
				for _, queued := range []bool{true, false} {
					if !queued && path == "/v1/embeddings" {
						continue
					}
					leave := func() {}
					if queued {
						var err error
						leave, err = l.engine.enter(t.Context())
						must(t, err)
					}
					connection := s.raw(t, "POST "+path+" HTTP/"+version, request)
					if queued {
						until(t, "nobody waits", func() bool { return testutil.ToFloat64(queue) == 1 })
						if request != long {
							time.Sleep(2 * signDelay) // so that a stream begins
						}
					} else {
						until(t, "no reply has begun", func() bool { return testutil.ToFloat64(busy) == 1 })
					}
					must(t, connection.Close())
					gone++
					counted := s.metrics.requests.WithLabelValues
					until(t, fmt.Sprint("who has gone is not noticed: ", path, version, queued), func() bool {
						sum := 0.0
						for path := range asked {
							sum += testutil.ToFloat64(counted(path, "499"))
						}
						return sum+testutil.ToFloat64(counted("/v1/embeddings", "499")) == gone
					})
					if n := testutil.ToFloat64(queue); n != 0 {
						t.Error(n)
					}
					leave()
					until(t, "the slot stays taken", func() bool { return testutil.ToFloat64(busy) == 0 })
				}
			}
		}
	}
}

// Whether a half-closed HTTP/1.0 client is still connected cannot be known before its answer begins.
func TestInterimAnswersAreForClientsThatTakeThem(t *testing.T) {
	lookOften(t)
	s := serve(t, "-slots", "1")
	leave, err := s.leased(t, "plain").engine.enter(t.Context())
	must(t, err)
	defer leave()
	connection := s.raw(t, "POST /v1/chat/completions HTTP/1.0", body("plain", "Hi", ``))
	must(t, connection.CloseWrite())
	if text, err := io.ReadAll(connection); err != nil || len(text) > 0 {
		t.Errorf("%q %v", text, err)
	}
}

// A read deadline ends a read of a half-closed connection.
func TestAnEndThatIsHeldBackHasADeadline(t *testing.T) {
	lookOften(t)
	accepts, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer accepts.Close()
	for _, what := range []string{"deadline", "past", "close"} {
		client, err := net.Dial("tcp", accepts.Addr().String())
		must(t, err)
		c, err := network.Watch(accepts).Accept()
		must(t, err)
		must(t, client.(*net.TCPConn).CloseWrite())
		want := os.ErrDeadlineExceeded
		var other sync.WaitGroup
		switch what {
		case "deadline":
			must(t, c.SetReadDeadline(time.Now().Add(3*network.LookEvery)))
		case "past":
			other.Add(1)
			go func() {
				defer other.Done()
				<-c.(*network.Connection).HalfClosed()
				if err := c.SetReadDeadline(time.Unix(1, 0)); err != nil {
					t.Error(err)
				}
			}()
		case "close":
			want = net.ErrClosed
			other.Add(1)
			go func() {
				defer other.Done()
				<-c.(*network.Connection).HalfClosed()
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			}()
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, want) {
			t.Error(what, err)
		}
		other.Wait() // before the end of the test closes the connection
		// A read that is not net/http's read-ahead ends at once.
		if what == "past" {
			must(t, c.SetReadDeadline(time.Time{}))
			if _, err := c.Read(make([]byte, 2)); err != io.EOF {
				t.Error(err)
			}
		}
		client.Close()
		c.Close()
	}
}
