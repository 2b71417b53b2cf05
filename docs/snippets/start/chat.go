// --8<-- [start:start]
// go run chat.go model.gguf
package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"os"

	"realizar.dev/go"
)

func main() {
	ctx := context.Background()
	model, err := realizar.Load(ctx, os.Args[1], nil)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	chat, err := model.NewConversation(&realizar.ConversationOptions{System: "Be brief."})
	if err != nil {
		log.Fatal(err)
	}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); fmt.Println() {
		for piece, err := range chat.Say(ctx, lines.Text(), nil) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Print(piece)
		}
	}
}

// --8<-- [end:start]
