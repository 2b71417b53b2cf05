package realizar

/*
#include <stdlib.h>
#include <realizar.h>

int32_t realizarGoProgress(uint64_t done, uint64_t total, void *user);
int32_t realizarGoWrite(void *data, size_t n, void *user);
int32_t realizarGoRead(void *out, size_t n, void *user);
static rz_progress_callback progress_callback(void) { return realizarGoProgress; }
static rz_write_callback write_callback(void) { return (rz_write_callback)realizarGoWrite; }
static rz_read_callback read_callback(void) { return realizarGoRead; }
*/
import "C"

import (
	"context"
	"fmt"
	"image"
	"image/draw"
	"io"
	"math"
	"runtime"
	"runtime/cgo"
	"strings"
	"time"
	"unsafe"

	"realizar.dev/go/hub"
)

// Encoder makes media of pictures, for a model that sees. It may be used by any number of goroutines at once.
type Encoder struct{ encoder *owned[*C.rz_encoder] }

// Media are the rows of a picture or a sound, which a model takes among its tokens, in any number of prompts. They may
// be used by any number of goroutines at once.
type Media struct {
	media *owned[*C.rz_media]
	ctx   context.Context // ends steps
}

// Prompt is tokens and media in their order. It may be used by any number of goroutines at once.
type Prompt struct{ prompt *owned[*C.rz_prompt] }

// PixelFormat is the order of the bytes of a pixel.
type PixelFormat uint32

const (
	PixelsRGB8  PixelFormat = C.RZ_PIXELS_RGB8  // three bytes, red first
	PixelsRGBA8 PixelFormat = C.RZ_PIXELS_RGBA8 // four bytes, the fourth of which is alpha
	PixelsBGRA8 PixelFormat = C.RZ_PIXELS_BGRA8 // four bytes, blue first
	PixelsGray8 PixelFormat = C.RZ_PIXELS_GRAY8 // one byte
)

// Pixels are a picture in memory, its rows from the top.
type Pixels struct {
	Format        PixelFormat
	Width, Height int
	Stride        int // bytes from one row to the next; 0: rows follow one another
	Data          []byte
}

// PixelsOf are those of a picture of the standard library.
func PixelsOf(picture image.Image) Pixels {
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

// check refuses pixels that end before the last row does, behind whose end C would read.
func (p *Pixels) check() error {
	width := map[PixelFormat]int{PixelsRGB8: 3, PixelsRGBA8: 4, PixelsBGRA8: 4, PixelsGray8: 1}[p.Format]
	row, stride := int64(width)*int64(p.Width), int64(p.Stride)
	if stride == 0 {
		stride = row
	}
	const most = 65535
	if min(p.Width, p.Height) < 1 || max(p.Width, p.Height) > most || stride < row || stride > math.MaxInt32 ||
		stride*int64(p.Height-1)+row > int64(len(p.Data)) {
		return &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf("%d bytes are no %d x %d pixels", len(p.Data), p.Width, p.Height)}
	}
	return nil
}

// EncoderOptions are optional; the zero value means the defaults.
type EncoderOptions struct {
	Device       uint32      // 0 or 1: the CPU
	Quantize     ElementType // type that matrices of floats are converted to; 0: the types of the files
	MaxRows      int         // the most rows that a picture or a sound may have; 0: what the files allow, at most 4096
	Kind         MediaKind   // the encoder of a file that has several; 0: pictures, else sound
	AllowUnknown bool        // keys and tensors that are not known are passed over

	Progress func(done, total uint64) error // told bytes; an error of it ends the load; nil: nobody
}

// MediaOptions are optional; the zero value means the defaults.
type MediaOptions struct {
	MinRows, MaxRows int    // bounds that pictures are enlarged or shrunk to where the model takes any size; 0: the encoder's
	MaxTiles         int    // the most tiles, an overview not counted; 0: the model's; 1: the whole picture alone
	MaxPixels        int    // the most pixels of a picture in a file; 0: 64 million
	Background       uint32 // the colour behind transparent pixels, 0xffRRGGBB; 0: white

	// [Media.Step] does the work, until the context ends, and prompts refuse the medium until it is done. Progress is not
	// told.
	InSteps bool

	Progress func(done, total uint64) error // told tiles; an error of it ends the call; nil: nobody
}

