"""Tests a service with the official Python packages `openai` and `anthropic`, feature by feature.

    clients.py http://127.0.0.1:8080 MODEL [--key KEY] [--embeddings MODEL] [--flood N] [--hears] [NAME...]

MODEL has a chat template with tools. With --key the service asks for that key; with --embeddings there is a model for
vectors; with --flood so many requests at once are more than its slots and its queue; with --hears MODEL takes sounds.
NAMEs are those of single tests.
"""

import argparse
import base64
import concurrent.futures
import io
import json
import math
import sys
import traceback
import typing
import wave

try:
    import anthropic
    import openai
    import pydantic
except ImportError as missing:
    print(f"SKIPPED: the tests with clients' packages, because there is no {missing.name}")
    sys.exit(0)

parser = argparse.ArgumentParser()
parser.add_argument("url")
parser.add_argument("model")
parser.add_argument("names", nargs="*")
parser.add_argument("--key", default="none")
parser.add_argument("--embeddings")
parser.add_argument("--flood", type=int, default=0)
parser.add_argument("--hears", action="store_true")
args = parser.parse_args()
M = args.model
# Every answer and every event is checked by the types of the packages. `lax` is for those of which these types are
# untrue: vectors in base64, and pieces of completions, whose "finish_reason" is null.
strict = {"max_retries": 0, "timeout": 300, "_strict_response_validation": True}
oa = openai.OpenAI(base_url=args.url + "/v1", api_key=args.key, **strict)
lax = openai.OpenAI(base_url=args.url + "/v1", api_key=args.key, max_retries=0, timeout=300)
an = anthropic.Anthropic(base_url=args.url, api_key=args.key, **strict)
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]
SCHEMA = {
    "type": "object",
    "properties": {"city": {"enum": ["Paris", "Rome"]}, "n": {"type": "integer", "minimum": 0, "maximum": 9}},
    "required": ["city", "n"],
    "additionalProperties": False,
}
PARAMETERS = {
    "type": "object",
    "properties": {
        "a": {"type": "integer", "minimum": 0, "maximum": 99},
        "b": {"type": "integer", "minimum": 0, "maximum": 99},
    },
    "required": ["a", "b"],
    "additionalProperties": False,
}
TOOL = {
    "type": "function",
    "function": {"name": "add", "description": "Adds two numbers", "parameters": PARAMETERS, "strict": True},
}
FLAT = {"type": "function", **TOOL["function"]}
ANTHROPIC_TOOL = {"name": "add", "description": "Adds two numbers", "input_schema": PARAMETERS}
GREEDY = {"temperature": 0}


