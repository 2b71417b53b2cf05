// The tests of arguments that are nil, and of structs that no function has made.
package realizar

import (
	"bytes"
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"iter"
	"reflect"
	"strings"
	"testing"
)

// errorOf calls a function with zero arguments, and gives its error; has tells whether it has one. A loop is run.
func errorOf(function reflect.Value) (err error, has bool) {
	var arguments []reflect.Value
	of := function.Type()
	for i := range of.NumIn() - btoi(of.IsVariadic()) {
		arguments = append(arguments, reflect.Zero(of.In(i)))
	}
	for _, result := range function.Call(arguments) {
		switch value := result.Interface().(type) {
		case error:
			return value, true
		case iter.Seq2[string, error]:
			for _, err = range value {
				return err, true
			}
		case iter.Seq2[Part, error]:
			for _, err = range value {
				return err, true
			}
		}
		has = has || result.Type() == reflect.TypeFor[error]()
	}
	return nil, has
}

func btoi(is bool) int {
	if is {
		return 1
	}
	return 0
}

// handles has one object of each type that stands for something of the library.
func handles(t *testing.T) []any {
	model := load(t, chatModel(t, plainTemplate))
	runtime, err := NewRuntime(&RuntimeOptions{Threads: 1})
	must(t, err)
	t.Cleanup(func() { runtime.Close() })
	session := newSession(t, model, 64)
	job, err := newSession(t, model, 64).NewJob(t.Context(), []uint32{1, 403}, nil)
	must(t, err)
	store, err := model.NewStore(nil)
	must(t, err)
	sampler, err := NewSampler(Sampling{})
	must(t, err)
	grammar, err := model.NewGrammar(GrammarJSON, "", 0)
	must(t, err)
	adapter, err := model.LoadAdapter("../../tests/data/story-adapter.gguf")
	must(t, err)
	stream, err := model.NewTextStream()
	must(t, err)
	parser, err := model.NewChatParser(&Transcript{Messages: []any{Message{"user", "x"}}})
	must(t, err)
	media, err := model.MediaFromRows(Image, make([]float32, 64), 64, 0, 0)
	must(t, err)
	prompt, err := model.NewPrompt([]PromptPart{{Tokens: []uint32{1, 403}}}, false)
	must(t, err)
	encoder := &Encoder{own((*rz_encoder)(nil), func(*rz_encoder) {})} // the tiny model has none
	return []any{model, runtime, session, newConversation(t, model, ConversationOptions{}), job, store, sampler, grammar, adapter, stream, parser, media, prompt, encoder}
}

func TestNilAndZeroReceiversAreNamed(t *testing.T) {
	for _, live := range handles(t) {
		kind := reflect.TypeOf(live)
		for _, receiver := range []reflect.Value{reflect.Zero(kind), reflect.New(kind.Elem())} {
			for i := range kind.NumMethod() {
				err, has := errorOf(receiver.Method(i))
				switch kind.Method(i).Name {
				case "LoadEncoderFrom", "MediaFromRows", "EncodePixels":
					has = false // which refuse another argument first
				}
				if has && (!errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), "is nil or zero; it must be set")) {
					t.Errorf("%v.%s: %v", kind, kind.Method(i).Name, err)
				}
			}
		}
	}
}

func TestANilContextIsNamed(t *testing.T) {
	for _, live := range handles(t) {
		kind := reflect.TypeOf(live)
		for i := range kind.NumMethod() {
			method := reflect.ValueOf(live).Method(i)
			if method.Type().NumIn() == 0 || method.Type().In(0) != reflect.TypeFor[context.Context]() {
				continue
			}
			want := "ctx is nil or zero"
			switch kind.Method(i).Name {
			case "EncodePixels", "LoadEncoderFrom", "PrefillPrompt":
				want = "" // which refuse another argument first
			}
			if err, _ := errorOf(method); !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v.%s: %v", kind, kind.Method(i).Name, err)
			}
		}
	}
}

// functions are all of the package that are no methods.
var functionsByName = map[string]any{
	"Open": Open, "Version": Version, "Devices": Devices, "Load": Load, "LoadFrom": LoadFrom, "Fetch": Fetch, "PlanLoad": PlanLoad,
	"PlanLoadFrom": PlanLoadFrom, "NewRuntime": NewRuntime, "NewSampler": NewSampler, "DecodeBatch": DecodeBatch, "StepJobs": StepJobs,
	"StepConversations": StepConversations, "PixelsOf": PixelsOf,
}