// EncoderInfo describes an encoder.
type EncoderInfo struct {
	Projector                 string
	Mutual                    bool // the rows of a picture see each other, so that one step of the model computes them
	RowDim, NLayers           int
	TileSide                  int // pixels of the side of a tile; 0: a picture is one tile of any size
	Grain                     int // pixels of which the sides of tiles are multiples
	MinRows, MaxRows          int
	WeightBytes, ScratchBytes uint64
	Kinds                     []MediaKind // of the media that it makes
	SampleRate                int         // samples a second that sound is brought to; 0 of pictures
}

// EncoderPlan is the memory that an encoder takes beside that of its model, in bytes.
type EncoderPlan struct {
	MaxRows                       int // rows of the largest picture
	WeightsHost, ScratchHost, Row uint64
}

// MediaKind is what rows stand for.
type MediaKind uint32

const (
	Image  MediaKind = C.RZ_MEDIA_IMAGE
	Audio  MediaKind = C.RZ_MEDIA_AUDIO
	Text   MediaKind = C.RZ_MEDIA_TEXT   // the source of an encoder and a decoder
	Vector MediaKind = C.RZ_MEDIA_VECTOR // the vector of a picture, which is compared with those of texts
	Video  MediaKind = C.RZ_MEDIA_VIDEO  // frames of a video
)

// TokenMedia stands in the tokens of sessions and prompts for a row of a medium.
const TokenMedia uint32 = C.RZ_TOKEN_MEDIA

// MediaInfo describes a medium.
type MediaInfo struct {
	Kind                   MediaKind
	Rows                   int // each takes the place of a token in a session
	Tokens                 int // of a prompt: the rows, and the model's tokens around and between them
	RowDim                 int
	Columns, Lines         int // rows of a line, and lines; of a tile where there are several, of a pair of frames
	Pairs                  int // of frames of a video
	TileColumns, TileLines int // 0 where the picture is one tile
	Overview               bool
	Width, Height          int // pixels of the picture, turned upright; samples of a sound, and 0
	SeenWidth, SeenHeight  int // pixels as the model sees them, by which places that it names are mapped back
	Bytes                  uint64
	EncodeTime             time.Duration
	Hash                   [32]byte // the same for the same pixels, options and encoder: a key for tables
}

// LoadEncoder loads the encoder that belongs to the model: the .gguf file with the projector ("mmproj-..."), or a
// folder with a config.json, that of the model where it has both; or the encoder of a model of the Hub,
// "hf:owner/name". It stops early when the context ends.
func (m *Model) LoadEncoder(ctx context.Context, path string, options *EncoderOptions) (*Encoder, error) {
	return withEncoder(ctx, path, options, func(name *C.char, params *C.rz_encoder_params) (*Encoder, error) {
		return made(m.model, func(model *C.rz_model, out **C.rz_encoder, e *C.rz_error) C.rz_status {
			return C.rz_encoder_load(model, name, params, out, e)
		}, func(encoder *C.rz_encoder) { C.rz_encoder_free(encoder) },
			func(encoder *owned[*C.rz_encoder]) *Encoder { return &Encoder{encoder} })
	})
}

// PlanEncoder tells what [Model.LoadEncoder] will take, before a weight is read.
func (m *Model) PlanEncoder(ctx context.Context, path string, options *EncoderOptions) (EncoderPlan, error) {
	var p C.rz_encoder_plan
	p.struct_size = C.uint32_t(unsafe.Sizeof(p))
	_, err := withEncoder(ctx, path, options, func(name *C.char, params *C.rz_encoder_params) (*Encoder, error) {
		return nil, use(m.model, func(model *C.rz_model, e *C.rz_error) C.rz_status {
			return C.rz_encoder_plan_get(model, name, nil, 0, params, &p, e)
		})
	})
	return EncoderPlan{int(p.max_rows), uint64(p.weights_host), uint64(p.scratch_host), uint64(p.row)}, err
}

// withEncoder calls f with the options as the library takes them.
func withEncoder(ctx context.Context, path string, options *EncoderOptions,
	f func(name *C.char, params *C.rz_encoder_params) (*Encoder, error)) (*Encoder, error) {
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
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	rows, err := whole(options.MaxRows, "MaxRows")
	if err != nil {
		return nil, err
	}
	params := C.rz_encoder_params{
		device: C.uint32_t(options.Device), quantize: C.uint32_t(options.Quantize), max_rows: rows, cancel: cancel,
	}
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	params.flags = C.uint32_t(options.Kind) & (C.RZ_ENCODER_IMAGE | C.RZ_ENCODER_AUDIO)
	if options.AllowUnknown {
		params.flags |= C.RZ_MODEL_ALLOW_UNKNOWN
	}
	told := progress{call: options.Progress}
	if told.call != nil {
		var pinner runtime.Pinner
		defer pinner.Unpin()
		handle := cgo.NewHandle(&told)
		defer handle.Delete()
		pinner.Pin(&handle)
		params.progress, params.progress_user = C.progress_callback(), unsafe.Pointer(&handle)
	}
	encoder, err := f(name, &params)
	return encoder, told.instead(ctx, err)
}

