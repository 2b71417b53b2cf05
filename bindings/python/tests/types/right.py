"""Uses of the package that type checkers take:  tests/python-types.sh PACKAGE"""

import realizar

with realizar.Model("model.gguf", threads=2, quantize="q8_0", gpu_layers=0, placements=[realizar.Placement("cpu")]) as model:
    layers: int = model.info.n_layers
    can: "frozenset[realizar.Capability]" = model.info.capabilities
    open_: bool = not model.closed and "tools" in can and model.info.pooling in (None, "mean")
    chat = realizar.Conversation(model, "You are brief.", tools=[], overflow="forget", k_type="q8_0")
    for piece in chat.say("Hello", realizar.Sampling(temperature=0.5, order=["top_p"]), max_tokens=4, stops=["\n"], keep=True):
        print(piece.upper())
    for part in chat.reply(reasoning="off", draft="lookup"):
        print(part.kind, part.text)
    with model.session(k_type="q8_0") as session:
        print("".join(session.generate("Once", max_tokens=3, draft="lookup")))
        session.job([1, 2], logprobs=3).close()
    for piece in chat.say("Hello", grammar=("choices", ["yes", "no"])):
        print(piece)
    try:
        grammar: realizar.Grammar = model.grammar("regex", "[a-z]+")
    except realizar.InvalidArgument as error:
        print(error.code + 1, error.name.lower())
    media: realizar.Media = realizar.Encoder(model, "mmproj.gguf", kind="image").encode(b"", max_rows=64)
    options: realizar.LoadOptions = {"threads": 2, "mmap": True}
    digest: bytes = media.info.hash + media.hash
    plan: realizar.Plan = realizar.plan("model.gguf", sessions=2, **options)