func TestFunctionsTakeZeroArguments(t *testing.T) {
	for name, function := range functionsByName {
		err, _ := errorOf(reflect.ValueOf(function))
		if isLoad := strings.HasPrefix(name, "Load") || strings.HasPrefix(name, "PlanLoad") || name == "Fetch"; isLoad != errors.Is(err, ErrInvalidArgument) {
			t.Error(name, err)
		}
	}
	packages, err := parser.ParseDir(token.NewFileSet(), ".", func(file fs.FileInfo) bool { return !strings.HasSuffix(file.Name(), "_test.go") }, 0)
	must(t, err)
	for _, file := range packages["realizar"].Files {
		for _, each := range file.Decls {
			function, is := each.(*ast.FuncDecl)
			if is && function.Recv == nil && function.Name.IsExported() && functionsByName[function.Name.Name] == nil {
				t.Error("this table lacks", function.Name)
			}
		}
	}
}

func TestNilArgumentsAreNamed(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	session, talk := newSession(t, model, 64), newConversation(t, model, ConversationOptions{})
	must(t, talk.Add("user", "x"))
	store, err := model.NewStore(nil)
	must(t, err)
	defer store.Close()
	ctx := t.Context()
	second := func(_ any, err error) error { return err }
	for want, err := range map[string]error{
		"conversations[1]": second(StepConversations([]*Conversation{talk, nil}, 0)),
		"conversations[0]": second(StepConversations([]*Conversation{{}}, 0)),
		"jobs[0]":          second(StepJobs([]*Job{nil}, 0)),
		"sessions[1]":      second(DecodeBatch([]*Session{session, nil}, []uint32{1, 1}, nil)),
		"samplers[0]":      second(DecodeBatch([]*Session{session}, []uint32{1}, []*Sampler{{}})),
		"prompts[0]":       second(model.EmbedPrompts(ctx, []*Prompt{nil}, nil)),
		"media[0]":         second(model.NewChatPrompt(nil, nil)),
		"media[1]":         talk.AddMedia([]*Media{{media: own[*rz_media](nil, func(*rz_media) {})}, {}}),
		"parts[1].Media":   second(model.NewPrompt([]PromptPart{{}, {Media: &Media{}}}, false)),
		"adapters[0]":      session.SetAdapters(ScaledAdapter{}),
		"sources[0]":       second(LoadFrom(ctx, []Source{{Size: 1}}, nil)),
		"Runtime":          second(Load(ctx, storyModel, &LoadOptions{Runtime: &Runtime{}})),
		"Store":            second(model.NewConversation(&ConversationOptions{Store: &Store{}})),
		"store":            talk.SetStore(&Store{}),
		"DraftModel":       talk.Begin(ctx, &ReplyOptions{Draft: DraftModel, DraftModel: &Model{}}),
		"Compiled":         talk.Begin(ctx, &ReplyOptions{Compiled: &Grammar{}}),
		"Sampler":          second(session.NewJob(ctx, []uint32{1}, &JobOptions{Sampler: &Sampler{}})),
		"Prompt":           second(session.NewJob(ctx, nil, &JobOptions{Prompt: &Prompt{}})),
		"sampler":          second(session.Sample(&Sampler{})),
		"session":          store.Put(nil),
		"prompt":           session.PrefillPrompt(ctx, nil, 0),
		"w":                session.Save(nil),
		"r":                second(model.LoadSession(nil, nil)),
	} {
		if !errors.Is(err, ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "realizar: "+want) || !strings.Contains(err.Error(), "nil or zero") {
			t.Errorf("%s: %v", want, err)
		}
	}
	// What would be passed over in silence is refused.
	prefix, err := model.NewPrompt([]PromptPart{{Tokens: []uint32{1, 403}}}, false)
	must(t, err)
	var saved bytes.Buffer
	must(t, talk.Save(&saved))
	for want, err := range map[string]error{
		"Draft is 0":                   talk.Begin(ctx, &ReplyOptions{DraftModel: model}),
		"Draft is 1":                   second(session.NewJob(ctx, []uint32{1}, &JobOptions{DraftModel: model, Draft: DraftLookup})),
		"PromptFirst is 3":             second(session.NewJob(ctx, []uint32{1}, &JobOptions{PromptFirst: 3})),
		"rz_job_params has both":       second(session.NewJob(ctx, []uint32{1}, &JobOptions{Prompt: prefix})),
		"DiskLimit is 5":               second(model.NewStore(&StoreOptions{DiskLimit: 5})),
		"Runtime and Threads are both": second(Load(ctx, storyModel, &LoadOptions{Runtime: &Runtime{}, Threads: 1})),
		"Shares has 1 entries":         second(Load(ctx, storyModel, &LoadOptions{Shares: []float32{1}})),
		"Kind is 16":                   second(model.LoadEncoder(ctx, storyModel, &EncoderOptions{Kind: Video})),
		"Transcript, System, Adapters": second(model.LoadConversation(&saved, &ConversationOptions{Overflow: OverflowForget})),
	} {
		if !errors.Is(err, ErrInvalidArgument) || !strings.HasPrefix(err.Error(), "realizar: "+want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	// What is optional may be nil, and nothing is locked by what was refused.
	must(t, talk.SetStore(nil), second(StepConversations([]*Conversation{talk}, 0)), second(DecodeBatch(nil, nil, nil)))
}