class Answer(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(extra="forbid")
    city: str
    sure: bool


def chat(messages=QUESTION, **fields):
    return oa.chat.completions.create(model=M, messages=messages, **{"temperature": 0, "max_tokens": 24, **fields})


def message(messages=QUESTION, **fields):
    body = {"temperature": 0, **fields.pop("extra_body", {})}
    return an.messages.create(model=M, messages=messages, extra_body=body, **{"max_tokens": 24, **fields})


def response(input="What is the capital of France?", **fields):
    return oa.responses.create(model=M, input=input, **{"temperature": 0, "max_output_tokens": 24, **fields})


def refused(kind, call, word=""):
    """The call has to fail with this exception of the client's, whose message has the word."""
    try:
        call()
    except kind as error:
        assert word in str(error), error
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_models():
    names = [model.id for model in oa.models.list()]
    assert M in names and oa.models.retrieve(M).id == M, names
    refused(openai.NotFoundError, lambda: oa.models.retrieve("nobody"))
    assert [model.id for model in an.models.list()] == names and an.models.retrieve(M).created_at.year > 2000


def test_chat():
    answer = chat()
    choice = answer.choices[0]
    assert answer.object == "chat.completion" and choice.message.role == "assistant" and choice.message.content
    assert choice.finish_reason in ("stop", "length")
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert answer.usage.completion_tokens <= 24
    assert chat().choices[0].message.content == choice.message.content


def test_chat_stream():
    text, usage, finish = "", None, None
    for chunk in chat(stream=True, stream_options={"include_usage": True}):
        for choice in chunk.choices:
            text += choice.delta.content or ""
            finish = choice.finish_reason or finish
        usage = chunk.usage or usage
    whole = chat()
    assert text == whole.choices[0].message.content and finish == whole.choices[0].finish_reason
    assert usage.completion_tokens == whole.usage.completion_tokens
    with oa.chat.completions.stream(model=M, messages=QUESTION, temperature=0, max_tokens=24) as stream:
        for event in stream:
            pass
        assert stream.current_completion_snapshot.choices[0].message.content == text


def test_choices_seed_and_stop():
    fields = {"temperature": 1, "seed": 5, "n": 3, "max_tokens": 16}
    one, two, other = chat(**fields), chat(**fields), chat(**{**fields, "seed": 6})
    texts = [[choice.message.content for choice in answer.choices] for answer in (one, two, other)]
    assert texts[0] == texts[1] and len(set(texts[0])) > 1 and texts[0] != texts[2], texts
    whole = chat(max_tokens=16).choices[0].message.content
    stop = whole[4:8]
    cut = chat(max_tokens=16, stop=[stop, "\x01never"])
    assert cut.choices[0].message.content == whole[: whole.index(stop)] and cut.choices[0].finish_reason == "stop"


def test_logprobs():
    answer = chat(logprobs=True, top_logprobs=3, max_tokens=8)
    rows = answer.choices[0].logprobs.content
    assert b"".join(bytes(row.bytes) for row in rows).decode().strip() == answer.choices[0].message.content.strip()
    for row in rows:
        assert len(row.top_logprobs) == 3 and row.top_logprobs[0].logprob == row.logprob <= 0
        assert sum(math.exp(top.logprob) for top in row.top_logprobs) <= 1.001


def test_json_schema():
    form = {"type": "json_schema", "json_schema": {"name": "answer", "schema": SCHEMA, "strict": True}}
    answer = json.loads(chat(response_format=form, max_tokens=60).choices[0].message.content)
    assert answer["city"] in ("Paris", "Rome") and 0 <= answer["n"] <= 9
    parsed = oa.chat.completions.parse(
        model=M, messages=QUESTION, response_format=Answer, temperature=0, max_tokens=200
    )
    assert isinstance(parsed.choices[0].message.parsed, Answer)
    answer = chat(response_format={"type": "json_object"}, max_tokens=200)
    assert answer.choices[0].message.content.startswith("{")


def test_tools():
    answer = chat(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=100)
    [call] = answer.choices[0].message.tool_calls
    assert answer.choices[0].finish_reason == "tool_calls" and call.function.name == "add"
    assert set(json.loads(call.function.arguments)) == {"a", "b"}
    name, arguments = "", ""
    for chunk in chat(tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=100, stream=True):
        for piece in chunk.choices[0].delta.tool_calls or []:
            name += piece.function.name or ""
            arguments += piece.function.arguments or ""
    assert (name, arguments) == ("add", call.function.arguments)
    named = chat(tools=[TOOL], tool_choice={"type": "function", "function": {"name": "add"}}, max_tokens=100)
    assert named.choices[0].message.tool_calls[0].function.name == "add"
    assert not chat(tools=[TOOL], tool_choice="none").choices[0].message.tool_calls


def test_agent_of_20_turns_by_chat():
    messages, ids = [{"role": "user", "content": "Add numbers."}], set()
    for turn in range(20):
        answer = chat(messages, tools=[TOOL], tool_choice="required", parallel_tool_calls=False, max_tokens=100)
        said = answer.choices[0].message
        [call] = said.tool_calls
        numbers = json.loads(call.function.arguments)
        ids.add(call.id)
        messages.append(said.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": call.id, "content": str(numbers["a"] + numbers["b"])})
    assert len(ids) == 20
    # Of a long prompt all but the last messages are remembered.
    assert answer.usage.prompt_tokens_details.cached_tokens > answer.usage.prompt_tokens // 2, answer.usage
    assert chat(messages, tools=[TOOL], tool_choice="none").choices[0].message.content is not None


def test_agent_of_20_turns_by_messages():
    messages, ids = [{"role": "user", "content": "Add numbers."}], set()
    choice = {"type": "any", "disable_parallel_tool_use": True}
    for turn in range(20):
        said = message(messages, tools=[ANTHROPIC_TOOL], tool_choice=choice, max_tokens=100)
        [call] = [block for block in said.content if block.type == "tool_use"]
        assert said.stop_reason == "tool_use" and set(call.input) == {"a", "b"}
        ids.add(call.id)
        result = {"type": "tool_result", "tool_use_id": call.id, "content": str(call.input["a"] + call.input["b"])}
        messages += [{"role": "assistant", "content": said.content}, {"role": "user", "content": [result]}]
    assert len(ids) == 20 and said.usage.cache_read_input_tokens > said.usage.input_tokens, said.usage
    assert message(messages, tools=[ANTHROPIC_TOOL], tool_choice={"type": "none"}).stop_reason in (
        "end_turn",
        "max_tokens",
    )


def test_agent_of_20_turns_by_responses():
    input, previous, ids = "Add numbers.", None, set()
    for turn in range(20):
        said = response(
            input,
            previous_response_id=previous,
            tools=[FLAT],
            tool_choice="required",
            parallel_tool_calls=False,
            max_output_tokens=100,
        )
        [call] = [item for item in said.output if item.type == "function_call"]
        numbers = json.loads(call.arguments)
        ids.add(call.call_id)
        input = [{"type": "function_call_output", "call_id": call.call_id, "output": str(numbers["a"] + numbers["b"])}]
        previous = said.id
    details = said.usage.input_tokens_details
    assert len(ids) == 20 and details.cached_tokens > said.usage.input_tokens // 2, said.usage


def test_completions():
    answer = oa.completions.create(model=M, prompt="The capital of France is", max_tokens=8, temperature=0, logprobs=2)
    [choice] = answer.choices
    assert "".join(choice.logprobs.tokens) == choice.text and len(choice.logprobs.top_logprobs[0]) in (2, 3)
    assert answer.usage.completion_tokens == 8 and choice.finish_reason == "length"
    text = ""
    for chunk in lax.completions.create(
        model=M, prompt="The capital of France is", max_tokens=8, temperature=0, stream=True
    ):
        text += chunk.choices[0].text
    assert text == choice.text
    many = oa.completions.create(model=M, prompt=["One", "Two"], n=2, max_tokens=4, seed=1, echo=True)
    assert [c.index for c in many.choices] == [0, 1, 2, 3] and many.choices[3].text.startswith("Two")
    refused(openai.BadRequestError, lambda: oa.completions.create(model=M, prompt="x", suffix="y"), "suffix")


def test_logprobs_of_a_prompt():
    fields = {"model": M, "max_tokens": 0, "echo": True, "logprobs": 2}
    both = lax.completions.create(prompt=["The capital of France is", "Once upon a time"], **fields).choices
    for choice in both:
        rows = choice.logprobs
        assert rows.token_logprobs[0] is None and all(p < 0 for p in rows.token_logprobs[1:]), rows
        assert all(max(top.values()) >= p for top, p in zip(rows.top_logprobs[1:], rows.token_logprobs[1:])), rows


def test_guided():
    one = lambda **extra: chat(extra_body=extra).choices[0].message.content
    assert one(guided_choice=["Paris", "Rome"]) in ("Paris", "Rome")
    assert one(structured_outputs={"regex": "[0-9]{4}"}).isdigit()
    assert one(grammar='root ::= "yes" | "no"') in ("yes", "no")


def test_prefill():
    prefill = [*QUESTION, {"role": "assistant", "content": "The capital of"}]
    text = chat(prefill).choices[0].message.content
    assert text and text == message(prefill).content[0].text and text != chat().choices[0].message.content


def test_embeddings():
    name, extra = (args.embeddings, {}) if args.embeddings else (M, {"pooling": "mean"})
    lists = lambda **fields: oa.embeddings.create(model=name, extra_body=extra, encoding_format="float", **fields)
    create = lambda **fields: lax.embeddings.create(model=name, extra_body=extra, **fields)
    both = create(input=["a cat", "a dog"])  # which the client asks for in base64
    plain = lists(input="a cat")
    assert len(both.data) == 2 and both.usage.total_tokens > plain.usage.total_tokens
    assert all(abs(a - b) < 1e-6 for a, b in zip(both.data[0].embedding, plain.data[0].embedding))
    assert abs(sum(x * x for x in plain.data[0].embedding) - 1) < 1e-4
    short = create(input="a cat", dimensions=16).data[0].embedding
    assert len(short) == 16 and abs(sum(x * x for x in short) - 1) < 1e-4


def test_responses():
    answer = response(metadata={"a": "b"})
    assert answer.output_text == chat().choices[0].message.content and answer.status in ("completed", "incomplete")
    assert answer.usage.total_tokens == answer.usage.input_tokens + answer.usage.output_tokens and answer.metadata == {
        "a": "b"
    }
    more = response("And of Italy?", previous_response_id=answer.id)
    assert more.usage.input_tokens > answer.usage.input_tokens and more.previous_response_id == answer.id
    assert oa.responses.retrieve(answer.id).output_text == answer.output_text
    items = oa.responses.input_items.list(more.id, order="asc").data
    assert [(item.type, item.content[0].text) for item in items] == [("message", "And of Italy?")], items
    refused(openai.BadRequestError, lambda: oa.responses.cancel(answer.id), "synchronous")
    oa.responses.delete(answer.id)
    refused(openai.NotFoundError, lambda: oa.responses.retrieve(answer.id))
    refused(openai.NotFoundError, lambda: oa.responses.input_items.list(answer.id))
    refused(openai.BadRequestError, lambda: response(previous_response_id=answer.id), "not found")
    system = response([{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}], instructions="Be brief.")
    assert system.instructions == "Be brief."
    count = oa.responses.input_tokens.count(model=M, input="What is the capital of France?")
    assert count.input_tokens == answer.usage.input_tokens


def test_responses_stream():
    text, numbers = "", []
    stream = response(stream=True)
    for event in stream:
        numbers.append(event.sequence_number)
        if event.type == "response.output_text.delta":
            text += event.delta
    assert event.type in ("response.completed", "response.incomplete") and event.response.output_text == text
    assert numbers == list(range(len(numbers)))
    with oa.responses.stream(
        model=M,
        input="Add 1 and 2",
        temperature=0,
        max_output_tokens=100,
        tools=[FLAT],
        tool_choice="required",
        parallel_tool_calls=False,
    ) as stream:
        for event in stream:
            pass
        final = stream.get_final_response()
    [call] = final.output
    assert call.type == "function_call" and set(json.loads(call.arguments)) == {"a", "b"}


def test_responses_form():
    parsed = oa.responses.parse(model=M, input="Name a city", text_format=Answer, temperature=0, max_output_tokens=200)
    assert isinstance(parsed.output_parsed, Answer)
    form = {"format": {"type": "json_schema", "name": "answer", "schema": SCHEMA, "strict": True}}
    assert json.loads(response(text=form, max_output_tokens=60).output_text)["city"] in ("Paris", "Rome")
    rows = (
        response(include=["message.output_text.logprobs"], top_logprobs=2, max_output_tokens=4)
        .output[0]
        .content[0]
        .logprobs
    )
    assert len(rows) == 4 and len(rows[0].top_logprobs) == 2


def test_tools_of_responses():
    """Namespaces, custom tools, tools that are left out, tools that are allowed, and references to items."""
    digits = {"type": "grammar", "syntax": "regex", "definition": "[0-9]{3}"}
    tools = [
        FLAT,
        {"type": "namespace", "name": "sums", "description": "Sums", "tools": [{**FLAT, "name": "plus"}]},
        {"type": "custom", "name": "digits", "format": digits},
        {"type": "web_search"},
    ]
    once = {"tools": tools, "parallel_tool_calls": False, "max_output_tokens": 100}
    [call] = response(tool_choice={"type": "custom", "name": "digits"}, **once).output
    assert call.type == "custom_tool_call" and call.name == "digits" and len(call.input) == 3, call
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "plus"}]}
    whole = response(tool_choice=allowed, **once)
    [call] = whole.output
    assert (call.type, call.namespace, call.name) == ("function_call", "sums", "plus"), call
    reference = {"type": "item_reference", "id": call.id}
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "5"}
    more = response([{"role": "user", "content": "Hi"}, reference, result], **{**once, "max_output_tokens": 8})
    assert more.usage.input_tokens > whole.usage.input_tokens
    for choice, kind in (({"type": "custom", "name": "digits"}, "custom_tool_call_input"), (allowed, "function_call_arguments")):
        events = list(response(tool_choice=choice, stream=True, **once))
        kinds = {event.type for event in events}
        assert {f"response.{kind}.delta", f"response.{kind}.done"} <= kinds, kinds
    custom = {"type": "custom", "custom": {"name": "digits", "format": {"type": "grammar", "grammar": digits}}}
    custom["custom"]["format"]["grammar"] = {"syntax": "regex", "definition": "[0-9]{3}"}
    choice = {"type": "custom", "custom": {"name": "digits"}}
    once = {"tools": [custom], "tool_choice": choice, "parallel_tool_calls": False, "max_tokens": 100}
    [call] = chat(**once).choices[0].message.tool_calls
    assert call.type == "custom" and len(call.custom.input) == 3, call


