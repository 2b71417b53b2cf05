"""Writes published.json: chat templates of published models, conversations, and what jinja2 makes of them in the
settings of transformers.

Run with jinja2 3.1.6 and transformers 5: python make_published.py TEMPLATES > published.json
TEMPLATES is a folder of .jinja files. A result is [bytes, hash] of a text, null where rendering fails; the hash is
FNV-1a of 64 bits.
Calls of strftime_now are replaced by a date, so that results are those of any day.
"""

import json
import pathlib
import re
import sys

from transformers.utils import chat_template_utils


def call(name, arguments, id="call00001"):
    return {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}


def tool(name, description="", **properties):
    parameters = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def system(text):
    return {"role": "system", "content": text}


def user(text):
    return {"role": "user", "content": text}


def assistant(text, **more):
    return {"role": "assistant", "content": text, **more}


def result(text, name="get_weather", id="call00001"):
    return {"role": "tool", "name": name, "tool_call_id": id, "content": text}


WEATHER = tool(
    "get_weather",
    "Weather of a place\nnow",
    city={"type": "string", "description": "Name of the city"},
    unit={"type": "string", "enum": ["C", "F"], "default": "C"},
)
SEARCH = tool(
    "search",
    'Finds "things" & <more>',
    query={"type": "array", "items": {"type": "string"}, "minItems": 1},
    options={"type": "object", "properties": {"deep": {"type": "boolean"}, "n": {"type": ["integer", "null"]}}},
)
PARIS = call("get_weather", {"city": "Paris", "unit": "C"})
ASKS = [user("What is the weather?"), assistant(None, tool_calls=[PARIS]), result('{"temperature": 21.5}')]


def chat(messages, prompt=True, tools=None, **variables):
    return {"messages": messages, "add_generation_prompt": prompt, "tools": tools, "variables": variables}


CONVERSATIONS = {
    "plain": chat([user("Hello")]),
    "system": chat([system("Be brief."), user("Hello")]),
    "turns": chat([system("S"), user("One"), assistant("Two"), user("Three"), assistant("Four"), user("Five")]),
    "spaces": chat([system("  S \n"), user("  Hi\n\n"), assistant("\n\n ok \t"), user(" end ")]),
    "unicode": chat([system("日本語 ß"), user("😀 e\u0301 \u2028 \xa0 «»"), assistant("Ünï"), user("<b>&amp;'\"\\n")]),
    "empty": chat([system(""), user(""), assistant(""), user("")]),
    "tools": chat([user("Weather?")], tools=[WEATHER, SEARCH]),
    "tools and system": chat([system("Use tools."), user("Weather?")], tools=[WEATHER]),
    "call": chat(ASKS, tools=[WEATHER]),
    "call and answer": chat([system("S"), *ASKS, assistant("21.5 degrees."), user("Thanks")], tools=[WEATHER, SEARCH]),
    "call with content": chat(
        [user("Q"), assistant("I look.", tool_calls=[PARIS]), result("sunny"), assistant("Sunny."), user("And?")],
        tools=[WEATHER],
    ),
    "parallel calls": chat(
        [
            user("Both?"),
            assistant("", tool_calls=[PARIS, call("get_weather", {"city": "Rome", "unit": "F"}, "call00002")]),
            result("21"),
            result("70", id="call00002"),
        ],
        tools=[WEATHER],
    ),
    "numbers": chat(
        [
            user("Q"),
            assistant(
                "",
                tool_calls=[
                    call("search", {"a": 1e20, "b": 1e-5, "c": -0.0, "d": 100.0, "e": 2**60, "f": True, "g": None})
                ],
            ),
            result("ok", "search"),
        ],
        tools=[SEARCH],
    ),
    "nested": chat(
        [
            user("Q"),
            assistant(
                "",
                tool_calls=[
                    call("search", {"query": ["a", 'b"c'], "options": {"deep": True, "x": [[], {}, {"y": "é\n"}]}})
                ],
            ),
            result('[{"a": [1, 2]}]', "search"),
        ],
        tools=[SEARCH],
    ),
    "arguments as text": chat(
        [user("Q"), assistant("", tool_calls=[call("get_weather", '{"city": "Paris", "n": 1.0}')]), result("x")],
        tools=[WEATHER],
    ),
    "no arguments": chat(
        [user("Q"), assistant("", tool_calls=[call("now", {})]), result("", "now")], tools=[tool("now")]
    ),
    "reasoning": chat(
        [
            user("Q"),
            assistant("A", reasoning_content="I think\n"),
            user("R"),
            assistant("B", reasoning_content=""),
            user("S"),
        ]
    ),
    "reasoning in content": chat([user("Q"), assistant("<think>\nhm\n</think>\n\nA"), user("R")]),
    "reasoning and call": chat(
        [user("Q"), assistant("", reasoning_content="I need it", tool_calls=[PARIS]), result("21")], tools=[WEATHER]
    ),
    "thinking off": chat([user("Q")], enable_thinking=False, thinking=False, reasoning_effort="low"),
    "continued": chat([user("Q"), assistant("The answer")], prompt=False),
    "no prompt": chat([system("S"), user("Q")], prompt=False),
    "developer": chat([{"role": "developer", "content": "D"}, user("Q")]),
    "two systems": chat([system("S"), system("T"), user("Q"), assistant("A"), system("U"), user("R")]),
    "documents": chat([user("Q")], documents=[{"title": "T", "text": "Body", "doc_id": 1}]),
    "names": chat([{**user("Q"), "name": "Ann <x>"}, assistant("A", name="Bob"), user("{{ 1 }} {% raw %}")]),
    "parts": chat([{"role": "user", "content": [{"type": "text", "text": "Hi "}, {"type": "text", "text": "there"}]}]),
    "no user": chat([system("S"), assistant("A")]),
}


def fnv(text):
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def render(source, conversation):
    """The text, as transformers' apply_chat_template hands variables to a template, but for its changes to messages."""
    variables = {**conversation, **conversation["variables"], "bos_token": "<s>", "eos_token": "</s>"}
    variables.setdefault("documents", None)
    del variables["variables"]
    return chat_template_utils._compile_jinja_template(source).render(**variables)


def main(folder):
    templates = {}
    for path in sorted(pathlib.Path(folder).glob("*.jinja")):
        source = re.sub(r"strftime_now\([^()]*\)", "'29 Feb 2024'", path.read_text())
        results = []
        for conversation in CONVERSATIONS.values():
            try:
                text = render(source, json.loads(json.dumps(conversation))).encode()
                results.append([len(text), fnv(text)])
            except Exception as error:
                results.append(None)
                print(path.stem, str(error)[:120], file=sys.stderr)
        templates[path.stem] = {"source": source, "results": results}
    print('{"conversations": ' + json.dumps(CONVERSATIONS) + ',\n"templates": {')
    print(",\n".join(json.dumps(name) + ": " + json.dumps(template) for name, template in templates.items()))
    print("}}")


if __name__ == "__main__":
    main(sys.argv[1])
