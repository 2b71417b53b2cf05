package hub

import (
	"encoding/json"
	"errors"
	"fmt"

	"realizar.dev/go/internal/choice"
)

// Causes of an [Error]: no model fits; the name is invalid.
var (
	ErrMemory = errors.New("no model fits into the memory that is free")
	ErrName   = errors.New("no name of a model")
)

// errListing reports an invalid listing.
var errListing = errors.New("no listing of the Hub")

// choices is a parsed model name and, given a listing, the chosen files.
type choices struct {
	Repository, Encoder, Commit string
	Load                        string // the file to load; "": the folder
	Size                        uint64
	Files                       []file
}

// file is a file as the Hub lists it, with its SHA-256, or git's hash of it.
type file struct {
	Name   string
	Size   uint64
	Digest string
}

// choose makes the library choose. listing may be nil; isCached: it lists the files in a cache.
func choose(model string, listing []byte, free uint64, isCached bool) (chosen choices, err error) {
	if choice.Choose == nil {
		return chosen, failed(nil, "models of the Hub need the library: import realizar.dev/go")
	}
	text, failure := choice.Choose(model, listing, free, isCached)
	if failure == nil {
		return chosen, json.Unmarshal(text, &chosen)
	}
	switch cause := failure.Err; failure.Status {
	case -1: // RZ_ERR_INVALID_ARGUMENT
		return chosen, failed(errors.Join(ErrName, cause), "%s", failure.Message)
	case -3: // RZ_ERR_OUT_OF_MEMORY
		return chosen, failed(errors.Join(ErrMemory, cause), "%s", failure.Message)
	case -5, -7: // RZ_ERR_LIMIT, RZ_ERR_FORMAT
		return chosen, errListing
	default:
		return chosen, failed(cause, "%s", failure.Message)
	}
}

// EncoderName returns the encoder's name in the repository of a model, unless the name is one already. Other names are
// returned unchanged.
func EncoderName(model string) string {
	if chosen, err := choose(model, nil, 0, false); err == nil {
		return chosen.Encoder
	}
	return model
}

func sizeOf(n uint64) string {
	if n >= 1e9 {
		return fmt.Sprintf("%.1f GB", float64(n)/1e9)
	}
	return fmt.Sprintf("%.1f MB", float64(n)/1e6)
}
