// Serve answers requests of the APIs of OpenAI and Anthropic with local models:
//
//	serve -m NAME=file.gguf [-m ...] [-lora NAME=MODEL,file.gguf ...] [-a 127.0.0.1:8080] [-keys FILE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"realizar.dev/go"
	"realizar.dev/go/cmd/serve/internal/network"
)

// options are the options of the command line.
type options struct {
	models, adapters, encoders, hosts    repeated
	aliases, preloads                    repeated
	folder                               string   // folder of models
	origins                              []string // of -cors
	address, keys, store                 string
	tlsCert, tlsKey, socket              string
	logForm, logLevel, probe             string
	logContent, version                  bool
	socketMode                           fs.FileMode
	threads, slots, queue, context, most int
	demand                               bool
	memory                               uint64
	body                                 int64
	deadline, idle, drain                time.Duration
	started                              time.Time
}

// repeated is a flag that may be given several times.
type repeated []string

func (r *repeated) String() string { return strings.Join(*r, " ") }

func (r *repeated) Set(text string) error {
	*r = append(*r, text)
	return nil
}

// parse reads the command line.
func parse(arguments []string) (*options, error) {
	o := &options{started: time.Now(), socketMode: 0o600}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.Var(&o.models, "m", "a model as `NAME=FILE`: a .gguf file, a folder, or hf:owner/name[:quantization] of the Hugging Face Hub; may be repeated")
	flags.Var(&o.adapters, "lora", "a LoRA adapter as `NAME=MODEL,FILE[,SCALE]`: requests for NAME use the model MODEL with the adapter; may be repeated")
	flags.Var(&o.encoders, "mmproj", "vision and audio encoders of a model as `NAME[=FILE]`: a .gguf file, a folder or hf:owner/name; without FILE, the encoders in the folder or repository of the model; may be repeated")
	flags.StringVar(&o.folder, "models", "", "`folder` whose GGUF files and folders are models by their names, each loaded at its first request; SIGHUP reads the folder again")
	flags.Var(&o.preloads, "preload", "`name` of a model of -models that is loaded at the start; may be repeated")
	flags.Var(&o.aliases, "alias", "another name of a model as `NAME=MODEL`; may be repeated")
	flags.Var(&o.hosts, "host", "host `name` at which browsers may use a service without keys, in addition to its addresses and localhost; may be repeated")
	flags.StringVar(&o.address, "a", "127.0.0.1:8080", "`address` to listen on; with -socket only if it is given")
	flags.StringVar(&o.socket, "socket", "", "unix socket `file` to listen on")
	flags.Func("socket-mode", "`mode` of the unix socket (0600)", func(text string) error {
		mode, err := strconv.ParseUint(text, 8, 32)
		if err != nil || mode > 0o777 {
			return errors.New("it must be an octal number up to 777")
		}
		o.socketMode = fs.FileMode(mode)
		return nil
	})
	flags.StringVar(&o.tlsCert, "tls-cert", "", "`file` with the TLS certificate and its chain (PEM); SIGHUP reads it again")
	flags.StringVar(&o.tlsKey, "tls-key", "", "`file` with the key of the certificate (PEM)")
	flags.Func("cors", "`origin` whose pages may use the service, such as https://app.example or http://localhost:*; *: all; may be repeated", func(text string) error {
		origin, err := checkOrigin(text)
		o.origins = append(o.origins, origin)
		return err
	})
	flags.StringVar(&o.logForm, "log", "text", "`form` of the log: text or json")
	flags.StringVar(&o.logLevel, "log-level", "info", "least `level` of the log: debug, info, warn or error; info has a line per request")
	flags.BoolVar(&o.logContent, "log-content", false, "log the beginnings of requests and responses (64 KiB), with the texts of clients")
	flags.StringVar(&o.probe, "probe", "", "ask the `URL` of a running service, such as http://127.0.0.1:8080/live, and exit with 0 if it answers 200")
	flags.BoolVar(&o.version, "version", false, "print the version")
	flags.StringVar(&o.store, "store", "", "`folder` for the prefix cache and packed weights, which are used again after a restart")
	flags.StringVar(&o.keys, "keys", "", "`file` with a line "+keyForm+" per API key; SIGHUP reads it again; without it, requests need no key")
	flags.IntVar(&o.threads, "threads", 0, "number of compute threads; 0: one per processor, or one per fast core if cores differ")
	flags.IntVar(&o.slots, "slots", 8, "maximum number of concurrent replies per model")
	flags.IntVar(&o.queue, "queue", 64, "maximum number of requests per model that wait for a slot")
	flags.IntVar(&o.context, "context", 0, "maximum number of tokens of a prompt and its reply; 0: the context length of the model, at most 8192")
	flags.IntVar(&o.most, "n", 16, "maximum number of choices per request")
	flags.BoolVar(&o.demand, "demand", false, "load each model at its first request")
	flags.DurationVar(&o.idle, "idle", 0, "time without requests after which a model is unloaded; 0: never")
	flags.Uint64Var(&o.memory, "memory", 0, "limit in `bytes` of host memory for models and KV caches; 0: the memory that is free at the start, within the limit of a container")
	flags.Int64Var(&o.body, "body", 8<<20, "maximum `bytes` of a request body, including base64 images, also after decompression")
	flags.DurationVar(&o.deadline, "deadline", 10*time.Minute, "maximum time per request, including the wait for a slot")
	flags.DurationVar(&o.drain, "drain", 30*time.Second, "time that running requests get to finish after SIGTERM")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("the argument %q is unexpected; all arguments must be flags", flags.Arg(0))
	}
	if o.slots < 1 || o.slots > 1024 || o.queue < 0 || o.context < 0 || o.threads < 0 || o.most < 1 || o.body < 1 || o.deadline <= 0 {
		return nil, errors.New("-slots must be from 1 to 1024, -queue, -context and -threads at least 0, -n and -body at least 1, and -deadline more than 0")
	}
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return nil, errors.New("-tls-cert and -tls-key must be given together")
	}
	hasAddress := false
	flags.Visit(func(f *flag.Flag) { hasAddress = hasAddress || f.Name == "a" })
	if o.socket != "" && !hasAddress {
		o.address = ""
	}
	return o, nil
}

