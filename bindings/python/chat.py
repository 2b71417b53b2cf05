"""Holds a conversation:  python chat.py model.gguf.  Ctrl-C ends an answer, Ctrl-D the conversation."""

import sys

import realizar

if len(sys.argv) != 2:
    sys.exit(__doc__)
try:
    conversation = realizar.Conversation(realizar.Model(sys.argv[1]), overflow="forget")
    while True:
        try:
            for piece in conversation.say(input("> ")):
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            pass
        print()
except EOFError:
    pass
except realizar.Error as e:
    sys.exit(f"{e.name}: {e}")
