// Package realizar runs language models inside the process, through librealizar, which it loads when it is first used:
// it needs neither cgo nor a C compiler.
//
//	err := realizar.Open("/opt/realizar/lib/librealizar.so.1") // or "", or nothing: where the system looks
//	model, err := realizar.Load(ctx, "model.gguf", nil)
//	conversation, err := model.NewConversation(nil)
//	for piece, err := range conversation.Say(ctx, "Hello", nil) { ... }
//
// It has what the package above it has, but for readers of models and parsers of replies that no job makes. A [Model]
// may be used by any number of goroutines at once, all else by one call at a time; a second one fails
// with [ErrBusy]. Close never waits and may be called anywhere; memory goes when nothing uses it any more.
package realizar

import (
	"context"
	"fmt"
	"iter"
	"math"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Version is the version of the library, such as "0.1.0".
func Version() (string, error) {
	if err := Open(""); err != nil {
		return "", err
	}
	return c.rz_version(), nil
}

// Model is a loaded model. It may be used by any number of goroutines at once.
type Model struct{ model *handle }

// None is a real 0 in options whose 0 stands for a default and whose comments name None.
const None = -1

// Place is where a part of a model is.
type Place uint32

const (
	PlaceAuto Place = rz_PLACE_AUTO // on GPUs as many as fit, from the last layer on
	PlaceCPU  Place = rz_PLACE_CPU  // on the CPU
	PlaceGPU  Place = rz_PLACE_GPU  // on GPUs, in the last layers, as many as take at most so many bytes together
)

// Placement is a place for the experts (MoE) of layers that are on GPUs.
type Placement struct {
	Place      Place
	FirstLayer int    // with PlaceCPU: layers before this one are not meant
	Layers     int    // with PlaceCPU: so many layers that have experts; 0: all
	Bytes      uint64 // with PlaceGPU
}

// LoadOptions are optional; the zero value means the defaults.
type LoadOptions struct {
	Runtime       *Runtime    // threads, log and limits to share; nil: its own, of the two fields below
	Threads       int         // 0: as many as there are cores
	MemoryLimit   uint64      // bytes of weights and caches in host memory; 0: no limit
	Device        uint32      // index of a device; 0: the best one
	Devices       []uint32    // GPUs over which the layers are divided in this order, in place of Device
	Shares        []float32   // sizes of the parts of Devices in relation to one another; nil: by their free memory
	GPULayers     int         // how many layers go to a GPU, where Device is one; 0: as many as fit; None: none
	Placements    []Placement // parts of the model that have a place of their own; nil: everything is where its layer is
	Quantize      ElementType // type that matrices of floats are converted to; 0: the types of the file
	Deterministic bool        // on a GPU the same bits however a prompt was cut into pieces
	Mmap          bool        // use the file in place, which is several times slower
	TextOnly      bool        // tokenizer and template only, no weights
	Profile       bool        // measure the parts of each step on a GPU, which takes longer
	MTP           bool        // the layer too that predicts a further token, for DraftMTP
	AllowUnknown  bool        // pass over keys and tensors that nothing knows; Info.Unknown counts them
	BF16Products  bool        // products on the CPU in BF16 if faster for prompts, with other results: Info.ISA
	PackedPath    string      // file of packed weights, made by the first load and mapped by later ones; "": none
	TestedPath    string      // file of the tests that GPUs have passed, for later processes; "": none
	ChatTemplate  string      // chat template in Jinja, in place of the model's own; "": the model's own

	// ExpertsCopiedFrom: steps of so many tokens or more copy experts on the CPU to the GPU, which multiplies by them; 0:
	// those for which this takes less time, as the load measures; None: no step.
	ExpertsCopiedFrom int

	// PromptTokensBeside bounds what a pass computes of prompts beside single tokens; 0: 64. More of it brings first
	// tokens sooner and others later.
	PromptTokensBeside int

	Progress func(done, total uint64) error // told bytes; an error of it ends the load; nil: nobody
}

// progress is who is told how far a load is, and the error that ended it.
type progress struct {
	call func(done, total uint64) error
	err  error
}

var progressCallback = sync.OnceValue(func() uintptr {
	return purego.NewCallback(func(done, total, user uintptr) uintptr {
		p := kept[*progress](user)
		if p.err = guarded(func() error { return p.call(uint64(done), uint64(total)) }); p.err != nil {
			return 1
		}
		return 0
	})
})

// Load reads a .gguf file, a .safetensors file, or a folder with config.json. It stops early when the context ends.
func Load(ctx context.Context, path string, options *LoadOptions) (*Model, error) {
	name, err := terminated("path", path)
	if err != nil {
		return nil, err
	}
	return loadWith(ctx, options, func(params *rz_model_params, out *uintptr, e *rz_error) int32 {
		return c.rz_model_load(name, params, out, e)
	})
}

// LoadFrom is [Load] for a model whose files are bytes in memory, each under its name.
func LoadFrom(ctx context.Context, files map[string][]byte, options *LoadOptions) (*Model, error) {
	sources, unpin, err := sourcesOf(files)
	if err != nil {
		return nil, err
	}
	defer unpin()
	return loadWith(ctx, options, func(params *rz_model_params, out *uintptr, e *rz_error) int32 {
		return c.rz_model_load_from(&sources[0], uintptr(len(files)), params, out, e)
	})
}

func sourcesOf(files map[string][]byte) ([]rz_source, func(), error) {
	sources := make([]rz_source, 0, len(files)+1) // so that there is one to point to
	var pinner runtime.Pinner
	for name, data := range files {
		source := rz_source{kind: rz_SOURCE_MEMORY, data: unsafe.SliceData(data), size: uint64(len(data))}
		source.struct_size = uint32(unsafe.Sizeof(source))
		var err error
		if source.name, err = terminated("the name of a file", name); err != nil {
			pinner.Unpin()
			return nil, nil, err
		}
		pinner.Pin(source.name)
		if source.data != nil {
			pinner.Pin(source.data)
		}
		sources = append(sources, source)
	}
	return sources[:cap(sources)], pinner.Unpin, nil
}

func loadWith(ctx context.Context, options *LoadOptions, f func(params *rz_model_params, out *uintptr, e *rz_error) int32) (*Model, error) {
	var object uintptr
	if err := withParams(ctx, options, func(params *rz_model_params, e *rz_error) int32 { return f(params, &object, e) }); err != nil {
		return nil, err
	}
	m := &Model{own(object, c.rz_model_free)}
	runtime.AddCleanup(m, (*handle).close, m.model)
	return m, nil
}

// withParams calls f with the parameters of a load. A model keeps its runtime alive.
func withParams(ctx context.Context, options *LoadOptions, f func(params *rz_model_params, e *rz_error) int32) error {
	if err := Open(""); err != nil {
		return err
	}
	if options == nil {
		options = &LoadOptions{}
	}
	if len(options.Shares) > 0 && len(options.Shares) != len(options.Devices) {
		return &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf("%d shares for %d devices", len(options.Shares), len(options.Devices))}
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return err
	}
	defer stop()
	var counts counts
	params := rz_model_params{
		device: options.Device, gpu_layers: counts.orNone(options.GPULayers, "GPULayers"), quantize: uint32(options.Quantize), cancel: cancel,
		mixed_prefill_tokens: counts.of(options.PromptTokensBeside, "PromptTokensBeside"),
		experts_copied_from:  counts.orNone(options.ExpertsCopiedFrom, "ExpertsCopiedFrom"),
	}
	if counts.err != nil {
		return counts.err
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	for flag, set := range map[uint32]bool{
		rz_MODEL_DETERMINISTIC: options.Deterministic, rz_MODEL_MMAP: options.Mmap, rz_MODEL_TEXT_ONLY: options.TextOnly,
		rz_MODEL_PROFILE: options.Profile, rz_MODEL_MTP: options.MTP, rz_MODEL_ALLOW_UNKNOWN: options.AllowUnknown,
		rz_MODEL_BF16_PRODUCTS: options.BF16Products,
	} {
		if set {
			params.flags |= flag
		}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	if options.PackedPath != "" {
		if params.packed_path, err = terminated("PackedPath", options.PackedPath); err != nil {
			return err
		}
		pinner.Pin(params.packed_path)
	}
	placements := make([]rz_placement, len(options.Placements))
	for i, p := range options.Placements {
		placements[i] = rz_placement{
			what: rz_PLACED_EXPERTS, place: uint32(p.Place), first_layer: counts.of(p.FirstLayer, "FirstLayer"),
			n_layers: counts.of(p.Layers, "Layers"), bytes: p.Bytes,
		}
		placements[i].struct_size = uint32(unsafe.Sizeof(placements[i]))
	}
	if counts.err != nil {
		return counts.err
	}
	params.placements, params.n_placements = pinned(&pinner, placements), uintptr(len(placements))
	if options.TestedPath != "" {
		if params.tested_path, err = terminated("TestedPath", options.TestedPath); err != nil {
			return err
		}
		pinner.Pin(params.tested_path)
	}
	template := []byte(options.ChatTemplate)
	params.chat_template, params.chat_template_len = pinned(&pinner, template), uintptr(len(template))
	params.devices, params.n_devices = pinned(&pinner, options.Devices), uintptr(len(options.Devices))
	params.device_split = pinned(&pinner, options.Shares)
	told := progress{call: options.Progress}
	if options.Progress != nil {
		user, forget := keep(&told)
		defer forget()
		params.progress, params.progress_user = progressCallback(), user
	}
	shared := options.Runtime
	if shared == nil {
		if shared, err = NewRuntime(&RuntimeOptions{Threads: options.Threads, MemoryLimit: options.MemoryLimit}); err != nil {
			return err
		}
		defer shared.Close()
	}
	err = shared.runtime.use(func(threads uintptr, e *rz_error) int32 {
		params.runtime = threads
		return f(&params, e)
	})
	if told.err != nil {
		return resumed(told.err)
	}
	return ended(ctx, err)
}

func (m *Model) handle() *handle {
	if m == nil {
		return nil
	}
	return m.model
}

// Close ends the use of the model. Running calls and sessions go on. Closing twice is fine.
func (m *Model) Close() error {
	m.model.close()
	return nil
}

// Info describes a model.
type Info struct {
	Architecture, Name                                    string
	NLayers, HiddenDim, FFNDim, NHeads, NKVHeads, HeadDim int
	VocabSize, ContextLength                              int
	NParams, WeightBytes                                  uint64
	Device                                                uint32
	GPULayers                                             int
	Devices                                               []uint32 // GPUs that have layers, in the order of these
	DeviceLayers                                          []int    // layers on each of them
	BOS, EOS                                              uint32   // NoToken where there is none
	HasTemplate                                           bool     // RenderChat works
	TemplateWritesBOS                                     bool     // so that what it has rendered is tokenized without BOS
	Unknown                                               int      // keys and tensors that LoadOptions.AllowUnknown passed over
	ReadsSource                                           bool     // it writes a text of another one: MediaFromTokens
	ISA                                                   string   // instruction set of products on the CPU; "": none are there
}

// NoToken stands where a model has no such token.
const NoToken uint32 = rz_TOKEN_NONE

// Info describes the model.
func (m *Model) Info() (Info, error) {
	x, err := filled(m.model, c.rz_model_info_get)
	var devices []uint32
	var layers []int
	for i := uint32(0); i < x.n_devices && err == nil; i++ {
		var device rz_model_device
		device, err = filled(m.model, func(model uintptr, out *rz_model_device, e *rz_error) int32 {
			return c.rz_model_device_get(model, i, out, e)
		})
		devices, layers = append(devices, device.device), append(layers, int(device.n_layers))
	}
	return Info{
		text(x.architecture[:]), text(x.name[:]), int(x.n_layers), int(x.hidden_dim), int(x.ffn_dim), int(x.n_heads), int(x.n_kv_heads),
		int(x.head_dim), int(x.vocab_size), int(x.context_length), x.n_params, x.weight_bytes, x.device, int(x.gpu_layers), devices, layers,
		x.bos_token, x.eos_token, x.chat_template&rz_TEMPLATE_PRESENT != 0, x.chat_template&rz_TEMPLATE_WRITES_BOS != 0, int(x.n_unknown),
		x.reads_source != 0, text(x.isa[:]),
	}, err
}

// Tokenize cuts text into tokens. With special, the tokens that begin and end a text are added if the model asks for
// them. With parse, "<|im_end|>" and the like in the text become special tokens, which must not be used for text that
// users typed.
func (m *Model) Tokenize(text string, special, parse bool) ([]uint32, error) {
	var flags uint32
	if special {
		flags |= rz_TOKENIZE_ADD_SPECIAL
	}
	if parse {
		flags |= rz_TOKENIZE_PARSE_SPECIAL
	}
	return sized(m.model, len(text)+2, func(model uintptr, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_tokenize_into(model, unsafe.StringData(text), uintptr(len(text)), flags, out, capacity, n, 0, e)
	})
}

// Detokenize is the text of tokens, with special tokens written out or left away.
func (m *Model) Detokenize(tokens []uint32, special bool) (string, error) {
	var flags uint32
	if special {
		flags = rz_DETOKENIZE_SPECIAL
	}
	text, err := sized(m.model, 8*len(tokens), func(model uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_detokenize_into(model, unsafe.SliceData(tokens), uintptr(len(tokens)), flags, out, capacity, n, e)
	})
	return string(text), err
}

// Pooling is the way from the vectors of a text's tokens to one vector.
type Pooling uint32

const (
	PoolingModel Pooling = rz_POOLING_MODEL // the one that the model was made with
	PoolingNone  Pooling = rz_POOLING_NONE  // a vector for each token of all texts
	PoolingMean  Pooling = rz_POOLING_MEAN
	PoolingCLS   Pooling = rz_POOLING_CLS
	PoolingLast  Pooling = rz_POOLING_LAST
	PoolingRank  Pooling = rz_POOLING_RANK // the scores of a reranker
)

// EmbedOptions are optional; the zero value means the model's pooling and vectors of length 1.
type EmbedOptions struct {
	Pooling Pooling
	Raw     bool // vectors keep their lengths
}

func (o *EmbedOptions) params() (params rz_embed_params) {
	params.struct_size = uint32(unsafe.Sizeof(params))
	params.pooling = uint32(o.Pooling)
	if o.Raw {
		params.flags = rz_EMBED_RAW
	}
	return params
}

// EmbedTexts is [Model.Embed] for texts, which [Model.Tokenize] turns into tokens, with the tokens that begin and end a
// text.
func (m *Model) EmbedTexts(ctx context.Context, texts []string, options *EmbedOptions) ([][]float32, error) {
	tokens := make([][]uint32, len(texts))
	for i, text := range texts {
		var err error
		if tokens[i], err = m.Tokenize(text, true, false); err != nil {
			return nil, err
		}
	}
	return m.Embed(ctx, tokens, options)
}

// Embed turns texts, which are tokens, into vectors: one for each text, or with [PoolingNone] one for each token of all
// texts. It stops early when the context ends.
func (m *Model) Embed(ctx context.Context, texts [][]uint32, options *EmbedOptions) ([][]float32, error) {
	if options == nil {
		options = &EmbedOptions{}
	}
	if len(texts) == 0 {
		return nil, nil
	}
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	params := options.params()
	var pinner runtime.Pinner
	defer pinner.Unpin()
	rows := len(texts)
	if options.Pooling == PoolingNone {
		rows = 0
	}
	tokens, lengths := make([]*uint32, len(texts)), make([]uintptr, len(texts))
	for i, text := range texts {
		if options.Pooling == PoolingNone {
			rows += len(text)
		}
		tokens[i], lengths[i] = pinned(&pinner, text), uintptr(len(text))
	}
	values, err := sized(m.model, 0, func(model uintptr, out *float32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_embed_into(model, &params, &tokens[0], &lengths[0], uintptr(len(texts)), out, capacity, n, cancel, e)
	})
	if err != nil {
		return nil, ended(ctx, err)
	}
	return divided(values, rows), nil
}

// divided is values as vectors of one length.
func divided(values []float32, rows int) [][]float32 {
	vectors := make([][]float32, rows)
	for i := range vectors {
		width := len(values) / rows
		vectors[i] = values[i*width : (i+1)*width : (i+1)*width]
	}
	return vectors
}

// GrammarKind is the language in which a grammar is written.
type GrammarKind uint32

const (
	GrammarJSONSchema GrammarKind = rz_GRAMMAR_JSON_SCHEMA
	GrammarRegex      GrammarKind = rz_GRAMMAR_REGEX
	GrammarLark       GrammarKind = rz_GRAMMAR_LARK
	GrammarGBNF       GrammarKind = rz_GRAMMAR_GBNF
	GrammarJSON       GrammarKind = rz_GRAMMAR_JSON    // any JSON value, of an empty text
	GrammarChoices    GrammarKind = rz_GRAMMAR_CHOICES // one of some texts, of a JSON array of strings
	GrammarTools      GrammarKind = rz_GRAMMAR_TOOLS   // the reply to a [Transcript] in JSON: text, or calls of its tools
)

// GrammarFlags change a grammar.
type GrammarFlags uint32

// GrammarWhitespace is for kinds of JSON: white space between its parts.
const GrammarWhitespace GrammarFlags = rz_GRAMMAR_FLAG_WHITESPACE

// Grammar says what may be written. It is usable with any number of jobs at once.
type Grammar struct{ grammar *handle }

// NewGrammar compiles a grammar for the vocabulary of the model.
func (m *Model) NewGrammar(kind GrammarKind, text string, flags GrammarFlags) (*Grammar, error) {
	return made(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_grammar_new(model, uint32(kind), uint32(flags), unsafe.StringData(text), uintptr(len(text)), 0, out, e)
	}, c.rz_grammar_free, func(h *handle) *Grammar { return &Grammar{h} })
}

func (g *Grammar) handle() *handle {
	if g == nil {
		return nil
	}
	return g.grammar
}

// Close frees the grammar; jobs that use it go on. Closing twice is fine.
func (g *Grammar) Close() error {
	g.grammar.close()
	return nil
}

// Session is tokens with what the model remembers of them, for work token by token and for jobs; chats are easier with
// a [Conversation]. It keeps its model alive.
type Session struct {
	model *Model
	cache *handle
}

// ElementType is the type of the elements of tensors and caches. 0: what the library takes for the place where it is
// named.
type ElementType uint32

const (
	TypeDefault ElementType = rz_TYPE_DEFAULT
	TypeF32     ElementType = rz_TYPE_F32
	TypeF16     ElementType = rz_TYPE_F16
	TypeBF16    ElementType = rz_TYPE_BF16
	TypeF8_E4M3 ElementType = rz_TYPE_F8_E4M3
	TypeQ4_0    ElementType = rz_TYPE_Q4_0
	TypeQ4_1    ElementType = rz_TYPE_Q4_1
	TypeQ5_0    ElementType = rz_TYPE_Q5_0
	TypeQ5_1    ElementType = rz_TYPE_Q5_1
	TypeQ8_0    ElementType = rz_TYPE_Q8_0
	TypeQ2_K    ElementType = rz_TYPE_Q2_K
	TypeQ3_K    ElementType = rz_TYPE_Q3_K
	TypeQ4_K    ElementType = rz_TYPE_Q4_K
	TypeQ5_K    ElementType = rz_TYPE_Q5_K
	TypeQ6_K    ElementType = rz_TYPE_Q6_K
	TypeIQ1_S   ElementType = rz_TYPE_IQ1_S
	TypeIQ1_M   ElementType = rz_TYPE_IQ1_M
	TypeIQ2_XXS ElementType = rz_TYPE_IQ2_XXS
	TypeIQ2_XS  ElementType = rz_TYPE_IQ2_XS
	TypeIQ2_S   ElementType = rz_TYPE_IQ2_S
	TypeIQ3_XXS ElementType = rz_TYPE_IQ3_XXS
	TypeIQ3_S   ElementType = rz_TYPE_IQ3_S
	TypeIQ4_NL  ElementType = rz_TYPE_IQ4_NL
	TypeIQ4_XS  ElementType = rz_TYPE_IQ4_XS
	TypeTQ1_0   ElementType = rz_TYPE_TQ1_0
	TypeTQ2_0   ElementType = rz_TYPE_TQ2_0
	TypeMXFP4   ElementType = rz_TYPE_MXFP4
	TypeNVFP4   ElementType = rz_TYPE_NVFP4
	TypeQ1_0    ElementType = rz_TYPE_Q1_0
	TypeQ2_0    ElementType = rz_TYPE_Q2_0
	TypePQ2_0   ElementType = rz_TYPE_PQ2_0
	TypePTQ1_0  ElementType = rz_TYPE_PTQ1_0
)

// SessionOptions are optional; the zero value means the defaults.
type SessionOptions struct {
	Capacity     int         // tokens, prompt and answer together; 0: as the model was trained, at most 8192
	KType, VType ElementType // TypeF16 (default), TypeQ8_0, TypeQ4_0 (better for values than keys), TypeF32
}

func (o *SessionOptions) params() (params rz_cache_params, err error) {
	params.struct_size = uint32(unsafe.Sizeof(params))
	if o != nil {
		params.k_type, params.v_type = uint32(o.KType), uint32(o.VType)
		params.capacity, err = whole(o.Capacity, "Capacity")
	}
	return params, err
}

// NewSession makes an empty session.
func (m *Model) NewSession(options *SessionOptions) (*Session, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	return m.session(m.model, func(model uintptr, out *uintptr, e *rz_error) int32 {
		return c.rz_cache_new(model, &params, out, e)
	})
}

func (m *Model) session(from *handle, f func(object uintptr, out *uintptr, e *rz_error) int32) (*Session, error) {
	return made(from, f, c.rz_cache_free, func(h *handle) *Session { return &Session{m, h} })
}

// Fork makes a second session with the same past.
func (s *Session) Fork() (*Session, error) { return s.model.session(s.cache, c.rz_cache_fork) }

// Close frees the session; a running job of it goes on to its end. Closing twice is fine.
func (s *Session) Close() error {
	s.cache.close()
	return nil
}

// Len is the number of tokens in the session; 0 once it is closed.
func (s *Session) Len() (n int) {
	_ = s.cache.use(func(cache uintptr, _ *rz_error) int32 {
		n = int(c.rz_cache_len(cache))
		return 0
	})
	return n
}

// Sampling says how tokens are chosen. Zero in a field switches it off; the zero value means the most likely token.
type Sampling struct {
	Temperature                                      float32
	TopK                                             int
	TopP, MinP                                       float32
	RepeatPenalty, PresencePenalty, FrequencyPenalty float32
	PenaltyWindow                                    int // how many of the last tokens count; 0: all
	Seed                                             uint64
	LogitBias                                        map[uint32]float32
	TemperatureFirst                                 bool // the filters see what the temperature leaves, the order of transformers

	TypicalP, TopNSigma                   float32
	XTCProbability, XTCThreshold          float32 // 0 in the threshold: 0.1
	TemperatureRange, TemperatureExponent float32 // 0 in the exponent: 1
	MirostatTau, MirostatEta              float32 // 0 in eta: 0.1
	DRYMultiplier, DRYBase                float32 // 0 in the base: 1.75
	DRYAllowedLength, DRYWindow           int     // 0: 2, and all tokens
	NoRepeatNgramSize                     int
	DRYBreakers, BannedSequences          [][]uint32
	Order                                 []Filter // of the filters and the temperature; nil: the default order
}

// Filter is a filter of tokens, or the temperature.
type Filter uint32

const (
	FilterTopNSigma   Filter = rz_FILTER_TOP_N_SIGMA
	FilterTopK        Filter = rz_FILTER_TOP_K
	FilterTypicalP    Filter = rz_FILTER_TYPICAL_P
	FilterTopP        Filter = rz_FILTER_TOP_P
	FilterMinP        Filter = rz_FILTER_MIN_P
	FilterXTC         Filter = rz_FILTER_XTC
	FilterTemperature Filter = rz_FILTER_TEMPERATURE
)

// JobOptions are optional; the zero value means the most likely token, as many as there is room for.
type JobOptions struct {
	Sampler   *Sampler // copied as it is now
	Grammar   *Grammar // what may be written, from its start; nil: what the sampler allows
	MaxTokens int
	Stops     []string // none of them empty; the text ends ahead of the first that is complete, that of a reply in its content
	Logprobs  int      // likeliest tokens that Job.Logprobs tells with each, at most 32; None: the tokens alone
	Draft     Draft    // how next tokens are guessed, which changes nothing but the time
	DraftMax  int      // tokens of a draft at most; 0: chosen by the library
	Priority  int32    // rank among the jobs of a step, the higher go first; 0: that of most
	// DraftModel drafts where Draft is DraftModel: a small model of the same vocabulary.
	DraftModel *Model
	Chat       *Transcript // the job makes the reply to it, in Parts, where the prompt ends with its tokens; nil: text
	// Prompt in place of tokens, which are nil then, from token number PromptFirst on, as of Session.PrefillPrompt.
	Prompt      *Prompt
	PromptFirst int
}

// Draft is a source of drafts.
type Draft uint32

const (
	DraftNone   Draft = rz_DRAFT_NONE   // none but for what a grammar forces
	DraftLookup Draft = rz_DRAFT_LOOKUP // out of the text itself
	DraftModel  Draft = rz_DRAFT_MODEL  // by a small model
	DraftMTP    Draft = rz_DRAFT_MTP    // by a layer of the model itself, loaded with LoadOptions.MTP
)

// Job is a generation that works when it is stepped: a prompt and the tokens that follow it. Its session is in use
// until the job is closed.
type Job struct {
	ctx   context.Context
	job   *handle
	width int // entries in a row of log-probabilities
}

// NewJob makes a job that appends a prompt to the session and generates. Steps end with an error when the context does.
func (s *Session) NewJob(ctx context.Context, prompt []uint32, options *JobOptions) (*Job, error) {
	if options == nil {
		options = &JobOptions{}
	}
	cache, err := s.cache.acquire()
	if err != nil {
		return nil, err
	}
	defer s.cache.release()
	var e rz_error
	var pinner runtime.Pinner
	defer pinner.Unpin()
	var counts counts
	params := rz_job_params{
		max_tokens: counts.of(options.MaxTokens, "MaxTokens"), n_tokens: uintptr(len(prompt)), logprobs: counts.orNone(options.Logprobs, "Logprobs"),
		draft: uint32(options.Draft), draft_max: counts.of(options.DraftMax, "DraftMax"), priority: options.Priority,
		prompt_first: uintptr(counts.of(options.PromptFirst, "PromptFirst")),
	}
	if counts.err != nil {
		return nil, counts.err
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	params.tokens = pinned(&pinner, prompt)
	if options.Chat != nil {
		chat, err := marshal(options.Chat)
		if err != nil {
			return nil, err
		}
		params.chat, params.chat_len = pinned(&pinner, chat), uintptr(len(chat))
	}
	media := options.Prompt.handle()
	if params.prompt, err = media.acquire(); err != nil {
		return nil, err
	}
	defer media.release()
	draft := options.DraftModel.handle()
	if params.draft_model, err = draft.acquire(); err != nil {
		return nil, err
	}
	defer draft.release()
	if params.stops, err = pinnedStops(&pinner, options.Stops); err != nil {
		return nil, err
	}
	params.n_stops = uintptr(len(options.Stops))
	grammar := options.Grammar.handle()
	if params.grammar, err = grammar.acquire(); err != nil {
		return nil, err
	}
	defer grammar.release()
	sampler := options.Sampler.handle()
	if params.sampler, err = sampler.acquire(); err != nil {
		return nil, err
	}
	defer sampler.release()
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	params.cancel = cancel
	var object uintptr
	if err := check(c.rz_job_new(cache, &params, &object, &e), &e); err != nil {
		stop()
		return nil, err
	}
	j := &Job{ctx: ctx, width: max(options.Logprobs, 0) + 1, job: own(object, func(job uintptr) {
		c.rz_job_free(job)
		stop()
	})}
	runtime.AddCleanup(j, (*handle).close, j.job)
	return j, nil
}

// pinnedStops are stop strings for C.
func pinnedStops(pinner *runtime.Pinner, texts []string) (_ **byte, err error) {
	stops := make([]*byte, len(texts))
	for i, stop := range texts {
		if stops[i], err = terminated(fmt.Sprintf("stop string %d", i), stop); err != nil {
			return nil, err
		}
		pinner.Pin(stops[i])
	}
	return pinned(pinner, stops), nil
}

// params are those of C, with memory that the pinner holds.
func (s *Sampling) params(pinner *runtime.Pinner) (rz_sampler_params, error) {
	var counts counts
	params := rz_sampler_params{
		temperature: s.Temperature, top_k: counts.of(s.TopK, "TopK"), top_p: s.TopP, min_p: s.MinP, repeat_penalty: s.RepeatPenalty,
		presence_penalty: s.PresencePenalty, frequency_penalty: s.FrequencyPenalty, penalty_window: counts.of(s.PenaltyWindow, "PenaltyWindow"),
		seed: s.Seed, n_biases: uintptr(len(s.LogitBias)), typical_p: s.TypicalP, top_n_sigma: s.TopNSigma,
		xtc_probability: s.XTCProbability, xtc_threshold: s.XTCThreshold,
		temperature_range: s.TemperatureRange, temperature_exponent: s.TemperatureExponent,
		mirostat_tau: s.MirostatTau, mirostat_eta: s.MirostatEta, dry_multiplier: s.DRYMultiplier, dry_base: s.DRYBase,
		dry_allowed_length: counts.of(s.DRYAllowedLength, "DRYAllowedLength"), dry_window: counts.of(s.DRYWindow, "DRYWindow"),
		no_repeat_ngram_size: counts.of(s.NoRepeatNgramSize, "NoRepeatNgramSize"), n_dry_breakers: uintptr(len(s.DRYBreakers)),
		n_banned_sequences: uintptr(len(s.BannedSequences)), n_order: uintptr(len(s.Order)),
	}
	params.struct_size = uint32(unsafe.Sizeof(params))
	if s.TemperatureFirst {
		params.flags = rz_SAMPLER_TEMPERATURE_FIRST
	}
	biases := make([]rz_logit_bias, 0, len(s.LogitBias))
	for token, bias := range s.LogitBias {
		biases = append(biases, rz_logit_bias{token, bias})
	}
	params.biases = pinned(pinner, biases)
	params.dry_breakers, params.banned_sequences = sequences(pinner, s.DRYBreakers), sequences(pinner, s.BannedSequences)
	params.order = (*uint32)(pinned(pinner, s.Order))
	return params, counts.err
}

// sequences are some of tokens, in place until pinner lets them go.
func sequences(pinner *runtime.Pinner, all [][]uint32) *rz_token_sequence {
	sequences := make([]rz_token_sequence, len(all))
	for i, tokens := range all {
		sequences[i] = rz_token_sequence{pinned(pinner, tokens), uintptr(len(tokens))}
	}
	return pinned(pinner, sequences)
}

// NoLimit is no budget of time: a step with it works until a job has made a token.
const NoLimit time.Duration = math.MaxInt64

// microseconds are those of a budget, of which less than nothing is nothing and a begun one counts as a whole.
func microseconds(budget time.Duration) uint64 {
	if budget == NoLimit {
		return rz_NO_LIMIT
	}
	whole := max(budget, 0) / time.Microsecond
	if whole*time.Microsecond < budget {
		whole++
	}
	return uint64(whole)
}

// Step works on the job for about a budget of time. It tells whether there is more to do.
func (j *Job) Step(budget time.Duration) (more bool, err error) {
	return step([]*Job{j}, func(jobs []uintptr, e *rz_error) int32 { return c.rz_job_step(jobs[0], microseconds(budget), e) })
}

// StepJobs is [Job.Step] for several jobs of one model in common passes over the weights. It tells whether there is
// more to do; of no jobs there is not. A job that fails ends alone, with [EndFailed], and [Job.Err] tells why; one
// whose context has ended is left out while others go on.
func StepJobs(jobs []*Job, budget time.Duration) (more bool, err error) {
	return step(jobs, func(jobs []uintptr, e *rz_error) int32 {
		return c.rz_jobs_step(unsafe.SliceData(jobs), uintptr(len(jobs)), microseconds(budget), e)
	})
}

func (j *Job) steps() (*handle, context.Context) { return j.job, j.ctx }

// step makes one step of objects, each of which has a context.
func step[T interface {
	steps() (*handle, context.Context)
}](all []T, f func(objects []uintptr, e *rz_error) int32) (more bool, err error) {
	objects, asked := make([]uintptr, len(all)), context.Background()
	for i, each := range all {
		h, ctx := each.steps()
		if objects[i], err = h.acquire(); err != nil {
			return false, err
		}
		defer h.release()
		if asked = ctx; len(all) == 1 && ctx.Err() != nil { // its watch notices a moment later
			return false, over(ctx)
		}
	}
	var e rz_error
	status := f(objects, &e)
	err = check(status, &e)
	for i := 0; i < len(all) && err != nil && asked.Err() == nil; i++ {
		_, asked = all[i].steps()
	}
	return status == rz_AGAIN, ended(asked, err)
}

// Err is the error with which the job has ended, where that was one of its own; else nil.
func (j *Job) Err() error {
	return j.job.use(func(job uintptr, e *rz_error) int32 { return c.rz_job_error(job, e) })
}

// Stream works on the job to its end and gives its text in pieces, each whole UTF-8; an error comes last.
func (j *Job) Stream() iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for more := true; more; {
			var stepped error
			more, stepped = j.Step(NoLimit)
			text, err := j.Text() // that ahead of an error too
			if text != "" && !yield(text, nil) {
				return
			}
			if stepped != nil {
				err = stepped
			}
			if err != nil {
				yield("", err)
				return
			}
		}
	}
}

