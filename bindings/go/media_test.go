// The tests of media and prompts.
package realizar

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/color"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"
)

// rowsOf are the embeddings of tokens, the first tensor of the tiny model.
func rowsOf(t *testing.T, tokens []uint32) (rows []float32) {
	t.Helper()
	file, err := os.ReadFile(storyModel)
	must(t, err)
	table := unsafe.Slice((*float32)(unsafe.Pointer(&file[14176])), 512*64)
	for _, token := range tokens {
		rows = append(rows, table[token*64:][:64]...)
	}
	return rows
}

func mediaOf(t *testing.T, model *Model, rows []float32, columns, lines int) *Media {
	t.Helper()
	media, err := model.MediaFromRows(Image, rows, 64, columns, lines)
	must(t, err)
	t.Cleanup(func() { media.Close() })
	return media
}

func TestRowsOfMediaStandForTokens(t *testing.T) {
	model := load(t, storyModel)
	session := newSession(t, model, 0)
	tokens := tokensOf(t, session, prompt)
	want := written(t, session, tokens, &JobOptions{MaxTokens: 30})

	rows := rowsOf(t, tokens[1:4])
	media := mediaOf(t, model, rows, 0, 0)
	if info, err := media.Info(); err != nil || info.Kind != Image || info.Rows != 3 || info.RowDim != 64 || info.Columns != 3 {
		t.Fatal(info, err)
	}
	if same, err := media.Rows(); err != nil || !slices.Equal(same, rows) {
		t.Fatal(same, err)
	}
	whole, err := model.NewPrompt([]PromptPart{{Tokens: tokens[:1]}, {Media: media}, {Tokens: tokens[4:]}}, true)
	must(t, err)
	defer whole.Close()
	ids := append(append([]uint32{tokens[0]}, TokenMedia, TokenMedia, TokenMedia), tokens[4:]...)
	if has, err := whole.Tokens(); err != nil || !slices.Equal(has, ids) || whole.Len() != len(ids) {
		t.Fatal(has, err)
	}
	session = newSession(t, model, 0)
	for range 2 {
		held, err := session.MatchPrompt(whole)
		must(t, err)
		held = min(held, len(ids)-1)
		must(t, session.Truncate(held))
		if text := written(t, session, nil, &JobOptions{MaxTokens: 30, Prompt: whole, PromptFirst: held}); text != want {
			t.Fatal(text)
		}
	}
	must(t, session.Truncate(2))
	must(t, session.PrefillPrompt(t.Context(), whole, 2))
	if held, err := session.MatchPrompt(whole); err != nil || held != len(ids) {
		t.Fatal(held, err)
	}
	if has, err := session.Tokens(); err != nil || !slices.Equal(has, ids) {
		t.Fatal(has, err)
	}
}

// encoderOf is an encoder of sound for the tiny model.
func encoderOf(t *testing.T, model *Model) *Encoder {
	t.Helper()
	tests, _, _ := strings.Cut(storyModel, "data")
	path := filepath.Join(t.TempDir(), "mmproj.gguf")
	if said, err := exec.Command("python3", tests+"encoder.py", "sound/ultravox", path).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: encoders, because there is no python3")
	} else if err != nil {
		t.Fatal(err, string(said))
	}
	encoder, err := model.LoadEncoder(t.Context(), path, nil)
	must(t, err)
	t.Cleanup(func() { encoder.Close() })
	return encoder
}

