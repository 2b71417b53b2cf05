"""The Python code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
guides.py MODEL ADAPTER FOLDER"""

import io
import json
import sys

import realizar


# --8<-- [start:chat]
def chat(model):
    with realizar.Conversation(model, "") as chat:  # a system message
        for piece in chat.say("Once upon a time"):
            print(piece, end="", flush=True)
# --8<-- [end:chat]


# --8<-- [start:options]
def options(model):
    chat = realizar.Conversation(model, overflow="forget")
    sampling = realizar.Sampling(temperature=0.7, top_p=0.9, seed=42)
    for piece in chat.say("Once upon a time", sampling, max_tokens=60, stops=["\n\n"]):
        print(piece, end="")
# --8<-- [end:options]


# --8<-- [start:streaming]
def streaming(model):
    chat = realizar.Conversation(model)
    chat.add("Once upon a time")
    for part in chat.reply(max_tokens=60):
        if part.kind == "content":
            print(part.text, end="", flush=True)
        elif part.kind == "reasoning":
            print(part.text, end="", file=sys.stderr)
# --8<-- [end:streaming]


# --8<-- [start:stopping]
def stopping(model):
    chat = realizar.Conversation(model)
    chat.add("Once upon a time")
    cancel = realizar.Cancel()  # cancel.fire() from any thread, or Ctrl-C, cancels the call
    chat.begin(max_tokens=100, keep=True, cancel=cancel)
    cancel.deadline(0.02)
    try:
        while chat.step():
            pass
    except realizar.DeadlineExceeded:
        cancel.reset()  # resumes the paused reply
        while chat.step():
            pass
    for piece in chat.say("One day"):
        break  # leaving the loop ends the reply and keeps its text
# --8<-- [end:stopping]


# --8<-- [start:speculative]
def speculative(model):
    chat = realizar.Conversation(model)
    for piece in chat.say("Once upon a time", max_tokens=60, draft="lookup"):  # or draft=a small model, draft="mtp"
        print(piece, end="")
    print(f"\n{chat.info.accepted} of {chat.info.drafted} draft tokens accepted")
# --8<-- [end:speculative]


# --8<-- [start:structured]
def structured(model):
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 20}, "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    chat = realizar.Conversation(model)
    return json.loads("".join(chat.say("Lily is five.", grammar=("json_schema", schema))))
# --8<-- [end:structured]


