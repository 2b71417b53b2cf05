package realizar

import (
	"context"
	"fmt"
	"image"
	"image/draw"
	"io"
	"math"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"realizar.dev/go/hub"
)

// Encoder is a vision or audio encoder with its projector. It may be used by any number of goroutines at once.
type Encoder struct{ encoder *owned[*rz_encoder] }

// Media are the embeddings of an image, a video or audio, one row per token position, for any number of prompts. They
// may be used by any number of goroutines at once.
type Media struct {
	media *owned[*rz_media]
	ctx   context.Context // ends steps
}

// Prompt is a sequence of tokens and media. It may be used by any number of goroutines at once.
type Prompt struct{ prompt *owned[*rz_prompt] }

// Pixels are an image in memory, row by row from the top.
type Pixels struct {
	Format        PixelFormat
	Width, Height int
	Stride        int // bytes from one row to the next; 0: rows are contiguous
	Data          []byte
}

// PixelsOf returns the pixels of an image of the standard library; zero Pixels for nil.
func PixelsOf(picture image.Image) Pixels {
	if picture == nil {
		return Pixels{}
	}
	size := picture.Bounds().Size()
	if p, ok := picture.(*image.Gray); ok && size.X > 0 {
		return Pixels{PixelsGray8, size.X, size.Y, p.Stride, p.Pix}
	}
	p, ok := picture.(*image.NRGBA)
	if !ok {
		p = image.NewNRGBA(image.Rectangle{Max: size})
		draw.Draw(p, p.Rect, picture, picture.Bounds().Min, draw.Src)
	}
	return Pixels{PixelsRGBA8, size.X, size.Y, p.Stride, p.Pix}
}

// check rejects pixels that end before the last row, because C would read past their end.
func (p *Pixels) check() error {
	width := map[PixelFormat]int{PixelsRGB8: 3, PixelsRGBA8: 4, PixelsBGRA8: 4, PixelsGray8: 1}[p.Format]
	row, stride := int64(width)*int64(p.Width), int64(p.Stride)
	if stride == 0 {
		stride = row
	}
	const most = 65535
	if min(p.Width, p.Height) < 1 || max(p.Width, p.Height) > most || stride < row || stride > math.MaxInt32 ||
		stride*int64(p.Height-1)+row > int64(len(p.Data)) {
		return wrong("%d bytes are no %d x %d pixels", len(p.Data), p.Width, p.Height)
	}
	return nil
}

// TokenMedia is the placeholder for a row of media in the tokens of sessions and prompts.
const TokenMedia uint32 = rz_TOKEN_MEDIA

// LoadEncoder loads the model's encoder: the .gguf file with the projector ("mmproj-..."), a folder with a config.json
// (the model's own if it contains both), or "hf:owner/name" of the Hub. It stops early when the context ends.
func (m *Model) LoadEncoder(ctx context.Context, path string, options *EncoderOptions) (*Encoder, error) {
	return m.withEncoder(ctx, path, options, func(name *byte, params *rz_encoder_params) (*Encoder, error) {
		return made(m, func(model *rz_model, out **rz_encoder, e *rz_error) int32 {
			return lib.rz_encoder_load(model, name, params, out, e)
		}, lib.rz_encoder_free,
			func(encoder *owned[*rz_encoder]) *Encoder { return &Encoder{encoder} })
	})
}

// PlanEncoder returns the memory that [Model.LoadEncoder] will take, before a weight is read.
func (m *Model) PlanEncoder(ctx context.Context, path string, options *EncoderOptions) (EncoderPlan, error) {
	var p rz_encoder_plan
	_, err := m.withEncoder(ctx, path, options, func(name *byte, params *rz_encoder_params) (*Encoder, error) {
		return nil, use(m, func(model *rz_model, e *rz_error) int32 {
			return lib.rz_encoder_plan_get(model, name, nil, 0, params, sizedStruct(&p), e)
		})
	})
	return p.value(), err
}

