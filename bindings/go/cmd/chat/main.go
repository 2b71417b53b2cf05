// Chat holds a conversation with a model on the terminal:
//
//	chat model.gguf
//
// Ctrl-C ends an answer, Ctrl-D the conversation.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"realizar.dev/go"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: chat model.gguf")
		os.Exit(2)
	}
	if err := converse(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func converse(path string) error {
	model, err := realizar.Load(context.Background(), path, nil)
	if err != nil {
		return err
	}
	defer model.Close()
	session, err := model.NewSession(nil)
	if err != nil {
		return err
	}
	defer session.Close()

	var messages []realizar.Message
	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); lines.Scan(); fmt.Print("\n> ") {
		messages = append(messages, realizar.Message{Role: "user", Content: lines.Text()})
		answer, err := reply(session, messages)
		switch {
		case errors.Is(err, context.Canceled):
			fmt.Print(" (cancelled)")
		case errors.Is(err, realizar.ErrContextFull):
			fmt.Print(" (the context is full: the conversation starts anew)")
			messages = nil
			continue
		case err != nil:
			return err
		}
		fmt.Println()
		messages = append(messages, realizar.Message{Role: "assistant", Content: answer})
	}
	fmt.Println()
	return lines.Err()
}

func reply(session *realizar.Session, messages []realizar.Message) (answer string, err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	options := &realizar.Options{Sampling: realizar.Sampling{Temperature: 0.7, TopP: 0.95}}
	for piece, err := range session.Stream(ctx, messages, options) {
		if err != nil {
			return answer, err
		}
		answer += piece
		fmt.Print(piece)
	}
	return answer, nil
}
