// Serve answers requests of the APIs of OpenAI and Anthropic with local models:
//
//	serve -m NAME=file.gguf [-m ...] [-lora NAME=MODEL,file.gguf ...] [-a 127.0.0.1:8080] [-keys FILE]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are those of the command line.
type options struct {
	models, adapters, encoders, hosts    repeated
	address, keys, store                 string
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
	o := &options{started: time.Now()}
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	flags.Var(&o.models, "m", "`NAME=FILE` of a model, a .gguf file, a folder, or hf:owner/name of the Hugging Face Hub; may be repeated")
	flags.Var(&o.adapters, "lora", "`NAME=MODEL,FILE[,FACTOR]` of a low-rank adapter on one of the models; may be repeated")
	flags.Var(&o.encoders, "mmproj", "`NAME[=FILE]` of the encoders of pictures and sound of one of the models, a .gguf file or a folder, of none its own folder or repository; may be repeated")
	flags.Var(&o.hosts, "host", "`name` of this service in a browser, beside its addresses and localhost, where there are no keys; may be repeated")
	flags.StringVar(&o.address, "a", "127.0.0.1:8080", "`address` to listen at")
	flags.StringVar(&o.store, "store", "", "`folder` for what is needed again: prefixes of prompts, and packed weights")
	flags.StringVar(&o.keys, "keys", "", "`file` with a key a line; none: requests need no key")
	flags.IntVar(&o.threads, "threads", 0, "threads that compute; 0: one per processor, or per fast core if cores differ")
	flags.IntVar(&o.slots, "slots", 8, "replies that a model makes at once")
	flags.IntVar(&o.queue, "queue", 64, "requests that wait for a slot of a model at most")
	flags.IntVar(&o.context, "context", 0, "tokens of a prompt and its reply at most; 0: as the model was trained, at most 8192")
	flags.IntVar(&o.most, "n", 16, "choices of a request at most")
	flags.BoolVar(&o.demand, "demand", false, "load models when they are first asked for")
	flags.DurationVar(&o.idle, "idle", 0, "time after which an unused model is unloaded; 0: never")
	flags.Uint64Var(&o.memory, "memory", 0, "`bytes` of host memory for models; 0: what is free at the start, of a container within its bound")
	flags.Int64Var(&o.body, "body", 8<<20, "`bytes` of a request at most, its pictures in base64 included")
	flags.DurationVar(&o.deadline, "deadline", 10*time.Minute, "time of a request at most, waiting included")
	flags.DurationVar(&o.drain, "drain", 30*time.Second, "time that running requests have after SIGTERM")
	if err := flags.Parse(arguments); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if o.slots < 1 || o.slots > 1024 || o.queue < 0 || o.context < 0 || o.threads < 0 || o.most < 1 || o.body < 1 || o.deadline <= 0 {
		return nil, errors.New("a number is too small, or there are more than 1024 slots")
	}
	return o, nil
}

// maxBodies is how many bytes the bodies of all requests have at most that can run or wait.
func (o *options) maxBodies() int64 {
	requests := int64(o.slots+o.queue) * int64(len(o.models))
	if o.body > math.MaxInt64/requests {
		return math.MaxInt64
	}
	return o.body * requests
}

// packed is the file of packed weights of a model, "" where none is kept.
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
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	accepts, err := net.Listen("tcp", o.address)
	if err == nil {
		err = run(ctx, o, accepts)
	}
	if err != nil {
		log.Fatal("serve: ", err)
	}
}

// run serves until the context ends; what runs then has a while to finish.
func run(ctx context.Context, o *options, accepts net.Listener) error {
	defer accepts.Close()
	s, err := newServer(o)
	if err != nil {
		return err
	}
	// The requests end with this context, and with it their replies.
	requests, end := context.WithCancelCause(context.Background())
	defer end(nil)
	server := &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: readTimeout, WriteTimeout: writeTimeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return requests },
		ConnContext: withConnection,
	}
	failed := make(chan error, 2)
	go func() { failed <- server.Serve(listener{accepts}) }()
	log.Printf("listening at http://%s", accepts.Addr())
	s.warnIfOpen(accepts.Addr())
	go func() {
		if !o.demand {
			if err := s.models.loadAll(ctx); err != nil {
				failed <- err
				return
			}
		}
		s.state.CompareAndSwap(loadingModels, ready)
		for o.idle > 0 && ctx.Err() == nil {
			time.Sleep(min(o.idle/4+1, 10*time.Second))
			s.models.unloadIdle(o.idle)
		}
	}()
	select {
	case err = <-failed:
		err = errors.Join(err, server.Close())
	case <-ctx.Done():
		log.Print("stopping; a second signal ends the requests that run")
		s.state.Store(stopping)
		again, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer forget()
		drained, cancel := context.WithTimeout(again, o.drain)
		defer cancel()
		if server.Shutdown(drained) != nil {
			end(&apiError{status: http.StatusServiceUnavailable, code: "stopping", message: "the service is being stopped"})
			closed, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			_ = server.Shutdown(closed)
			_ = server.Close()
		}
	}
	s.models.close()
	return err
}
