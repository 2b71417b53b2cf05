"""Writes harmony.json: replies in OpenAI's Harmony, and the messages that its own parser reads in them.

Run with openai-harmony 0.0.8 or later: python make_harmony.py > harmony.json
A message is [channel, recipient or null, text]; null stands for a reply that the parser refuses. A reply is the text of its
tokens, in which the names of control tokens stand for these.
"""
import json
import sys

from openai_harmony import HarmonyEncodingName, Role, StreamableParser, load_harmony_encoding

encoding = load_harmony_encoding(HarmonyEncodingName.HARMONY_GPT_OSS)
CALL = '{"city": "Bonn", "days": 2}'
THOUGHT = "<|channel|>analysis<|message|>Let me see.<|end|><|start|>assistant"
REPLIES = [
    "<|channel|>final<|message|>Hello.<|return|>",
    "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hello.<|return|>",
    # The canonical call, and others that were seen.
    THOUGHT + "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>commentary to=functions.get_weather<|constrain|>json<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>commentary to=functions.get_weather json<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>commentary to=functions.get_weather<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>commentary to=functions.get_weather code<|message|>" + CALL + "<|call|>",
    THOUGHT + " to=functions.get_weather<|channel|>commentary <|constrain|>json<|message|>" + CALL + "<|call|>",
    THOUGHT + " to=functions.get_weather<|channel|>commentary json<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>analysis to=functions.get_weather <|constrain|>json<|message|>" + CALL + "<|call|>",
    THOUGHT + " to=functions.get_weather<|channel|>analysis <|constrain|>json<|message|>" + CALL + "<|call|>",
    THOUGHT + "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>\n " + CALL + "<|call|>",
    "<|channel|>commentary to=functions.get_weather <|constrain|>json<|message|>" + CALL + "<|call|>",
    " to=functions.get_weather<|channel|>commentary<|message|>" + CALL + "<|call|>",
    "<|channel|>commentary to=functions.get <|constrain|>json<|message|>{}<|call|>",
    # A preamble, and two messages.
    THOUGHT + "<|channel|>commentary<|message|>I look it up.<|end|><|start|>assistant<|channel|>commentary "
    "to=functions.get_weather <|constrain|>json<|message|>" + CALL + "<|call|>",
    "<|channel|>commentary<|message|>First.<|end|><|start|>assistant<|channel|>final<|message|>Last.<|return|>",
    "<|channel|>analysis<|message|>A.<|end|><|start|>assistant<|channel|>analysis<|message|>B.<|end|>"
    "<|start|>assistant<|channel|>final<|message|>C.<|return|>",
    # An answer in JSON.
    "<|channel|>final <|constrain|>json<|message|>" + CALL + "<|return|>",
    "<|channel|>final json<|message|>" + CALL + "<|return|>",
    "<|channel|>final<|constrain|>json<|message|>" + CALL + "<|end|>",
    # Tools that are none of the conversation's.
    "<|channel|>analysis to=python code<|message|>print(1)<|call|>",
    "<|channel|>commentary to=browser.search<|message|>" + CALL + "<|call|>",
    "<|channel|>commentary to=functions.other <|constrain|>json<|message|>" + CALL + "<|call|>",
    # Without a channel, and with another one.
    "<|message|>Plain.<|end|>",
    "<|channel|>other<|message|>What?<|end|>",
    # Broken off.
    "<|channel|>final<|message|>Hel",
    "<|channel|>analysis<|message|>Hm",
    "<|channel|>final<|message|>",
]


def messages(reply):
    parser = StreamableParser(encoding, role=Role.ASSISTANT)
    try:
        for token in encoding.encode(reply, allowed_special="all"):
            parser.process(token)
        parser.process_eos()
    except Exception:
        return None
    return [[m.channel, m.recipient, "".join(part.text for part in m.content)] for m in parser.messages]


json.dump([[reply, messages(reply)] for reply in REPLIES], sys.stdout, ensure_ascii=False, indent=0)