// maxBodies returns the maximum number of bytes of all request bodies that can run or wait, for a number of models.
func (o *options) maxBodies(models int) int64 {
	requests := int64(o.slots+o.queue) * int64(max(1, models))
	if o.body > math.MaxInt64/requests {
		return math.MaxInt64
	}
	return o.body * requests
}

// packed returns the path of a model's packed weights; "" if they are not stored.
func (o *options) packed(name string) string {
	if o.store == "" {
		return ""
	}
	return filepath.Join(o.store, url.PathEscape(name)+".packed")
}

func main() {
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(2)
	}
	if o.version {
		fmt.Println("serve", realizar.Version())
		return
	}
	if o.probe != "" {
		if err := probe(o.probe); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
		return
	}
	if err := setLog(o.logForm, o.logLevel); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	accepts, err := network.Listen(o.socket, o.socketMode, o.address)
	if err == nil {
		err = run(ctx, o, accepts...)
	}
	if err != nil {
		alarm("serve: %v", err)
		os.Exit(1)
	}
}

// run serves until the context ends; requests that are still running then have some time to finish.
func run(ctx context.Context, o *options, accepts ...net.Listener) error {
	for _, one := range accepts {
		defer one.Close()
	}
	s, err := newServer(o)
	if err != nil {
		return err
	}
	defer s.models.close()
	// The end of this context ends all requests and their replies.
	requests, end := context.WithCancelCause(context.Background())
	defer end(nil)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, WriteTimeout: network.WriteTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: network.WithConnection, ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelInfo),
	}
	failed := make(chan error, len(accepts)+1)
	for _, one := range accepts {
		scheme := "http"
		if one.Addr().Network() == "unix" {
			scheme = "unix"
		} else if s.tls != nil {
			scheme, one = "https", s.tls.Secure(one)
		}
		go func() { failed <- server.Serve(network.Watch(one)) }()
		inform("listening at %s://%s", scheme, one.Addr())
		s.warnIfOpen(one.Addr())
	}
	defer s.readAgainOnHangup()()
	go func() {
		if err := s.models.loadFirst(ctx); err != nil {
			failed <- err
			return
		}
		if s.state.CompareAndSwap(loadingModels, ready) {
			notify("READY=1")
		}
		for o.idle > 0 && ctx.Err() == nil {
			time.Sleep(min(o.idle/4+1, 10*time.Second))
			s.models.unloadIdle(o.idle)
		}
	}()
	select {
	case err = <-failed:
		err = errors.Join(err, server.Close())
	case <-ctx.Done():
		inform("stopping; a second signal aborts running requests")
		s.state.Store(stopping)
		notify("STOPPING=1")
		again, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer forget()
		drained, cancel := context.WithTimeout(again, o.drain)
		defer cancel()
		if server.Shutdown(drained) != nil {
			end(&apiError{status: http.StatusServiceUnavailable, code: "stopping", message: "the service is stopping"})
			closed, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = server.Shutdown(closed)
			_ = server.Close()
		}
	}
	return err
}