// instead is the error that ended a call which was told of: that of who was told counts first.
func (p *progress) instead(ctx context.Context, err error) error {
	if err != nil && p.err != nil {
		return resumed(p.err)
	}
	return ended(ctx, err)
}

// Close frees the encoder; its media stay. Closing twice is fine.
func (e *Encoder) Close() error {
	e.encoder.close()
	return nil
}

// Info describes the encoder.
func (e *Encoder) Info() (EncoderInfo, error) {
	var c C.rz_encoder_info
	c.struct_size = C.uint32_t(unsafe.Sizeof(c))
	err := use(e.encoder, func(encoder *C.rz_encoder, e *C.rz_error) C.rz_status { return C.rz_encoder_info_get(encoder, &c, e) })
	return EncoderInfo{
		Projector: C.GoString(&c.projector[0]), Mutual: c.is_mutual != 0, RowDim: int(c.row_dim), NLayers: int(c.n_layers),
		TileSide: int(c.tile_side), Grain: int(c.grain), MinRows: int(c.min_rows), MaxRows: int(c.max_rows),
		WeightBytes: uint64(c.weight_bytes), ScratchBytes: uint64(c.scratch_bytes),
		Kinds: kinds(uint32(c.kinds)), SampleRate: int(c.sample_rate),
	}, err
}

// EncodeImage encodes an image from the bytes of a PNG, JPEG, WebP, GIF or BMP file.
func (e *Encoder) EncodeImage(ctx context.Context, file []byte, options *MediaOptions) (*Media, error) {
	return e.encode(ctx, options, func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_image(encoder, unsafe.Pointer(unsafe.SliceData(file)), C.size_t(len(file)), params, out, e)
	})
}

// EncodePixels encodes a picture in memory.
func (e *Encoder) EncodePixels(ctx context.Context, pixels Pixels, options *MediaOptions) (*Media, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	p, err := pixels.pinned(&pinner)
	if err != nil {
		return nil, err
	}
	return e.encode(ctx, options, func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_pixels(encoder, &p, params, out, e)
	})
}

// EncodeFrames encodes a video: at least two frames of one size, and the time of each in seconds from its beginning.
// MaxTiles and MaxPixels do not count; MaxRows is a bound on all frames together.
func (e *Encoder) EncodeFrames(ctx context.Context, frames []Pixels, times []float64, options *MediaOptions) (*Media, error) {
	if len(frames) != len(times) {
		return nil, &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf("%d frames have %d times", len(frames), len(times))}
	}
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]C.rz_pixels, len(frames))
	for i := range frames {
		var err error
		if list[i], err = frames[i].pinned(&pinner); err != nil {
			return nil, err
		}
	}
	return e.encode(ctx, options, func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_frames(encoder, unsafe.SliceData(list), (*C.double)(unsafe.SliceData(times)), C.size_t(len(times)), params, out, e)
	})
}

// pinned are the pixels as the library takes them.
func (p *Pixels) pinned(pinner *runtime.Pinner) (c C.rz_pixels, err error) {
	if err = p.check(); err == nil {
		c = C.rz_pixels{
			format: C.uint32_t(p.Format), width: C.uint32_t(p.Width), height: C.uint32_t(p.Height),
			stride: C.size_t(p.Stride), data: unsafe.Pointer(pinned(pinner, p.Data)),
		}
		c.struct_size = C.uint32_t(unsafe.Sizeof(c))
	}
	return c, err
}

// EncodeSamples encodes a sound: samples of so many channels, one of each after the other, from -1 to 1, rate of each a
// second. Several channels become their mean. Of the options MaxRows, InSteps and Progress count, which is told of
// parts.
func (e *Encoder) EncodeSamples(ctx context.Context, samples []float32, channels int, rate uint32, options *MediaOptions) (*Media, error) {
	n, err := whole(channels, "channels")
	if err != nil {
		return nil, err
	}
	return e.encode(ctx, options, func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_samples(encoder, (*C.float)(unsafe.SliceData(samples)), C.size_t(len(samples)), n, C.uint32_t(rate), params, out, e)
	})
}

