// Images and audio of messages: converts the forms of the APIs to media of the model, and caches the latest.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	neturl "net/url"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"realizar.dev/go"
)

// mediaItem is an image or audio in content, as the library takes it.
type mediaItem struct {
	Type  string `json:"type"`  // "image" or "audio"
	Media int    `json:"media"` // index among the media of the transcript
	Sum   string `json:"sum"`   // SHA-256 of the file, the key of caches and media
	file  []byte
}

// readPicture reads a data: URL of an image. The server fetches nothing for a client.
func readPicture(url string) (*mediaItem, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch strings.ToLower(scheme) {
	case "data":
	case "http", "https":
		return nil, fmt.Errorf("the URL of an image is an %s: URL, which the service does not fetch; it must be a data: URL in base64", strings.ToLower(scheme))
	default:
		return nil, fmt.Errorf("the URL of an image must be a data: URL in base64")
	}
	kind, text, comma := strings.Cut(rest, ",")
	if !comma || !strings.HasSuffix(strings.ToLower(kind), ";base64") {
		return nil, fmt.Errorf("the data: URL of an image must have the form data:image/TYPE;base64,BYTES")
	}
	return readBase64("image", text)
}

// readText reads a text document in a data: URL and puts the document's name before the text. is is false if the URL
// has no text document.
func readText(name, url string) (text string, is bool, err error) {
	kind, rest, _ := strings.Cut(url, ",")
	kind = strings.ToLower(kind)
	switch {
	case strings.HasPrefix(kind, "data:application/pdf"):
		return "", true, errors.New("PDF documents are not supported; send their text, or their pages as images")
	case !strings.HasPrefix(kind, "data:text/") && !strings.HasPrefix(kind, "data:application/json"):
		return "", false, nil
	}
	var bytes []byte
	if strings.HasSuffix(kind, ";base64") {
		if bytes, err = base64.StdEncoding.DecodeString(rest); err != nil {
			return "", true, fmt.Errorf("cannot decode the base64 of a document: %v", err)
		}
	} else if rest, err = neturl.PathUnescape(rest); err != nil {
		return "", true, fmt.Errorf("cannot decode the data: URL of a document: %v", err)
	} else {
		bytes = []byte(rest)
	}
	if !utf8.Valid(bytes) {
		return "", true, errors.New("a text document is not UTF-8; it must be")
	}
	if name != "" {
		name += "\n"
	}
	return name + string(bytes), true, nil
}

// readSound reads audio of a given format.
func readSound(text, format string) (*mediaItem, error) {
	if !slices.Contains([]string{"wav", "mp3", "flac", "ogg"}, format) {
		return nil, fmt.Errorf("input_audio.format is %.100q; it must be \"wav\", \"mp3\", \"flac\" or \"ogg\"", format)
	}
	return readBase64("audio", text)
}

// nouns are the plurals of kinds of media in errors.
var nouns = map[string]string{"image": "images", "audio": "audio"}

// readBase64 reads the bytes of a file in base64.
func readBase64(kind, text string) (*mediaItem, error) {
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("cannot decode the base64 of the %s: %v", kind, err)
	}
	if len(file) == 0 {
		return nil, fmt.Errorf("the data of the %s is empty", kind)
	}
	sum := sha256.Sum256(file)
	return &mediaItem{Type: kind, Sum: hex.EncodeToString(sum[:]), file: file}, nil
}

// urlOrObject is a URL, as text or in an object, which may have a level of detail.
type urlOrObject struct {
	URL string `json:"url"`
}

func (u *urlOrObject) UnmarshalJSON(data []byte) error {
	if string(data) != "null" && json.Unmarshal(data, &u.URL) == nil {
		return nil
	}
	type plain urlOrObject
	return json.Unmarshal(data, (*plain)(u))
}

