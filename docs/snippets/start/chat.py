# --8<-- [start:start]
# python chat.py model.gguf
import sys

import realizar

model = realizar.Model(sys.argv[1])
chat = realizar.Conversation(model, "Be brief.")
for line in sys.stdin:
    for piece in chat.say(line.rstrip("\n")):
        print(piece, end="", flush=True)
    print()
# --8<-- [end:start]