def test_messages():
    answer = message(system="Be brief.")
    assert answer.type == "message" and answer.role == "assistant" and answer.content[0].type == "text"
    assert answer.stop_reason in ("end_turn", "max_tokens") and answer.usage.output_tokens <= 24
    counted = an.messages.count_tokens(model=M, messages=QUESTION, system="Be brief.")
    usage = message(system="Be brief.").usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    assert message().content[0].text == chat().choices[0].message.content
    stop = answer.content[0].text[4:8]
    cut = message(system="Be brief.", stop_sequences=["\x01never", stop])
    assert cut.stop_reason == "stop_sequence" and cut.stop_sequence == stop, cut


def test_messages_stream():
    kinds = [event.type for event in message(stream=True)]
    assert kinds[:2] == ["message_start", "content_block_start"] and kinds[-3:] == [
        "content_block_stop",
        "message_delta",
        "message_stop",
    ]
    with an.messages.stream(model=M, messages=QUESTION, max_tokens=24, extra_body=GREEDY) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert (
        final.content[0].text == text == message().content[0].text
        and final.usage.output_tokens == message().usage.output_tokens
    )
    choice = {"type": "tool", "name": "add", "disable_parallel_tool_use": True}
    with an.messages.stream(
        model=M, messages=QUESTION, max_tokens=100, tools=[ANTHROPIC_TOOL], tool_choice=choice, extra_body=GREEDY
    ) as stream:
        final = stream.get_final_message()
    [call] = final.content
    assert call.type == "tool_use" and set(call.input) == {"a", "b"} and final.stop_reason == "tool_use"


