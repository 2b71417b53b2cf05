// Keep continues a text over several runs: what a run has said is kept in a file, from which the next one goes on.
//
//	keep model.gguf state.bin "Once upon a time"
//	keep model.gguf state.bin
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"realizar.dev/go"
)

// Tokens that a run adds.
const tokens = 20

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: keep model.gguf state.bin [beginning]")
		os.Exit(2)
	}
	text, err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3:])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Print(text)
}

// run goes on from a state, or begins one, and keeps it.
func run(ctx context.Context, path, state string, beginning []string) (string, error) {
	model, err := realizar.Load(ctx, path, nil)
	if err != nil {
		return "", err
	}
	defer model.Close()
	session, err := resume(ctx, model, state, beginning)
	if err != nil {
		return "", err
	}
	defer session.Close()
	before, err := session.Tokens()
	if err != nil {
		return "", err
	}
	stream, err := model.NewTextStream()
	if err != nil {
		return "", err
	}
	defer stream.Close()
	// A text does not begin as it goes on.
	if err := stream.Follow(before); err != nil {
		return "", err
	}
	var text strings.Builder
	token, err := session.Sample(nil)
	for n := 0; err == nil && n < tokens; n++ {
		var piece string
		if piece, err = stream.Push(token); err == nil {
			text.WriteString(piece)
			token, err = session.Decode(token, nil)
		}
	}
	if err != nil {
		return "", err
	}
	rest, err := stream.Flush()
	return text.String() + rest, errors.Join(err, save(session, state))
}

// resume loads the session of the run before; where there was none, it reads the beginning.
func resume(ctx context.Context, model *realizar.Model, state string, beginning []string) (*realizar.Session, error) {
	file, err := os.Open(state)
	if err == nil {
		defer file.Close()
		return model.LoadSession(file, nil)
	}
	if !errors.Is(err, fs.ErrNotExist) || len(beginning) == 0 {
		return nil, err
	}
	prompt, err := model.Tokenize(beginning[0], true, false)
	if err != nil {
		return nil, err
	}
	session, err := model.NewSession(nil)
	if err != nil {
		return nil, err
	}
	if err := session.Prefill(ctx, prompt); err != nil {
		session.Close()
		return nil, err
	}
	return session, nil
}

// save replaces the file as a whole, so that a run that is killed leaves the one before.
func save(session *realizar.Session, state string) error {
	file, err := os.CreateTemp(".", "keep-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if err := errors.Join(session.Save(file), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), state)
}
