"""Checks a transcript of the adventure, on standard input: every reply obeys the schema, only what the state allows
was offered and done, the player was shown it, and an interrupted reply changes nothing. With what tests/count_steps.c
has counted also that no frame made two steps of a reply, nor one with more time than the microseconds given:

    adventure.py adventure.json [counted microseconds]"""

import json
import re
import sys

story = json.load(open(sys.argv[1], encoding="utf-8"))
rooms = {room["name"]: room for room in story["rooms"]}
say = re.compile(json.loads(story["schema"].replace("{actions}", ""))["properties"]["say"]["pattern"])
room, items = rooms[story["start"]], []
said = replies = interruptions = 0
times = shown = ""
heard = []
for line in sys.stdin.read().splitlines():
    kind, text = line[:2], line[2:]
    if kind == "> ":
        assert text == story["script"][said]["say"], line
        said += 1
    elif kind == "? ":
        holds = lambda action: action.get("needs") in [None, *items] and action.get("gives") not in items  # noqa: E731
        offered = [action for action in room["actions"] if holds(action)]
        assert text == ", ".join(action["name"] for action in offered), f"{line}, not {offered}"
    elif kind == "! ":
        assert text in ("stopped", "another question was asked") and "interrupts" in story["script"][said], line
        interruptions += 1
    elif kind == "< ":
        reply = json.loads(text)
        assert list(reply) == ["say", "action"] and say.search(reply["say"]), line
        done = next(action for action in offered if action["name"] == reply["action"])
        items += [done["gives"]] if "gives" in done else []
        room = rooms[done.get("to", room["name"])]
        heard.append(f"> {story['script'][said - 1]['say']} {reply['say']} ({reply['action']})")
        replies += 1
    elif kind == "= ":
        assert text == f"{room['name']}: {', '.join(items)}", f"{line}, not {room['name']}: {items}"
    elif line.startswith("shown "):
        shown = line
    elif re.match(r"\d+ frames: ", line):
        times = line
    elif line:
        sys.exit(f"FAILED: {line}")
wanted = sum("interrupts" in line for line in story["script"])
assert times and replies >= 3 and interruptions == wanted, (times, replies, interruptions)
assert all(each in shown for each in heard), (heard, shown)
assert said == len(story["script"]) or not room["actions"], said
if len(sys.argv) > 2:
    steps, longest = map(int, open(sys.argv[2], encoding="utf-8").read().split())
    frames = int(times.split()[0])
    assert longest == int(sys.argv[3]) and steps <= frames <= steps + said, (longest, steps, frames)
print(f"{replies} replies obey the schema, {interruptions} were interrupted; {times}")