func TestSoundsAreEncodedInSteps(t *testing.T) {
	model := load(t, storyModel)
	encoder := encoderOf(t, model)
	const n = 70000
	var samples, both []float32
	for i := range n {
		x := float32(i*i%2048)/4096 - 0.25
		samples, both = append(samples, x), append(both, x+0.125, x-0.125)
	}
	whole, err := encoder.EncodeSamples(t.Context(), samples, 1, 16000, nil)
	must(t, err)
	defer whole.Close()
	rows, err := whole.Rows()
	must(t, err)
	info, err := whole.Info()
	must(t, err)
	measured, err := encoder.Measure(n, 0, nil)
	must(t, err)
	if measured.Kind != Audio || measured.Rows != info.Rows || measured.Tokens != info.Tokens || measured.Width != n {
		t.Error(measured, info)
	}
	// Channels are mixed, and steps change nothing.
	ctx, cancel := context.WithCancel(t.Context())
	media, err := encoder.EncodeSamples(ctx, both, 2, 16000, &MediaOptions{InSteps: true})
	must(t, err)
	if _, err := media.Rows(); !errors.Is(err, ErrNotReady) {
		t.Error(err)
	}
	if early, err := media.Info(); err != nil || early.Rows != info.Rows {
		t.Error(early, err)
	}
	steps := 0
	for more := true; more; steps++ {
		more, err = media.Step(time.Microsecond)
		must(t, err)
	}
	if same, err := media.Rows(); err != nil || steps < 2 || !slices.Equal(same, rows) {
		t.Error(steps, err)
	}
	if late, err := media.Info(); err != nil || late.Hash != info.Hash {
		t.Error(late, err)
	}
	if more, err := media.Step(NoLimit); more || err != nil {
		t.Error(more, err)
	}
	cancel()
	if same, err := media.Rows(); err != nil || !slices.Equal(same, rows) {
		t.Error(err)
	}
	must(t, media.Close())
	// A context ends the work.
	ctx, cancel = context.WithCancel(t.Context())
	stopped, err := encoder.EncodeSamples(ctx, samples, 1, 16000, &MediaOptions{InSteps: true})
	must(t, err)
	defer stopped.Close()
	cancel()
	if _, err := stopped.Step(NoLimit); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := encoder.EncodeSamples(t.Context(), samples, 3, 16000, nil); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestFramesBecomeAVideo(t *testing.T) {
	tests, _, _ := strings.Cut(storyModel, "data")
	folder := t.TempDir()
	if said, err := exec.Command("python3", tests+"encoder.py", "videos/qwen25", folder).CombinedOutput(); errors.Is(err, exec.ErrNotFound) {
		t.Skip("SKIPPED: videos, because there is no python3")
	} else if err != nil {
		t.Fatal(err, string(said))
	}
	model := load(t, folder)
	encoder, err := model.LoadEncoder(t.Context(), folder, nil)
	must(t, err)
	defer encoder.Close()
	const width, height = 84, 56
	frames := make([]Pixels, 3)
	for i := range frames {
		data := make([]byte, 3*width*height)
		for j := range data {
			data[j] = byte(j*7 + i)
		}
		frames[i] = Pixels{Format: PixelsRGB8, Width: width, Height: height, Data: data}
	}
	whole, err := encoder.EncodeFrames(t.Context(), frames, []float64{0, 0.5, 1}, nil)
	must(t, err)
	defer whole.Close()
	info, err := whole.Info()
	must(t, err)
	if info.Kind != Video || info.Pairs != 2 || info.Rows != 12 || info.Tokens != 14 || info.Columns != 3 || info.Lines != 2 || info.Width != width {
		t.Error(info)
	}
	rows, err := whole.Rows()
	must(t, err)
	inSteps, err := encoder.EncodeFrames(t.Context(), frames, []float64{0, 0.5, 1}, &MediaOptions{InSteps: true})
	must(t, err)
	defer inSteps.Close()
	for more := true; more; {
		more, err = inSteps.Step(time.Microsecond)
		must(t, err)
	}
	if same, err := inSteps.Rows(); err != nil || !slices.Equal(same, rows) {
		t.Error(err)
	}
	for _, wrong := range []struct {
		n       int
		times   []float64
		message string
	}{{3, []float64{0, 1}, "times has 2 entries; it must have as many as frames, 3"}, {3, []float64{0, 2, 1}, "entry 2: the time"}, {0, nil, "0 frames"}} {
		_, err := encoder.EncodeFrames(t.Context(), frames[:wrong.n], wrong.times, nil)
		if !errors.Is(err, ErrInvalidArgument) || !strings.Contains(err.Error(), wrong.message) {
			t.Error(err)
		}
	}
}

func TestMediaInMessages(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	media := mediaOf(t, model, rowsOf(t, []uint32{5, 6, 7}), 0, 0)
	parts := []map[string]any{{"type": "image", "media": 0}, {"type": "text", "text": prompt}}
	transcript := &Transcript{Messages: []any{map[string]any{"role": "user", "content": parts}}}
	seen, err := model.NewChatPrompt(transcript, media)
	must(t, err)
	defer seen.Close()
	tokens, err := seen.Tokens()
	must(t, err)
	at := slices.Index(tokens, TokenMedia)
	if at < 0 || !slices.Equal(tokens[at:at+3], []uint32{TokenMedia, TokenMedia, TokenMedia}) || slices.Contains(tokens[at+3:], TokenMedia) {
		t.Error(tokens)
	}
	if _, err := model.NewChatPrompt(transcript, media, media); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
}

func TestConversationsAreShownMedia(t *testing.T) {
	model := load(t, chatModel(t, plainTemplate))
	media := mediaOf(t, model, rowsOf(t, []uint32{5, 6, 7}), 0, 0)
	shown := func(text string) any {
		parts := []map[string]any{{"type": "image", "media": 0}, {"type": "text", "text": text}}
		return map[string]any{"role": "user", "content": parts}
	}
	talk, err := model.NewConversation(nil)
	must(t, err)
	defer talk.Close()
	must(t, talk.AddMedia([]*Media{media}, shown(prompt)))
	must(t, media.Close())
	// It is the reply to a prompt of the same.
	same := mediaOf(t, model, rowsOf(t, []uint32{5, 6, 7}), 0, 0)
	whole, err := model.NewChatPrompt(&Transcript{Messages: []any{shown(prompt)}}, same)
	must(t, err)
	defer whole.Close()
	want := written(t, newSession(t, model, 0), nil, &JobOptions{MaxTokens: 10, Prompt: whole})
	said := ""
	for part, err := range talk.Reply(t.Context(), &ReplyOptions{MaxTokens: 10}) {
		must(t, err)
		if part.Kind == PartContent {
			said += part.Text
		}
	}
	if info, err := talk.Info(); err != nil || said != want || want == "" || info.Prompt != whole.Len() || info.MediaCount != 1 {
		t.Fatal(said, want, info, err)
	}
	again, err := talk.Media(0)
	must(t, err)
	defer again.Close()
	a, err := again.Info()
	must(t, err)
	if b, err := same.Info(); err != nil || a.Hash != b.Hash {
		t.Error(a, b, err)
	}
	if _, err := talk.Media(1); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if err := talk.AddMedia(nil, shown("x")); !errors.Is(err, ErrInvalidArgument) {
		t.Error(err)
	}
	if err := talk.AddMedia([]*Media{media}, shown("x")); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestPromptsAreEmbeddedAndStored(t *testing.T) {
	model := load(t, storyModel)
	tokens := tokensOf(t, newSession(t, model, 0), prompt)
	media := mediaOf(t, model, rowsOf(t, tokens[1:4]), 0, 0)
	whole, err := model.NewPrompt([]PromptPart{{Tokens: tokens[:1]}, {Media: media}, {Tokens: tokens[4:]}}, true)
	must(t, err)
	defer whole.Close()
	for _, pooling := range []Pooling{PoolingMean, PoolingNone} {
		want, err := model.EmbedTokens(t.Context(), [][]uint32{tokens}, &EmbedOptions{Pooling: pooling})
		must(t, err)
		has, err := model.EmbedPrompts(t.Context(), []*Prompt{whole}, &EmbedOptions{Pooling: pooling})
		if err != nil || !slices.EqualFunc(has, want, slices.Equal[[]float32]) {
			t.Error(pooling, err)
		}
	}
	if none, err := model.EmbedPrompts(t.Context(), nil, nil); none != nil || err != nil {
		t.Error(none, err)
	}
	store, err := model.NewStore(&StoreOptions{MinTokens: 2})
	must(t, err)
	defer store.Close()
	for held := range 2 {
		session, err := store.TakePrompt(whole, nil)
		must(t, err)
		defer session.Close()
		if n, err := session.Len(), error(nil); err != nil || n != held*(len(tokens)-1) {
			t.Fatal(n, err)
		}
		must(t, session.PrefillPrompt(t.Context(), whole, session.Len()))
		must(t, store.Put(session))
	}
}

func TestMediaAreSaved(t *testing.T) {
	model := load(t, storyModel)
	media := mediaOf(t, model, rowsOf(t, []uint32{5, 6, 7, 8}), 2, 2)
	var file bytes.Buffer
	must(t, media.Save(&file))
	again, err := model.LoadMedia(&file)
	must(t, err)
	defer again.Close()
	info, err := media.Info()
	must(t, err)
	if other, err := again.Info(); err != nil || other.Hash != info.Hash || info.Hash == [32]byte{} || other.Columns != 2 {
		t.Fatal(other, err)
	}
	if other, err := mediaOf(t, model, make([]float32, 256), 2, 2).Info(); err != nil || other.Hash == info.Hash {
		t.Fatal(other, err)
	}
	if _, err := model.LoadMedia(bytes.NewReader(make([]byte, 1000))); !errors.Is(err, ErrFormat) {
		t.Fatal(err)
	}
}

func TestWrongMediaAreRefused(t *testing.T) {
	model := load(t, storyModel)
	nan := make([]float32, 64)
	nan[3] = float32(math.NaN())
	for _, wrong := range []struct {
		kind                   MediaKind
		rows                   []float32
		width, columns, rowsUp int
	}{
		{Image, make([]float32, 63), 63, 0, 0}, {Image, make([]float32, 63), 64, 0, 0}, {Image, nil, 64, 0, 0}, {Image, nan, 64, 0, 0},
		{Image, make([]float32, 64), 0, 0, 0}, {Image, make([]float32, 256), 64, 3, 1}, {7, make([]float32, 64), 64, 0, 0},
	} {
		if _, err := model.MediaFromRows(wrong.kind, wrong.rows, wrong.width, wrong.columns, wrong.rowsUp); !errors.Is(err, ErrInvalidArgument) {
			t.Error(wrong.width, err)
		}
	}
	media := mediaOf(t, model, rowsOf(t, []uint32{5}), 0, 0)
	for _, parts := range [][]PromptPart{{{}}, {{Tokens: []uint32{512}}}, {{Tokens: []uint32{1}, Media: media}}} {
		if _, err := model.NewPrompt(parts, false); !errors.Is(err, ErrInvalidArgument) {
			t.Error(parts, err)
		}
	}
	other := load(t, storyModel)
	if _, err := other.NewPrompt([]PromptPart{{Media: media}}, false); !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
	if _, err := model.LoadEncoder(t.Context(), storyModel, nil); !errors.Is(err, ErrUnsupported) {
		t.Error(err)
	}
	if _, err := model.PlanEncoder(t.Context(), "none.gguf", nil); !errors.Is(err, ErrIO) {
		t.Error(err)
	}
	media.Close()
	if _, err := model.NewPrompt([]PromptPart{{Media: media}}, false); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

func TestPixelsOfPictures(t *testing.T) {
	picture := image.NewRGBA(image.Rect(1, 1, 4, 3))
	picture.Set(1, 1, color.RGBA{1, 2, 3, 255})
	pixels := PixelsOf(picture)
	if pixels.Width != 3 || pixels.Height != 2 || !slices.Equal(pixels.Data[:4], []byte{1, 2, 3, 255}) || pixels.check() != nil {
		t.Fatal(pixels)
	}
	for _, wrong := range []Pixels{{}, {PixelsRGB8, 2, 2, 0, make([]byte, 11)}, {PixelsRGB8, 2, 2, 5, make([]byte, 12)}, {PixelsGray8, -1, 2, 0, nil}} {
		if !errors.Is(wrong.check(), ErrInvalidArgument) {
			t.Error(wrong)
		}
	}
}