// Text is what is new since the last call: whole characters, stop strings cut out.
func (j *Job) Text() (string, error) {
	text, err := sized(j.job, 256, func(job uintptr, out *byte, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_job_text_into(job, out, capacity, n, e)
	})
	return string(text), err
}

// Tokens are those that are new since the last call.
func (j *Job) Tokens() ([]uint32, error) {
	return sized(j.job, 64, func(job uintptr, out *uint32, capacity uintptr, n *uintptr, e *rz_error) int32 {
		return c.rz_job_tokens_into(job, out, capacity, n, e)
	})
}

// EndReason is why a job has ended.
type EndReason uint32

const (
	EndNone      EndReason = 0 // it has not
	EndToken     EndReason = rz_END_TOKEN
	EndLength    EndReason = rz_END_LENGTH
	EndStop      EndReason = rz_END_STOP
	EndContext   EndReason = rz_END_CONTEXT
	EndGrammar   EndReason = rz_END_GRAMMAR
	EndFailed    EndReason = rz_END_FAILED    // by an error of its own: Job.Err, Conversation.Err
	EndCancelled EndReason = rz_END_CANCELLED // by Conversation.Stop, or given up with ReplyOptions.Keep
)

// JobInfo is the state of a job.
type JobInfo struct {
	End                                EndReason
	Stopped                            error // why steps leave it out now, because its context has ended; else nil
	Prompt, PromptDone, Tokens         int
	Drafted, Accepted                  int // tokens of drafts that were computed, and those of them that were right
	PromptTime, TokensTime, FirstToken time.Duration
}

// Info is the state of the job.
func (j *Job) Info() (JobInfo, error) {
	info, err := filled(j.job, c.rz_job_info_get)
	return JobInfo{
		EndReason(info.end_reason), stopped(j.ctx, info.stopped), int(info.prompt_total), int(info.prompt_done), int(info.n_tokens),
		int(info.drafted), int(info.accepted), time.Duration(info.prompt_ns), time.Duration(info.tokens_ns), time.Duration(info.first_token_ns),
	}, err
}

// Close frees the job, at any moment, and the session with it, which keeps the tokens that are complete. Closing twice
// is fine.
func (j *Job) Close() error {
	j.job.close()
	return nil
}