def test_messages_form():
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    answer = message(output_config=form, max_tokens=60)
    assert json.loads(answer.content[0].text)["city"] in ("Paris", "Rome")


def test_messages_parsed():
    if not hasattr(an.messages, "parse"):
        return "SKIPPED: an old anthropic"
    parsed = an.messages.parse(model=M, messages=QUESTION, max_tokens=300, output_format=Answer, extra_body=GREEDY)
    assert isinstance(parsed.parsed_output, Answer)


def test_tool_runner():
    if not hasattr(anthropic, "beta_tool"):
        return "SKIPPED: an old anthropic"
    colours = []

    @anthropic.beta_tool
    def paint(colour: typing.Literal["red", "blue"]) -> str:
        """Paints the house."""
        colours.append(colour)
        return f"It is {colour} now."

    choice = {"type": "any", "disable_parallel_tool_use": True}
    fields = {"max_iterations": 20, "tool_choice": choice, "extra_body": GREEDY}
    runner = an.beta.messages.tool_runner(model=M, messages=QUESTION, max_tokens=200, tools=[paint], **fields)
    reasons = [said.stop_reason for said in runner]
    assert reasons == ["tool_use"] * 20 and len(colours) >= 19, (reasons, colours)


def test_sounds():
    if not args.hears:
        return "SKIPPED: no model takes sounds"

    def asked(n, kind="wav"):
        file = io.BytesIO()
        with wave.open(file, "wb") as out:
            out.setparams((2, 2, 24000, 0, "NONE", "NONE"))
            out.writeframes(bytes(i * i % 251 for i in range(4 * n)))
        sound = {"data": base64.b64encode(file.getvalue()).decode(), "format": kind}
        parts = [{"type": "input_audio", "input_audio": sound}, {"type": "text", "text": "What is it?"}]
        return chat([{"role": "user", "content": parts}], max_tokens=5)

    short, long = (asked(24000 * seconds).usage.prompt_tokens for seconds in (2, 4))
    plain = chat([{"role": "user", "content": "What is it?"}], max_tokens=5).usage.prompt_tokens
    # Each part, of two seconds, has 13 rows.
    assert (short - plain, long - plain) == (13, 26), (plain, short, long)
    refused(openai.BadRequestError, lambda: asked(24000, "aac"), 'input_audio.format is "aac"; it must be')


