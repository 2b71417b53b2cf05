"""Holds a conversation:  python chat.py model.gguf.  Ctrl-C ends an answer, Ctrl-D the conversation."""

import sys

import realizar

if len(sys.argv) != 2:
    sys.exit(__doc__)
try:
    model = realizar.Model(sys.argv[1])
except realizar.Error as e:
    sys.exit(f"{e.name}: {e}")
messages = []
with model, model.session() as session:
    while True:
        try:
            messages.append({"role": "user", "content": input("> ")})
        except EOFError:
            break
        answer = ""
        try:
            for piece in session.chat(messages, realizar.Sampling(temperature=0.7, top_p=0.95)):
                answer += piece
                print(piece, end="", flush=True)
        except KeyboardInterrupt:
            pass
        print()
        messages.append({"role": "assistant", "content": answer})
