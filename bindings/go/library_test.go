// The tests of what lies between the package and the library, and of calls that meet. They run with cgo and without.
package realizar

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unsafe"
)

// header is what is read of bindings/header.json.
type header struct {
	Groups []struct {
		Items []struct {
			Kind, Name string
			Value      json.RawMessage
			Fields     []struct{ Name, Type, Array string }
		}
	}
}

// The layouts are computed by the rules of C from the types that header.json names.
func TestStructsAreLaidOutAsInC(t *testing.T) {
	file, err := os.ReadFile("../header.json")
	must(t, err)
	var all header
	must(t, json.Unmarshal(file, &all))
	sizes, aligns := map[string]uintptr{}, map[string]uintptr{}
	for name, size := range map[string]uintptr{"char": 1, "uint8_t": 1, "int32_t": 4, "uint32_t": 4, "float": 4, "rz_status": 4, "uint64_t": 8, "double": 8, "size_t": unsafe.Sizeof(uintptr(0))} {
		sizes[name], aligns[name] = size, size
	}
	mine := map[string]reflect.Type{}
	for _, value := range structs {
		mine[reflect.TypeOf(value).Name()] = reflect.TypeOf(value)
	}
	seen := 0
	for _, group := range all.Groups {
		for _, item := range group.Items {
			if item.Kind != "struct" {
				continue
			}
			end, most := uintptr(0), uintptr(1)
			for i, field := range item.Fields {
				kind := strings.TrimPrefix(field.Type, "const ")
				size, align := sizes[kind], aligns[kind]
				if strings.Contains(kind, "*") || strings.HasSuffix(kind, "_callback") {
					size, align = unsafe.Sizeof(uintptr(0)), unsafe.Sizeof(uintptr(0))
				}
				if size == 0 {
					t.Fatalf("%s.%s is of type %s", item.Name, field.Name, field.Type)
				}
				if field.Array != "" {
					n, err := strconv.Atoi(field.Array)
					must(t, err)
					size *= uintptr(n)
				}
				offset := (end + align - 1) / align * align
				end, most = offset+size, max(most, align)
				if goStruct := mine[item.Name]; goStruct != nil {
					if got := goStruct.Field(i); got.Name != field.Name || got.Offset != offset || got.Type.Size() != size {
						t.Errorf("%s.%s at %d with %d bytes is %s at %d with %d", item.Name, field.Name, offset, size, got.Name, got.Offset, got.Type.Size())
					}
				}
			}
			sizes[item.Name], aligns[item.Name] = (end+most-1)/most*most, most
			if goStruct := mine[item.Name]; goStruct != nil {
				seen++
				if goStruct.Size() != sizes[item.Name] || goStruct.NumField() != len(item.Fields) {
					t.Errorf("%s has %d bytes: %d", item.Name, sizes[item.Name], goStruct.Size())
				}
			}
		}
	}
	if seen != len(structs) {
		t.Errorf("%d of %d structs", seen, len(structs))
	}
}

func TestAStructOfAnotherLayoutIsNamed(t *testing.T) {
	must(t, Open(""))
	defer func(all []any) { structs = all }(structs)
	type rz_phase_metrics struct{ count, sum_ns uint32 } //lint:ignore U1000 for the layout
	structs = []any{rz_phase_metrics{}}
	if err := checkLayouts("the library x", &lib); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "rz_phase_metrics.") || !strings.Contains(err.Error(), "the library x") {
		t.Error(err)
	}
	type rz_none struct{ field uint32 } //lint:ignore U1000 for the layout
	structs = []any{rz_none{}}
	if err := checkLayouts("the library x", &lib); !errors.Is(err, ErrVersion) || !strings.Contains(err.Error(), "lacks rz_none.field") {
		t.Error(err)
	}
}

// busy tells whether a call of an object has begun, which close would end.
func busy[T any](o *owned[T]) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.users > 1 && len(o.running) > 0
}