// withEncoder calls f with the options as the library takes them.
func (m *Model) withEncoder(ctx context.Context, path string, options *EncoderOptions,
	f func(name *byte, params *rz_encoder_params) (*Encoder, error)) (*Encoder, error) {
	if options == nil {
		options = &EncoderOptions{}
	}
	if strings.HasPrefix(path, hub.Prefix) {
		found, err := Fetch(ctx, hub.EncoderName(path), options.Progress)
		if err != nil {
			return nil, err
		}
		path = found
	}
	if err := noNUL("path", path); err != nil {
		return nil, err
	}
	cancel, stop, err := m.held().watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	name := cString(path)
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	params.cancel = cancel
	if options.Kind != 0 && options.Kind != Image && options.Kind != Audio {
		return nil, wrong("Kind is %d; it must be Image, Audio or 0", options.Kind)
	}
	params.flags = uint32(options.Kind) // their bits are the same
	if options.AllowUnknown {
		params.flags |= rz_MODEL_ALLOW_UNKNOWN
	}
	told := progress{call: options.Progress}
	var forget func()
	params.progress, params.progress_user, forget = told.tell()
	defer forget()
	encoder, err := f(name, &params)
	return encoder, told.instead(m.held().ended(err, ctx))
}

// Close frees the encoder; its media remain usable. Closing twice is fine.
func (e *Encoder) Close() error {
	return e.held().close()
}

// Info returns the description of the encoder.
func (e *Encoder) Info() (EncoderInfo, error) {
	return described(e, lib.rz_encoder_info_get, (*rz_encoder_info).value)
}

// EncodeImage encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file.
func (e *Encoder) EncodeImage(ctx context.Context, file []byte, options *MediaOptions) (*Media, error) {
	return e.encode(ctx, options, func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_image(encoder, unsafe.SliceData(file), uintptr(len(file)), params, out, e)
	})
}

// EncodePixels encodes an image in memory.
func (e *Encoder) EncodePixels(ctx context.Context, pixels Pixels, options *MediaOptions) (*Media, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p, err := pixels.pinned(&pinner)
	if err != nil {
		return nil, err
	}
	return e.encode(ctx, options, func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_pixels(encoder, &p, params, out, e)
	})
}

// EncodeFrames encodes a video: at least two frames of one size, and the time of each in seconds from its beginning.
// MaxTiles and MaxPixels have no effect; MaxRows limits all frames together.
func (e *Encoder) EncodeFrames(ctx context.Context, frames []Pixels, times []float64, options *MediaOptions) (*Media, error) {
	if len(frames) != len(times) {
		return nil, wrong("times has %d entries; it must have as many as frames, %d", len(times), len(frames))
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]rz_pixels, len(frames))
	for i := range frames {
		var err error
		if list[i], err = frames[i].pinned(&pinner); err != nil {
			return nil, err
		}
	}
	return e.encode(ctx, options, func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_frames(encoder, unsafe.SliceData(list), unsafe.SliceData(times), uintptr(len(times)), params, out, e)
	})
}

// pinned returns the pixels as the library takes them, pinned in memory.
func (p *Pixels) pinned(pinner *runtime.Pinner) (c rz_pixels, err error) {
	if err = p.check(); err == nil {
		c = rz_pixels{
			format: uint32(p.Format), width: uint32(p.Width), height: uint32(p.Height),
			stride: uintptr(p.Stride), data: pinned(pinner, p.Data),
		}
		sizedStruct(&c)
	}
	return c, err
}

// EncodeSamples encodes audio: interleaved samples of the channels, from -1 to 1, rate per channel and second. Several
// channels are averaged. Of the options, MaxRows, InSteps and Progress (in parts) have an effect.
func (e *Encoder) EncodeSamples(ctx context.Context, samples []float32, channels int, rate uint32, options *MediaOptions) (*Media, error) {
	n, err := whole(channels, "channels")
	if err != nil {
		return nil, err
	}
	return e.encode(ctx, options, func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_samples(encoder, unsafe.SliceData(samples), uintptr(len(samples)), n, rate, params, out, e)
	})
}

// EncodeAudio is [Encoder.EncodeSamples] for the bytes of a WAV, MP3, FLAC or Ogg file.
func (e *Encoder) EncodeAudio(ctx context.Context, file []byte, options *MediaOptions) (*Media, error) {
	return e.encode(ctx, options, func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_audio(encoder, unsafe.SliceData(file), uintptr(len(file)), params, out, e)
	})
}

// kinds returns the kinds whose bits are set.
func kinds(bits uint32) (all []MediaKind) {
	for _, kind := range []MediaKind{Image, Audio, Vector, Video} {
		if bits&uint32(kind) != 0 {
			all = append(all, kind)
		}
	}
	return all
}