// numbered assigns indices to the images and audio of a transcript, and returns them.
func numbered(t *realizar.Transcript) (all []*mediaItem) {
	for i, m := range t.Messages {
		m, ok := m.(message)
		parts, has := m.Content.([]any)
		if !ok || !has {
			continue
		}
		own := make([]any, len(parts)) // because other requests may share the message
		for j, part := range parts {
			if p, ok := part.(*mediaItem); ok {
				one := *p
				one.Media, part = len(all), &one
				all = append(all, &one)
			}
			own[j] = part
		}
		m.Content = own
		t.Messages[i] = m
	}
	return all
}

// sharedMedia is reference-counted media, cached for requests with the same file. The last owner frees the media,
// because the garbage collector does not manage the memory of media rows.
type sharedMedia struct {
	*realizar.Media
	tokens, bytes int
	owners        atomic.Int32
}

func (m *sharedMedia) size() int { return m.bytes }

func (m *sharedMedia) release() {
	if m.owners.Add(-1) == 0 {
		m.Close()
	}
}

// media returns the media of images and audio, from the cache or newly encoded, one at a time per encoder. The caller
// must call release.
func (l *lease) media(ctx context.Context, files []*mediaItem) (all []*realizar.Media, release func(), err error) {
	for kind, e := range l.encoders { // media of the last conversation stay
		last := map[string]bool{}
		for _, file := range files {
			last[file.Sum] = file.Type == kind
		}
		if len(files) > 0 {
			e.kept.hold(last)
		}
	}
	var shared []*sharedMedia
	release = func() {
		for _, one := range shared {
			one.release()
		}
	}
	tokens := 0
	for i, file := range files {
		e := l.encoders[file.Type]
		if e == nil {
			err = refuse("", "the model %q takes no %s", l.name, nouns[file.Type])
			break
		}
		var one *sharedMedia
		if one, err = e.media(ctx, file); err != nil {
			err = asMediaError(file.Type, i, err)
			break
		}
		all, shared = append(all, one.Media), append(shared, one)
		// If there is no room for the rest, it is not encoded.
		if tokens += one.tokens; tokens > l.engine.capacity {
			err = tooLong("messages", tokens, l.engine.capacity)
			break
		}
	}
	if err != nil {
		release()
		return nil, nil, err
	}
	return all, release, nil
}

// media returns the media of a file; the caller becomes an owner.
func (e *encoder) media(ctx context.Context, file *mediaItem) (*sharedMedia, error) {
	select {
	case e.turn <- struct{}{}:
		defer func() { <-e.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if kept, found := e.kept.get(file.Sum); found {
		kept.owners.Add(1)
		return kept, nil
	}
	encode := e.EncodeImage
	if file.Type == "audio" {
		encode = e.EncodeAudio
	}
	media, err := encode(ctx, file.file, nil)
	if err != nil {
		return nil, err
	}
	info, err := media.Info()
	if err != nil {
		media.Close()
		return nil, err
	}
	one := &sharedMedia{Media: media, tokens: info.Tokens, bytes: int(info.Bytes)}
	one.owners.Store(2) // the caller and the cache
	for _, forgotten := range e.kept.put(file.Sum, one) {
		forgotten.release()
	}
	return one, nil
}

// asMediaError returns the error for an invalid or too large file.
func asMediaError(noun string, i int, err error) error {
	for _, code := range []error{realizar.ErrFormat, realizar.ErrLimit, realizar.ErrUnsupported, realizar.ErrInvalidArgument} {
		if errors.Is(err, code) {
			var library *realizar.Error
			if errors.As(err, &library) {
				return refuse("", "%s %d cannot be read: %s", noun, i, library.Message)
			}
			return refuse("", "%s %d cannot be read: %v", noun, i, err)
		}
	}
	return err
}

// encoder encodes media of one kind for a model.
type encoder struct {
	*realizar.Encoder
	turn chan struct{} // semaphore: one encodes at a time
	kept keeper[*sharedMedia]
}

// close frees the encoder and its cached media.
func (e *encoder) close() {
	for _, forgotten := range e.kept.clear() {
		forgotten.release()
	}
	e.Close()
}