// Each of the calls would take many seconds.
func TestCloseEndsWhatRuns(t *testing.T) {
	long := make([]uint32, 8000)
	for i := range long {
		long[i] = 403
	}
	of := func(model *Model) *Session { return newSession(t, model, 1<<14) }
	model := load(t, storyModel)
	embedding, err := Load(t.Context(), storyModel, &LoadOptions{Threads: 1})
	must(t, err)
	prefilled, scored := of(model), of(model)
	job, err := of(model).NewJob(t.Context(), long, nil)
	must(t, err)
	chat := load(t, chatModel(t, plainTemplate))
	options := ConversationOptions{Cache: SessionOptions{Capacity: 1 << 14}}
	said, read := newConversation(t, chat, options), newConversation(t, chat, options)
	text := strings.Repeat("a b c ", 2000)
	must(t, read.Add("user", text))
	for name, c := range map[string]struct {
		call  func() error
		begun func() bool
		stop  func()
	}{
		"prefill": {func() error { return prefilled.Prefill(t.Context(), long) }, func() bool { return busy(prefilled.cache) }, func() { prefilled.Close() }},
		"score":   {func() error { _, err := scored.Score(t.Context(), long); return err }, func() bool { return busy(scored.cache) }, func() { scored.Close() }},
		"embed": {func() error {
			_, err := embedding.EmbedTokens(t.Context(), slices.Repeat([][]uint32{long[:500]}, 1000), &EmbedOptions{Pooling: PoolingMean})
			return err
		}, func() bool { return busy(embedding.model) }, func() { embedding.Close() }},
		"job": {func() (err error) {
			for more := true; more && err == nil; {
				more, err = job.Step(NoLimit)
			}
			return err
		}, func() bool { return busy(job.job) }, func() { job.Close() }},
		"say": {func() (last error) {
			for _, err := range said.Say(t.Context(), text, nil) {
				last = err
			}
			return last
		}, func() bool { return busy(said.conversation) }, func() { said.Close() }},
		"read": {func() error { return read.Read(t.Context(), nil) }, func() bool { return busy(read.conversation) }, func() { read.Close() }},
	} {
		t.Run(name, func(t *testing.T) {
			end := make(chan error, 1)
			go func() { end <- c.call() }()
			for !c.begun() && len(end) == 0 {
				runtime.Gosched()
			}
			c.stop()
			if err := <-end; !errors.Is(err, ErrClosed) {
				t.Error(err)
			}
		})
	}
}

func TestCloseEndsASaving(t *testing.T) {
	session := newSession(t, load(t, storyModel), 512)
	must(t, session.Prefill(t.Context(), slices.Repeat([]uint32{403}, 400)))
	closing := moved(func(bytes []byte) (int, error) {
		session.Close()
		return len(bytes), nil
	})
	if err := session.Save(closing); !errors.Is(err, ErrCancelled) || !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// Calls at once end well or with ErrBusy. The detector of races looks on.
func TestCallsAtOnce(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	session := newSession(t, model, 512)
	must(t, session.Prefill(t.Context(), []uint32{1, 403}))
	sampler, err := NewSampler(Sampling{Temperature: 1})
	must(t, err)
	stream, err := model.NewTextStream()
	must(t, err)
	parser, err := model.NewChatParser(&Transcript{Messages: []any{Message{"user", prompt}}})
	must(t, err)
	job, err := newSession(t, model, 512).NewJob(t.Context(), []uint32{1, 403}, nil)
	must(t, err)
	talk := newConversation(t, model, ConversationOptions{})
	store, err := model.NewStore(&StoreOptions{MinTokens: 1})
	must(t, err)
	calls := []func() error{
		func() error { _, err := session.Decode(403, sampler); return err },
		func() error { _, err := session.Sample(sampler); return err },
		func() error { return session.Truncate(2) },
		func() error { return session.Prefill(t.Context(), []uint32{403}) },
		func() error { return store.Put(session) },
		func() error { _, err := stream.Push(403); return err },
		func() error { return stream.Follow([]uint32{403}) },
		func() error { _, err := parser.Push(403); return err },
		func() error { _, err := job.Step(0); return err },
		func() error { _, err := job.Text(); return err },
		func() error { return talk.Add("user", "x") },
		func() error { return talk.Rewind(0) },
		func() error { _, err := talk.Info(); return err },
	}
	var all sync.WaitGroup
	for i := range 3 * len(calls) {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 20 {
				// A session that was cut has no logits, and the parser of another call may have ended.
				if err := calls[i%len(calls)](); err != nil && !errors.Is(err, ErrBusy) && !errors.Is(err, ErrNotReady) {
					t.Error(fmt.Sprint(i%len(calls)), err)
				}
			}
		}()
	}
	all.Wait()
	parser.parser.busy.Lock()
	if _, err := parser.End(); !errors.Is(err, ErrBusy) {
		t.Error(err)
	}
	parser.parser.busy.Unlock()
}