// EncodeAudio is [Encoder.EncodeSamples] for the bytes of a WAV, MP3, FLAC or Ogg file.
func (e *Encoder) EncodeAudio(ctx context.Context, file []byte, options *MediaOptions) (*Media, error) {
	return e.encode(ctx, options, func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_audio(encoder, unsafe.Pointer(unsafe.SliceData(file)), C.size_t(len(file)), params, out, e)
	})
}

// kinds are those of which the bits are set.
func kinds(bits uint32) (all []MediaKind) {
	for _, kind := range []MediaKind{Image, Audio, Vector, Video} {
		if bits&uint32(kind) != 0 {
			all = append(all, kind)
		}
	}
	return all
}

func (o *MediaOptions) params() (params C.rz_media_params, err error) {
	var counts counts
	params.struct_size = C.uint32_t(unsafe.Sizeof(params))
	if o != nil {
		params.min_rows, params.max_rows = counts.of(o.MinRows, "MinRows"), counts.of(o.MaxRows, "MaxRows")
		params.max_tiles, params.max_pixels = counts.of(o.MaxTiles, "MaxTiles"), counts.of(o.MaxPixels, "MaxPixels")
		params.background = C.uint32_t(o.Background)
		if o.InSteps {
			params.flags = C.RZ_ENCODE_STEPS
		}
	}
	return params, counts.err
}

func (e *Encoder) encode(ctx context.Context, options *MediaOptions,
	f func(encoder *C.rz_encoder, params *C.rz_media_params, out **C.rz_media, e *C.rz_error) C.rz_status) (*Media, error) {
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	params, err := options.params()
	if err != nil {
		return nil, err
	}
	told := progress{}
	params.cancel = cancel
	if params.flags != 0 {
		media, err := made(e.encoder, func(encoder *C.rz_encoder, out **C.rz_media, e *C.rz_error) C.rz_status {
			return f(encoder, &params, out, e)
		}, func(media *C.rz_media) {
			C.rz_media_free(media)
			stop()
		}, func(media *owned[*C.rz_media]) *Media { return &Media{media, ctx} })
		if err != nil {
			stop()
		}
		return media, ended(ctx, err)
	}
	defer stop()
	if options != nil && options.Progress != nil {
		var pinner runtime.Pinner
		defer pinner.Unpin()
		told.call = options.Progress
		handle := cgo.NewHandle(&told)
		defer handle.Delete()
		pinner.Pin(&handle)
		params.progress, params.progress_user = C.progress_callback(), unsafe.Pointer(&handle)
	}
	media, err := makeMedia(e.encoder, func(encoder *C.rz_encoder, out **C.rz_media, e *C.rz_error) C.rz_status {
		return f(encoder, &params, out, e)
	})
	return media, told.instead(ctx, err)
}

func makeMedia[F any](from *owned[F], f func(from F, out **C.rz_media, e *C.rz_error) C.rz_status) (*Media, error) {
	return made(from, f, func(media *C.rz_media) { C.rz_media_free(media) },
		func(media *owned[*C.rz_media]) *Media { return &Media{media, context.Background()} })
}

// Measure is what [Media.Info] would say of a picture of so many pixels, or of a sound of width samples of a channel at
// the rate of the encoder and no height, without one; time and hash are zero.
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
	return mediaInfo(e.encoder, func(encoder *C.rz_encoder, out *C.rz_media_info, e *C.rz_error) C.rz_status {
		return C.rz_media_measure(encoder, w, h, &params, out, e)
	})
}

// MediaFromRows makes a medium of rows that an encoder of the caller gave, each of rowDim numbers. columns times lines
// is the number of rows, for models whose positions go by both; 0 for both: one line.
func (m *Model) MediaFromRows(kind MediaKind, rows []float32, rowDim, columns, lines int) (*Media, error) {
	if rowDim < 1 || len(rows)%rowDim != 0 {
		return nil, &Error{Code: ErrInvalidArgument, Message: fmt.Sprintf("%d numbers are no rows of %d", len(rows), rowDim)}
	}
	var counts counts
	dim, across, down := counts.of(rowDim, "rowDim"), counts.of(columns, "columns"), counts.of(lines, "lines")
	if counts.err != nil {
		return nil, counts.err
	}
	return makeMedia(m.model, func(model *C.rz_model, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_rows(model, C.uint32_t(kind), (*C.float)(unsafe.SliceData(rows)), C.size_t(len(rows)/rowDim),
			dim, across, down, out, e)
	})
}

