// Chat holds a conversation with a model on the terminal:
//
//	chat model.gguf
//
// Ctrl-C ends an answer, Ctrl-D the conversation.
package main

import (
	"bufio"
	"context"
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
	conversation, err := model.NewConversation(&realizar.ConversationOptions{Overflow: realizar.OverflowForget})
	if err != nil {
		return err
	}
	defer conversation.Close()

	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); lines.Scan(); fmt.Print("\n> ") {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		for piece, err := range conversation.Say(ctx, lines.Text()) {
			if err != nil && ctx.Err() == nil {
				return err
			}
			fmt.Print(piece)
			if ctx.Err() != nil {
				break // which keeps what was said
			}
		}
		stop()
		fmt.Println()
	}
	fmt.Println()
	return lines.Err()
}