def test_transcriptions():
    if not args.hears:
        return "SKIPPED: no model takes sounds"
    file = io.BytesIO()
    with wave.open(file, "wb") as out:
        out.setparams((1, 2, 16000, 0, "NONE", "NONE"))
        out.writeframes(bytes(i * i % 251 for i in range(64000)))
    sound = ("speech.wav", file.getvalue())
    fields = {"model": M, "language": "en", "extra_body": {"max_completion_tokens": 12}}
    create = lambda **more: oa.audio.transcriptions.create(file=sound, **fields, **more)
    plain = create()
    assert plain.text and plain.usage.input_token_details.audio_tokens == 13, plain
    assert create(response_format="text") == plain.text + "\n"
    verbose = lax.audio.transcriptions.create(file=sound, response_format="verbose_json", **fields)
    assert (verbose.text, verbose.language, verbose.duration) == (plain.text, "english", 2.0), verbose
    events = list(create(stream=True))
    assert events[-1].type == "transcript.text.done" and events[-1].text == plain.text, events
    assert "".join(event.delta for event in events[:-1]).strip() == plain.text, events
    refused(openai.BadRequestError, lambda: create(response_format="srt"), "response_format")


def test_errors():
    refused(openai.NotFoundError, lambda: oa.chat.completions.create(model="nobody", messages=QUESTION), "nobody")
    refused(
        anthropic.NotFoundError, lambda: an.messages.create(model="nobody", messages=QUESTION, max_tokens=5), "nobody"
    )
    wrong = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}]}]
    error = refused(openai.BadRequestError, lambda: chat(wrong), "takes no images")
    assert error.type == "invalid_request_error", error.body
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    error = refused(
        anthropic.BadRequestError,
        lambda: message([{"role": "user", "content": [{"type": "image", "source": source}]}]),
        "takes no images",
    )
    assert error.body["error"]["type"] == "invalid_request_error"
    refused(openai.BadRequestError, lambda: chat(temperature=5), "temperature")
    error = refused(openai.BadRequestError, lambda: chat([{"role": "user", "content": "word " * 40000}]))
    assert error.code == "context_length_exceeded", error.body
    refused(
        openai.BadRequestError,
        lambda: chat(
            stream=True,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "x", "strict": True, "schema": {"type": "what"}},
            },
        ),
    )
    refused(openai.BadRequestError, lambda: response(tools=[{"type": "hammer"}]), "hammer")
    call = lambda: response(tools=[{"type": "web_search"}], tool_choice="required")
    refused(openai.BadRequestError, call, "tool_choice")
    if args.key != "none":
        bad = openai.OpenAI(base_url=args.url + "/v1", api_key="wrong", max_retries=0)
        refused(openai.AuthenticationError, lambda: bad.models.list())
        bad = anthropic.Anthropic(base_url=args.url, api_key="wrong", max_retries=0)
        error = refused(
            anthropic.AuthenticationError, lambda: bad.messages.create(model=M, messages=QUESTION, max_tokens=5)
        )
        assert error.body["error"]["type"] == "authentication_error", error.body