// MediaFromTokens makes the source of a model with an encoder and a decoder (Info.ReadsSource): what its encoder makes
// of a text, and the token that the decoder starts from. A prompt of it is all that a session of the model begins with.
func (m *Model) MediaFromTokens(ctx context.Context, tokens []uint32) (*Media, error) {
	cancel, stop, err := watch(ctx)
	if err != nil {
		return nil, err
	}
	defer stop()
	media, err := makeMedia(m.model, func(model *C.rz_model, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_from_tokens(model, (*C.uint32_t)(unsafe.SliceData(tokens)), C.size_t(len(tokens)), cancel, out, e)
	})
	return media, ended(ctx, err)
}

// LoadMedia reads a medium that was saved for the same model; no encoder is needed.
func (m *Model) LoadMedia(r io.Reader) (*Media, error) {
	t := transfer{reader: r}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	media, err := makeMedia(m.model, func(model *C.rz_model, out **C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_load(model, C.read_callback(), unsafe.Pointer(&handle), nil, out, e)
	})
	return media, t.instead(err)
}

// Save writes the medium to w, for [Model.LoadMedia].
func (m *Media) Save(w io.Writer) error {
	t := transfer{writer: w}
	handle := cgo.NewHandle(&t)
	defer handle.Delete()
	return t.instead(use(m.media, func(media *C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_save(media, C.write_callback(), unsafe.Pointer(&handle), nil, e)
	}))
}

// Close frees the medium; prompts and sessions that have it go on. Closing twice is fine.
func (m *Media) Close() error {
	m.media.close()
	return nil
}

func (m *Media) steps() (*owned[*C.rz_media], context.Context) { return m.media, m.ctx }

// Step works for about a budget of time on a medium that was made with [MediaOptions].InSteps. It tells whether there
// is more to do.
func (m *Media) Step(budget time.Duration) (more bool, err error) {
	return step([]*Media{m}, func(media []*C.rz_media, e *C.rz_error) C.rz_status {
		return C.rz_media_step(media[0], C.uint64_t(microseconds(budget)), e)
	})
}

// Rows are those of the medium, one behind the other, each of MediaInfo.RowDim numbers.
func (m *Media) Rows() ([]float32, error) {
	return sized(m.media, 0, func(media *C.rz_media, out *float32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_media_rows_into(media, (*C.float)(out), capacity, n, e)
	})
}

// Info describes the medium.
func (m *Media) Info() (MediaInfo, error) {
	return mediaInfo(m.media, func(media *C.rz_media, out *C.rz_media_info, e *C.rz_error) C.rz_status {
		return C.rz_media_info_get(media, out, e)
	})
}

func mediaInfo[H any](of *owned[H], f func(of H, out *C.rz_media_info, e *C.rz_error) C.rz_status) (MediaInfo, error) {
	var c C.rz_media_info
	c.struct_size = C.uint32_t(unsafe.Sizeof(c))
	err := use(of, func(of H, e *C.rz_error) C.rz_status { return f(of, &c, e) })
	return MediaInfo{
		Kind: MediaKind(c.kind), Rows: int(c.n_rows), Tokens: int(c.n_tokens), RowDim: int(c.row_dim), Columns: int(c.columns),
		Lines: int(c.lines), TileColumns: int(c.tile_columns), TileLines: int(c.tile_lines), Overview: c.has_overview != 0,
		Width: int(c.width), Height: int(c.height), SeenWidth: int(c.seen_width), SeenHeight: int(c.seen_height),
		Pairs: int(c.pairs), Bytes: uint64(c.bytes), EncodeTime: time.Duration(c.encode_ns), Hash: *(*[32]byte)(unsafe.Pointer(&c.hash)),
	}, err
}

// PromptPart is either tokens or a medium.
type PromptPart struct {
	Tokens []uint32
	Media  *Media
}