func (e *Encoder) encode(ctx context.Context, options *MediaOptions,
	f func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32) (*Media, error) {
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	if options != nil && options.InSteps {
		params.flags = rz_ENCODE_STEPS
		return e.encodeInSteps(ctx, &params, f)
	}
	cancel, stop, err := e.held().watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	params.cancel = cancel
	told := progress{}
	if options != nil {
		told.call = options.Progress
	}
	var forget func()
	params.progress, params.progress_user, forget = told.tell()
	defer forget()
	media, err := makeMedia(e, func(encoder *rz_encoder, out **rz_media, e *rz_error) int32 {
		return f(encoder, &params, out, e)
	})
	return media, told.instead(e.held().ended(err, ctx))
}

// encodeInSteps creates media whose steps end with the context, or when the media are closed.
func (e *Encoder) encodeInSteps(ctx context.Context, params *rz_media_params,
	f func(encoder *rz_encoder, params *rz_media_params, out **rz_media, e *rz_error) int32) (*Media, error) {
	cancel, stop, err := newCancel(ctx)
	if err != nil {
		return nil, err
	}
	params.cancel = cancel
	media, err := made(e, func(encoder *rz_encoder, out **rz_media, e *rz_error) int32 {
		return f(encoder, params, out, e)
	}, func(media *rz_media) {
		lib.rz_media_free(media)
		stop()
	}, func(media *owned[*rz_media]) *Media {
		media.running[cancel] = true
		return &Media{media, ctx}
	})
	if err != nil {
		stop()
	}
	return media, ended(err, ctx)
}

func makeMedia[F any](from holder[F], f func(from F, out **rz_media, e *rz_error) int32) (*Media, error) {
	return made(from, f, lib.rz_media_free,
		func(media *owned[*rz_media]) *Media { return &Media{media, context.Background()} })
}

// Measure returns the [Media.Info] of an image of width x height pixels, or of audio with width samples per channel at
// the encoder's rate and height 0, without encoding; time and hash are zero.
func (e *Encoder) Measure(width, height int, options *MediaOptions) (MediaInfo, error) {
	var counts counts
	w, h := counts.of(width, "width"), counts.of(height, "height")
	if counts.err != nil {
		return MediaInfo{}, counts.err
	}
	params, err := options.params()
	if err != nil {
		return MediaInfo{}, err
	}
	return described(e, func(encoder *rz_encoder, out *rz_media_info, e *rz_error) int32 {
		return lib.rz_media_measure(encoder, w, h, &params, out, e)
	}, (*rz_media_info).value)
}

// MediaFromRows makes media from embeddings of the caller's own encoder, rows of rowDim numbers. columns * lines must
// be the number of rows, for models with M-RoPE positions; 0 for both: one line.
func (m *Model) MediaFromRows(kind MediaKind, rows []float32, rowDim, columns, lines int) (*Media, error) {
	if rowDim < 1 || len(rows)%rowDim != 0 {
		return nil, wrong("%d numbers are no rows of %d", len(rows), rowDim)
	}
	var counts counts
	dim, across, down := counts.of(rowDim, "rowDim"), counts.of(columns, "columns"), counts.of(lines, "lines")
	if counts.err != nil {
		return nil, counts.err
	}
	return makeMedia(m, func(model *rz_model, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_rows(model, uint32(kind), unsafe.SliceData(rows), uintptr(len(rows)/rowDim),
			dim, across, down, out, e)
	})
}

// MediaFromTokens encodes the source text of an encoder-decoder model (Info.ReadsSource); the media include the token
// that the decoder starts from. A session of such a model must begin with a prompt of only these media.
func (m *Model) MediaFromTokens(ctx context.Context, tokens []uint32) (*Media, error) {
	cancel, stop, err := m.held().watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	media, err := makeMedia(m, func(model *rz_model, out **rz_media, e *rz_error) int32 {
		return lib.rz_media_from_tokens(model, unsafe.SliceData(tokens), uintptr(len(tokens)), cancel, out, e)
	})
	return media, m.held().ended(err, ctx)
}

// LoadMedia reads media that were saved for the same model; it needs no encoder.
func (m *Model) LoadMedia(r io.Reader) (*Media, error) {
	return restored(r, func(read, user uintptr) (*Media, error) {
		return makeMedia(m, func(model *rz_model, out **rz_media, e *rz_error) int32 {
			return lib.rz_media_load(model, read, user, nil, out, e)
		})
	})
}

// Save writes the media to w, for [Model.LoadMedia].
func (m *Media) Save(w io.Writer) error {
	return save(m, w, lib.rz_media_save)
}

// Close frees the media; prompts and sessions that use them remain usable. Closing twice is fine.
func (m *Media) Close() error {
	return m.held().close()
}

func (m *Media) contexts() []context.Context { return []context.Context{m.ctx} }

