// Pictures of messages: from the forms of the APIs to media of the model, the last of which are kept.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"realizar.dev/go"
)

// picture is a part of a content, as the library takes it.
type picture struct {
	Type  string `json:"type"`  // "image"
	Media int    `json:"media"` // number among the pictures of the transcript
	Sum   string `json:"sum"`   // SHA-256 of the file, by which caches and media are found
	file  []byte
}

// readPicture reads the URL of a picture, whose bytes it has itself. Nothing is fetched for a client.
func readPicture(url string) (*picture, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch strings.ToLower(scheme) {
	case "data":
	case "http", "https":
		return nil, fmt.Errorf("a picture comes as a data: URL with its bytes in base64: %s: URLs are not fetched", strings.ToLower(scheme))
	default:
		return nil, fmt.Errorf("a picture comes as a data: URL with its bytes in base64")
	}
	kind, text, comma := strings.Cut(rest, ",")
	if !comma || !strings.HasSuffix(strings.ToLower(kind), ";base64") {
		return nil, fmt.Errorf("a data: URL of a picture is data:image/...;base64,...")
	}
	return readBase64(text)
}

// readBase64 reads the bytes of a picture in base64.
func readBase64(text string) (*picture, error) {
	file, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("the base64 of a picture is damaged: %v", err)
	}
	if len(file) == 0 {
		return nil, fmt.Errorf("a picture has no bytes")
	}
	sum := sha256.Sum256(file)
	return &picture{Type: "image", Sum: hex.EncodeToString(sum[:]), file: file}, nil
}

// urlOrObject is a URL, as a text or in an object, in which clients may say how much detail they want.
type urlOrObject struct{ URL string }

func (u *urlOrObject) UnmarshalJSON(data []byte) error {
	if string(data) != "null" && json.Unmarshal(data, &u.URL) == nil {
		return nil
	}
	type plain urlOrObject
	return json.Unmarshal(data, (*plain)(u))
}

// numbered gives the pictures of a transcript their numbers, and lists them.
func numbered(t *realizar.Transcript) (all []*picture) {
	for i, m := range t.Messages {
		m, ok := m.(message)
		parts, has := m.Content.([]any)
		if !ok || !has {
			continue
		}
		own := make([]any, len(parts)) // because others may have the message too
		for j, part := range parts {
			if p, ok := part.(*picture); ok {
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

// keptMedia are media that are kept for requests with the same picture.
type keptMedia struct {
	*realizar.Media
	bytes int
}

func (m keptMedia) size() int { return m.bytes }

// media are those of pictures, which are encoded one at a time where they are not kept.
func (l *lease) media(ctx context.Context, pictures []*picture) ([]*realizar.Media, error) {
	if len(pictures) == 0 {
		return nil, nil
	}
	if l.encoder == nil {
		return nil, refuse("", "the model %q takes no pictures", l.name)
	}
	select {
	case l.encoder.turn <- struct{}{}:
		defer func() { <-l.encoder.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var all []*realizar.Media
	for i, p := range pictures {
		kept, found := l.encoder.kept.get(p.Sum)
		if !found {
			media, err := l.encoder.EncodeImage(ctx, p.file, nil)
			if err != nil {
				return nil, asPictureError(i, err)
			}
			info, err := media.Info()
			if err != nil {
				return nil, err
			}
			kept = keptMedia{media, int(info.Bytes)}
			l.encoder.kept.put(p.Sum, kept)
		}
		all = append(all, kept.Media)
	}
	return all, nil
}

// asPictureError is the refusal of a picture that is none, or that is too large.
func asPictureError(i int, err error) error {
	for _, code := range []error{realizar.ErrFormat, realizar.ErrLimit, realizar.ErrUnsupported, realizar.ErrInvalidArgument} {
		if errors.Is(err, code) {
			return refuse("", "picture %d: %v", i, err)
		}
	}
	return err
}

// encoder makes media for a model.
type encoder struct {
	*realizar.Encoder
	turn chan struct{} // has room for one who encodes
	kept keeper[keptMedia]
}