// refused tries numbers that do not fit in each int of some options, of which the error has to name the field.
func refused[T any](t *testing.T, call func(options T) error) {
	t.Helper()
	var options T
	kind := reflect.TypeOf(options)
	for i := range kind.NumField() {
		for _, n := range []int64{-2, 1 << 32, 1<<32 + 1} {
			options := options
			field := reflect.ValueOf(&options).Elem().Field(i)
			if field.Kind() != reflect.Int || kind.Field(i).Type.Name() != "int" {
				continue
			}
			field.SetInt(n)
			want := fmt.Sprintf("realizar: %s is %d; it must be a whole number from 0 to 4294967295", kind.Field(i).Name, n)
			if err := call(options); !errors.Is(err, ErrInvalidArgument) || err.Error() != want {
				t.Errorf("%s.%s of %d: %v", kind.Name(), kind.Field(i).Name, n, err)
			}
		}
	}
}

func TestEveryOptionThatDoesNotFitIsNamed(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	session, talk := newSession(t, model, 16), newConversation(t, model, ConversationOptions{})
	refused(t, func(o RuntimeOptions) error { _, err := NewRuntime(&o); return err })
	refused(t, func(o LoadOptions) error { _, err := Load(t.Context(), storyModel, &o); return err })
	refused(t, func(o Placement) error {
		_, err := Load(t.Context(), storyModel, &LoadOptions{Placements: []Placement{o}})
		return err
	})
	refused(t, func(o SessionOptions) error { _, err := model.NewSession(&o); return err })
	refused(t, func(o SessionOptions) error {
		_, err := model.NewConversation(&ConversationOptions{Cache: o})
		return err
	})
	refused(t, func(o StoreOptions) error { _, err := model.NewStore(&o); return err })
	refused(t, func(o Sampling) error { _, err := NewSampler(o); return err })
	refused(t, func(o Sampling) error { return talk.Begin(t.Context(), &ReplyOptions{Sampling: &o}) })
	refused(t, func(o ReplyOptions) error { return talk.Begin(t.Context(), &o) })
	refused(t, func(o JobOptions) error { _, err := session.NewJob(t.Context(), []uint32{1}, &o); return err })
	refused(t, func(o EncoderOptions) error { _, err := model.LoadEncoder(t.Context(), storyModel, &o); return err })
	refused(t, func(o MediaOptions) error { _, err := o.params(); return err })
	for _, n := range []int{-1, 1 << 32} {
		for name, err := range map[string]error{
			"n": talk.Rewind(n), "capacity": talk.SetCapacity(n), "keep": session.Shift(n, 0),
			"first": func() error { _, err := talk.Messages(n); return err }(), "number": func() error { _, err := talk.Media(n); return err }(),
		} {
			if !errors.Is(err, ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "realizar: "+name+" is ") {
				t.Errorf("%s of %d: %v", name, n, err)
			}
		}
	}
	if _, err := LoadFrom(t.Context(), []Source{{Size: -1, Reader: strings.NewReader("")}}, nil); !errors.Is(err, ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "realizar: Size is -1; ") {
		t.Error(err)
	}
}