// Step encodes for about the budget, for media created with [MediaOptions].InSteps. It reports whether there is more to
// do.
func (m *Media) Step(budget time.Duration) (more bool, err error) {
	return step(m, func(media *rz_media, e *rz_error) int32 {
		return lib.rz_media_step(media, microseconds(budget), e)
	})
}

// Rows returns the embeddings, concatenated, each of MediaInfo.RowDim numbers.
func (m *Media) Rows() ([]float32, error) {
	return sized(m, 0, lib.rz_media_rows_into)
}

// Info returns the description of the media.
func (m *Media) Info() (MediaInfo, error) {
	return described(m, lib.rz_media_info_get, (*rz_media_info).value)
}

// PromptPart is either tokens or media.
type PromptPart struct {
	Tokens []uint32
	Media  *Media
}

// NewPrompt makes a prompt of parts and keeps their media alive. With bare, it omits the model's tokens around and
// between the rows of media.
func (m *Model) NewPrompt(parts []PromptPart, bare bool) (*Prompt, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]rz_part, len(parts))
	for i, part := range parts {
		list[i].tokens, list[i].n_tokens = pinned(&pinner, part.Tokens), uintptr(len(part.Tokens))
		media, release, err := optional[*rz_media](part.Media, fmt.Sprintf("parts[%d].Media", i))
		if err != nil {
			return nil, err
		}
		defer release()
		list[i].media = media
	}
	var flags uint32
	if bare {
		flags = rz_PROMPT_BARE
	}
	return made(m, func(model *rz_model, out **rz_prompt, e *rz_error) int32 {
		return lib.rz_prompt_new(model, unsafe.SliceData(list), uintptr(len(list)), flags, out, e)
	}, lib.rz_prompt_free,
		func(prompt *owned[*rz_prompt]) *Prompt { return &Prompt{prompt} })
}

// NewChatPrompt makes a prompt of messages, up to the beginning of the assistant's reply. Content parts name media by
// index: {"type": "image", "media": 0}.
func (m *Model) NewChatPrompt(transcript *Transcript, media ...*Media) (*Prompt, error) {
	text, err := marshal(transcript)
	if err != nil {
		return nil, err
	}
	list, release, err := handlesOf[*rz_media](media, "media")
	if err != nil {
		return nil, err
	}
	defer release()
	return made(m, func(model *rz_model, out **rz_prompt, e *rz_error) int32 {
		return lib.rz_prompt_from_chat(model, unsafe.SliceData(text), uintptr(len(text)),
			rz_CHAT_ADD_GENERATION_PROMPT, unsafe.SliceData(list), uintptr(len(list)), nil, out, e)
	}, lib.rz_prompt_free,
		func(prompt *owned[*rz_prompt]) *Prompt { return &Prompt{prompt} })
}

// Close frees the prompt. Closing twice is fine.
func (p *Prompt) Close() error {
	return p.held().close()
}

// Len returns the number of tokens, including one per row of media; 0 after Close.
func (p *Prompt) Len() (n int) {
	_ = use(p, func(prompt *rz_prompt, _ *rz_error) int32 {
		n = int(lib.rz_prompt_len(prompt))
		return rz_OK
	})
	return n
}

// Tokens returns the tokens, with [TokenMedia] for each row of media.
func (p *Prompt) Tokens() ([]uint32, error) {
	return sized(p, 0, lib.rz_prompt_tokens_into)
}

// MatchPrompt returns the length of the prompt's prefix that is already in the session's KV cache.
func (s *Session) MatchPrompt(prompt *Prompt) (int, error) {
	object, release, err := required[*rz_prompt](prompt, "prompt")
	if err != nil {
		return 0, err
	}
	defer release()
	var common uint32
	err = use(s, func(cache *rz_cache, e *rz_error) int32 {
		return lib.rz_cache_match_prompt(cache, object, &common, e)
	})
	return int(common), err
}

// PrefillPrompt appends the prompt's tokens from index first on, at least one. first is 0, or the result of
// [Session.MatchPrompt] after truncating the session to it.
func (s *Session) PrefillPrompt(ctx context.Context, prompt *Prompt, first int) error {
	object, release, err := required[*rz_prompt](prompt, "prompt")
	if err != nil {
		return err
	}
	defer release()
	from, err := whole(first, "first")
	if err != nil {
		return err
	}
	return s.append(ctx, func(cache *rz_cache, cancel *rz_cancel, e *rz_error) int32 {
		return lib.rz_prefill_prompt(cache, object, uintptr(from), cancel, e)
	})
}
