"""Uses of the package that type checkers refuse, in each line that ends in "wrong":  tests/python-types.sh PACKAGE"""

import realizar

model = realizar.Model("model.gguf", thread=2)  # wrong
realizar.Model("model.gguf", quantize="q9")  # wrong
realizar.Model("model.gguf", mmap="no")  # wrong
realizar.plan("model.gguf", gpu_layers="all")  # wrong
chat = realizar.Conversation(model, sytem="You are brief.")  # wrong
realizar.Conversation(model, overflow="drop")  # wrong
chat.say("Hello", max_token=4)  # wrong
chat.say("Hello", max_tokens="4")  # wrong
chat.reply(reasoning="maybe")  # wrong
model.session(k_type="q9")  # wrong
model.session(k_type="q2_k")  # wrong
realizar.Model("model.gguf", quantize="q2_k")  # wrong
model.grammar("prose", "")  # wrong
chat.say("Hello", grammar=("prose", ""))  # wrong
chat.say(None)  # wrong
chat.say("Hello", draft="guess")  # wrong
realizar.Conversation(None)  # wrong
realizar.Conversation(model, store=model)  # wrong
model.info.capabilities == {"fly"} or model.info.hash  # wrong
model.closed = True  # wrong
model.session().generate("Once", max_tokens=2, temperature=1)  # wrong
model.embed(["a"], pooling="men")  # wrong
model.render("Hello", tool=[])  # wrong
realizar.Encoder(model, "mmproj.gguf", kind="video")  # wrong
realizar.Encoder(model, "mmproj.gguf").encode(b"", max_rowz=1)  # wrong
realizar.Sampling(temprature=1)  # wrong
realizar.Sampling(order=["top"])  # wrong
with realizar.Model("model.gguf") as opened:
    opened.infos  # wrong