// NewPrompt makes a prompt of parts, which keeps their media alive. With bare it has the rows of media alone, without
// the model's tokens around and between them.
func (m *Model) NewPrompt(parts []PromptPart, bare bool) (*Prompt, error) {
	var pinner runtime.Pinner
	defer pinner.Unpin()
	list := make([]C.rz_part, len(parts))
	for i, part := range parts {
		list[i].tokens, list[i].n_tokens = (*C.uint32_t)(pinned(&pinner, part.Tokens)), C.size_t(len(part.Tokens))
		if part.Media != nil {
			media, err := part.Media.media.acquire()
			if err != nil {
				return nil, err
			}
			defer part.Media.media.release()
			list[i].media = media
		}
	}
	var flags C.uint32_t
	if bare {
		flags = C.RZ_PROMPT_BARE
	}
	return made(m.model, func(model *C.rz_model, out **C.rz_prompt, e *C.rz_error) C.rz_status {
		return C.rz_prompt_new(model, unsafe.SliceData(list), C.size_t(len(list)), flags, out, e)
	}, func(prompt *C.rz_prompt) { C.rz_prompt_free(prompt) },
		func(prompt *owned[*C.rz_prompt]) *Prompt { return &Prompt{prompt} })
}

// NewChatPrompt makes a prompt of messages, up to where the assistant speaks next. Their content may have parts with
// the numbers of media: {"type": "image", "media": 0}.
func (m *Model) NewChatPrompt(transcript *Transcript, media ...*Media) (*Prompt, error) {
	text, err := marshal(transcript)
	if err != nil {
		return nil, err
	}
	list, release, err := acquireMedia(media)
	if err != nil {
		return nil, err
	}
	defer release()
	return made(m.model, func(model *C.rz_model, out **C.rz_prompt, e *C.rz_error) C.rz_status {
		return C.rz_prompt_from_chat(model, (*C.char)(unsafe.Pointer(unsafe.SliceData(text))), C.size_t(len(text)),
			C.RZ_CHAT_ADD_GENERATION_PROMPT, unsafe.SliceData(list), C.size_t(len(list)), nil, out, e)
	}, func(prompt *C.rz_prompt) { C.rz_prompt_free(prompt) },
		func(prompt *owned[*C.rz_prompt]) *Prompt { return &Prompt{prompt} })
}

// Close frees the prompt. Closing twice is fine.
func (p *Prompt) Close() error {
	p.prompt.close()
	return nil
}

// Len is the number of tokens, each row of a medium counted as one; 0 once it is closed.
func (p *Prompt) Len() (n int) {
	_ = use(p.prompt, func(prompt *C.rz_prompt, _ *C.rz_error) C.rz_status {
		n = int(C.rz_prompt_len(prompt))
		return C.RZ_OK
	})
	return n
}

// Tokens are those of the prompt, with [TokenMedia] for each row of a medium.
func (p *Prompt) Tokens() ([]uint32, error) {
	return sized(p.prompt, 0, func(prompt *C.rz_prompt, out *uint32, capacity C.size_t, n *C.size_t, e *C.rz_error) C.rz_status {
		return C.rz_prompt_tokens_into(prompt, (*C.uint32_t)(out), capacity, n, e)
	})
}

// acquire returns the handle, NULL for nil, and a function that ends its use.
func (p *Prompt) acquire() (*C.rz_prompt, func(), error) {
	if p == nil {
		return nil, func() {}, nil
	}
	handle, err := p.prompt.acquire()
	return handle, p.prompt.release, err
}

// MatchPrompt is how many of the first tokens of a prompt the session need not compute again.
func (s *Session) MatchPrompt(prompt *Prompt) (int, error) {
	object, err := prompt.prompt.acquire()
	if err != nil {
		return 0, err
	}
	defer prompt.prompt.release()
	var common C.uint32_t
	err = use(s.cache, func(cache *C.rz_cache, e *C.rz_error) C.rz_status {
		return C.rz_cache_match_prompt(cache, object, &common, e)
	})
	return int(common), err
}

// PrefillPrompt appends the tokens of a prompt from number first on, at least one: 0, or what [Session.MatchPrompt]
// gave once the session was truncated to it.
func (s *Session) PrefillPrompt(ctx context.Context, prompt *Prompt, first int) error {
	object, err := prompt.prompt.acquire()
	if err != nil {
		return err
	}
	defer prompt.prompt.release()
	from, err := whole(first, "first")
	if err != nil {
		return err
	}
	return s.append(ctx, func(cache *C.rz_cache, cancel *C.rz_cancel, e *C.rz_error) C.rz_status {
		return C.rz_prefill_prompt(cache, object, C.size_t(from), cancel, e)
	})
}