def test_many_at_once():
    asked = [[{"role": "user", "content": f"Tell me about the number {i}."}] for i in range(16)]
    kinds = [
        lambda messages: chat(messages).choices[0].message.content,
        lambda messages: message(messages).content[0].text,
        lambda messages: response(messages).output_text,
        lambda messages: oa.completions.create(
            model=M, prompt=messages[0]["content"], max_tokens=24, temperature=1, seed=3
        )
        .choices[0]
        .text,
        lambda messages: "".join(
            chunk.choices[0].delta.content or "" for chunk in chat(messages, stream=True) if chunk.choices
        ),
    ]
    jobs = [(kind, messages) for messages in asked for kind in kinds]
    ask = lambda job: job[0](job[1])
    alone = [ask(job) for job in jobs]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, jobs))
    assert together == alone and len(set(alone)) > 16


def test_too_many_requests():
    if not args.flood:
        return "SKIPPED: no --flood"

    def one(i):
        try:
            if i % 2:
                chat(max_tokens=200, seed=i, temperature=1)
            else:
                message(max_tokens=200, extra_body={"temperature": 1})
        except (openai.RateLimitError, anthropic.RateLimitError) as error:
            assert int(error.response.headers["retry-after"]) >= 1
            return type(error)

    with concurrent.futures.ThreadPoolExecutor(args.flood) as pool:
        answers = list(pool.map(one, range(args.flood)))
    assert None in answers and openai.RateLimitError in answers and anthropic.RateLimitError in answers, answers
    # The clients try again by themselves.
    patient = oa.with_options(max_retries=5)
    assert patient.chat.completions.create(model=M, messages=QUESTION, max_tokens=4).choices


failed = 0
tests = {name: test for name, test in list(globals().items()) if name.startswith("test_")}
for name, test in tests.items():
    if args.names and name not in args.names:
        continue
    try:
        print(f"{name}: {test() or 'ok'}", flush=True)
    except Exception:
        failed += 1
        print(f"{name}: FAILED\n{traceback.format_exc()}", flush=True)
sys.exit(1 if failed else 0)