# --8<-- [start:tools]
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city",
        "parameters": {
            "type": "object",
            "properties": {"city": {"enum": ["Paris", "Tokyo"]}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def tools(model):
    chat = realizar.Conversation(model, tools=[WEATHER], parallel_tool_calls=False, tool_choice="required")  # or "auto"
    chat.add("Is it warm in Paris?")
    for part in chat.reply(max_tokens=100):
        if part.kind in ("tool_name", "tool_arguments"):
            print(part.text, end="")
    for call in chat.messages()[-1]["tool_calls"]:
        arguments = json.loads(call["function"]["arguments"])
        result = f"21 C in {arguments['city']}"
        chat.add({"role": "tool", "tool_call_id": call["id"], "content": result})
    # The next chat.reply() answers with the result.
    return arguments
# --8<-- [end:tools]


# --8<-- [start:embeddings]
def embeddings(model):
    small, little = model.embed(["a small girl", "a little girl"], pooling="mean")  # "model": the model's own
    return float(small @ little)  # vectors are normalized, so the dot product is the cosine
# --8<-- [end:embeddings]


# --8<-- [start:sources]
def sources(model, text):  # Flan-T5 and other encoder-decoder models
    source = realizar.Media.from_tokens(model, model.tokenize(text))  # runs the encoder
    prompt = realizar.Prompt(model, [source])  # with the decoder's start token
    for piece in model.session().generate(prompt, max_tokens=200):
        print(piece, end="", flush=True)
# --8<-- [end:sources]


# --8<-- [start:pictures]
def pictures(model, projector, picture):
    encoder = realizar.Encoder(model, projector)  # "mmproj-....gguf", or the folder of the model
    with open(picture, "rb") as file:
        media = encoder.encode(file)  # or an array of pixels, or a Pillow image
    question = [{"type": "image", "media": media}, {"type": "text", "text": "What is this?"}]
    prompt = realizar.Prompt.of_chat(model, [{"role": "user", "content": question}])
    for piece in model.session().generate(prompt, max_tokens=200):
        print(piece, end="", flush=True)
# --8<-- [end:pictures]


# --8<-- [start:rerank]
def rerank(reranker, pairs):
    return reranker.embed(pairs, pooling="rank")  # a row of scores per pair
# --8<-- [end:rerank]


# --8<-- [start:adapters]
def adapters(model, path):
    chat = realizar.Conversation(model, adapters={model.adapter(path): 1.0})
    print("".join(chat.say("Once upon a time")))
# --8<-- [end:adapters]


# --8<-- [start:saving]
def saving(model):
    chat = realizar.Conversation(model)
    "".join(chat.say("Once upon a time"))
    file = io.BytesIO()  # or open(path, "wb")
    chat.save(file)
    file.seek(0)
    return realizar.Conversation.load(model, file)  # continues bit-identically
# --8<-- [end:saving]


# --8<-- [start:store]
def prefixes(model, folder):
    store = realizar.Store(model, folder, min_tokens=4)  # without a folder the prefixes are freed with the store
    for _ in range(2):  # the second conversation reuses the prompt
        chat = realizar.Conversation(model, store=store)
        "".join(chat.say("Once upon a time there was a long instruction"))
    return store.info
# --8<-- [end:store]


# --8<-- [start:batches]
def batches(model):
    chats = [realizar.Conversation(model) for _ in range(3)]
    for chat, question in zip(chats, ["Once upon a time", "The little dog", "One day"]):
        chat.add(question)
        chat.begin(max_tokens=40)
    # Each step decodes a token of every conversation.
    while realizar.step_conversations(chats):
        pass  # take parts here: chat.parts()
    return [chat.messages()[-1]["content"] for chat in chats]
# --8<-- [end:batches]


# --8<-- [start:frames]
def frame(chat):
    """Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply."""
    more = chat.step(0.002)
    for part in chat.parts():
        print(part.text, end="")
    return more
# --8<-- [end:frames]


# --8<-- [start:hub]
def fetched(name):
    # "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0".
    # realizar.Model(name) does it all.
    path = realizar.fetch(name, progress=lambda done, total: print(f"\r{done >> 20} of {total >> 20} MB", end="", file=sys.stderr))
    return realizar.Model(path)
# --8<-- [end:hub]


# --8<-- [start:plan]
def plan(path):
    # The memory of one model and four conversations of 4,096 tokens each; no weight is read.
    plan = realizar.plan(path, sessions=4, capacity=4096)
    print(f"weights {plan.weights_host >> 20} MB, each conversation {plan.cache_host >> 20} MB, all {plan.total_host >> 20} MB")
# --8<-- [end:plan]


# --8<-- [start:memory]
def memory(path):
    runtime = realizar.Runtime(threads=2, memory_limit=512 << 20)  # beyond the limit: realizar.Limit
    model = realizar.Model(path, runtime=runtime)
    return realizar.Conversation(model, capacity=2048, k_type="q8_0", v_type="q8_0")
# --8<-- [end:memory]


# --8<-- [start:gpus]
def gpus(path):
    for device in realizar.devices():
        print(device.index, device.name, device.unavailable or device.isa)
    model = realizar.Model(path, device=0)  # 0: the library chooses; or the index of a device, or devices=[2, 3]
    print("on device", model.info.device, "with", model.info.gpu_layers, "layers on GPUs")
# --8<-- [end:gpus]


# --8<-- [start:determinism]
def said(path, threads):
    model = realizar.Model(path, runtime=realizar.Runtime(threads=threads))
    return "".join(realizar.Conversation(model).say("Once upon a time"))


def test_the_number_of_threads_changes_nothing(path):
    assert said(path, 1) == said(path, 3)
# --8<-- [end:determinism]


# --8<-- [start:errors]
def load_or_explain(path):
    try:
        return realizar.Model(path)
    except realizar.FileError as error:  # it is also an OSError
        print("fetch the model first:", error, file=sys.stderr)
    except (realizar.Unsupported, realizar.FormatError) as error:
        print("another file is needed:", error, file=sys.stderr)
    except realizar.Error as error:  # all others
        print(error, file=sys.stderr)
# --8<-- [end:errors]


def main(path, adapter, folder):
    model = realizar.Model(path)
    chat(model)
    print()
    options(model)
    streaming(model)
    stopping(model)
    speculative(model)
    assert isinstance(structured(model)["age"], int)
    assert tools(model)["city"] in ("Paris", "Tokyo")
    assert embeddings(model) > 0.5
    try:
        rerank(model, [[1, 2, 3]])
        raise AssertionError("a reranker")
    except realizar.Unsupported:
        pass
    try:
        sources(model, "a small girl")
        raise AssertionError("an encoder and a decoder")
    except realizar.Unsupported:
        pass
    try:
        pictures(model, path, path)
        raise AssertionError("an encoder")
    except realizar.Unsupported:
        pass
    adapters(model, adapter)
    assert len(saving(model).messages()) == 2
    assert prefixes(model, folder).hits
    assert all(batches(model))
    talk = realizar.Conversation(model)
    talk.add("Once upon a time")
    talk.begin(max_tokens=40)
    while frame(talk):
        pass
    fetched("hf:tests/story")
    plan(path)
    memory(path)
    gpus(path)
    test_the_number_of_threads_changes_nothing(path)
    load_or_explain("none.gguf")
    print("\nall ran")


main(*sys.argv[1:])
