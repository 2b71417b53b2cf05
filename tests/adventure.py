"""Checks a transcript of the adventure, on standard input, with the rules of its own: every reply obeys the schema, only
what the state allows was offered and done, and an interrupted reply changes nothing.  adventure.py adventure.json"""

import json
import re
import sys

story = json.load(open(sys.argv[1], encoding="utf-8"))
rooms = {room["name"]: room for room in story["rooms"]}
say = re.compile(json.loads(story["schema"].replace("{actions}", ""))["properties"]["say"]["pattern"])
room, items = rooms[story["start"]], []
said = replies = interruptions = 0
times = None
for line in sys.stdin.read().splitlines():
    kind, text = line[:2], line[2:]
    if kind == "> ":
        assert text == story["script"][said]["say"], line
        said += 1
    elif kind == "! ":
        assert text in ("stopped", "another question was asked") and "interrupts" in story["script"][said], line
        interruptions += 1
    elif kind == "< ":
        reply = json.loads(text)
        assert list(reply) == ["say", "action"] and say.search(reply["say"]), line
        done = next(action for action in room["actions"] if action["name"] == reply["action"])
        assert done.get("needs") in [None, *items] and done.get("gives") not in items, line
        items += [done["gives"]] if "gives" in done else []
        room = rooms[done.get("to", room["name"])]
        replies += 1
    elif kind == "= ":
        assert text == f"{room['name']}: {', '.join(items)}", f"{line}, not {room['name']}: {items}"
    elif re.match(r"\d+ frames: ", line):
        times = line
    elif line:
        sys.exit(f"FAILED: {line}")
assert times and replies >= 3 and interruptions == sum("interrupts" in line for line in story["script"]), (replies, interruptions)
assert said == len(story["script"]) or not room["actions"], said
print(f"{replies} replies obey the schema, {interruptions} were interrupted; {times}")
