"""Writes replies.json: replies as models write them, other than by their templates, and what SGLang's parsers make of
them.

Run with the modules function_call and parser of sglang 0.5.23 in the path: python make_replies.py > replies.json
A row is the template's name in published.json, or a mark by which the form is known, the text, and the reasoning, the
content and the calls. A reply begins in reasoning where its template's prompt ends so.
"""

import json

from sglang.srt.entrypoints.openai.protocol import Function, Tool
from sglang.srt.function_call.function_call_parser import FunctionCallParser
from sglang.srt.parser.reasoning_parser import ReasoningParser

TOOLS = [
    Tool(type="function", function=Function(name=name, parameters={"type": "object", "properties": properties}))
    for name, properties in [
        ("get_weather", {"city": {"type": "string"}, "days": {"type": "integer"}}),
        ("get", {"query": {"type": "string"}}),
    ]
]

QWEN = '<tool_call>\n{"name": "get", "arguments": {"query": "a"}}\n</tool_call>'
CODER = "<tool_call>\n<function=get>\n<parameter=query>\na\n</parameter>\n</function>\n</tool_call>"
MINIMAX = '<minimax:tool_call>\n<invoke name="get">\n<parameter name="query">a</parameter>\n</invoke>\n</minimax:tool_call>'
GLM = "<tool_call>get{0}<arg_key>query</arg_key>{1}<arg_value>a</arg_value>{2}</tool_call>"
KIMI = "<|tool_calls_section_begin|><|tool_call_begin|>{0}<|tool_call_argument_begin|>{1}<|tool_call_end|><|tool_calls_section_end|>"
BARE = '{"name": "get", "parameters": {"query": "a"}}'

# The template, the parsers of calls and reasoning, and the replies.
FAMILIES = [
    ("Qwen-Qwen2.5-7B-Instruct", "qwen25", None, [QWEN, f"I look.\n{QWEN}", f"{QWEN}\n{QWEN}"]),
    ("Qwen3-Coder", "qwen3_coder", None, [CODER, f"I look.\n\n{CODER}", CODER.replace("\n</function>", "</function>")]),
    (
        "Qwen3.5-4B",
        "qwen3_coder",
        "qwen3",
        [f"Hm.\n</think>\n\n{CODER}", f"<think>\nHm.\n</think>\n\n{CODER}", "Hm.\n</think>\n\nIt is.", f"Hm.\n\n{CODER}"],
    ),
    (
        "GLM-4.7-Flash",
        "glm47",
        "glm45",
        [f"Hm.</think>{GLM.format(*spaces)}" for spaces in (("", "", ""), ("", " ", ""), ("", "\n", ""))]
        + [f"Hm.\n{GLM.format('', '', '')}"],
    ),
    (
        "GLM-4.6",
        "glm45",
        "glm45",
        [f"<think>Hm.</think>\n{GLM.format(*spaces)}" for spaces in (("\n", "\n", "\n"), ("\n", "", ""))],
    ),
    ("MiniMax-M2", "minimax-m2", "minimax", [f"Hm.\n</think>\n\n{MINIMAX}", f"Hm.</think>{MINIMAX}".replace("\n", "")]),
    (
        "mistralai-Mistral-Nemo-Instruct-2407",
        "mistral",
        None,
        [
            f'[TOOL_CALLS] [{{"name": "get", "arguments": {{"query": "a"}}{end}}}]'
            for end in ("", ', "id": "abcdefghi"')
        ],
    ),
    (
        "<|tool_call_argument_begin|>",
        "kimi_k2",
        None,
        [
            KIMI.format("functions.get:0", '{"query": "a"}'),
            KIMI.format("get:0", '{"query": "a"}'),
            KIMI.format(" functions.get:0 ", ' {"query": "a"} '),
        ],
    ),
    (
        "List of tools: ",
        "lfm2",
        None,
        [
            f"<|tool_call_start|>{before}[get(query={quote}a{quote})]{before}<|tool_call_end|>"
            for before in ("", "\n")
            for quote in "'\""
        ],
    ),
    ("bare", "llama3", None, [BARE, f"{BARE}; {BARE}", f"{BARE};{BARE}", f"<|python_tag|>{BARE}; {BARE}"]),
]


def read(tool_parser, reasoning_parser, text):
    thought = ""
    if reasoning_parser:
        thought, text = ReasoningParser(reasoning_parser, force_reasoning=True).parse_non_stream(text)
    content, calls = FunctionCallParser(TOOLS, tool_parser).parse_non_stream(text or "")
    calls = [[call.name, json.loads(call.parameters)] for call in calls]
    return [(thought or "").strip(), content.strip(), calls]


rows = []
for template, tool_parser, reasoning_parser, texts in FAMILIES:
    for text in texts:
        rows.append([template, text, *read(tool_parser, reasoning_parser, text)])
print("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]")
