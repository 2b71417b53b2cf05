# The rules of the adventure, and the talk with its people through the node Chat. adventure.json has all texts.
# Written in what GDScript has in Godot 3 and 4 alike.
extends Node

signal shown(text) # to be shown to the player, piece by piece
# Lines of a transcript: "> " what was said, "? " what the person can do, "< " the whole reply, "! " why there is none,
# "= " the state.
signal noted(line)
signal played # the script has come to its end

var story
var room
var items = []
var reply = "" # JSON, as much of it as has come
var is_playing = false
var lines = [] # what is still to be said without a player
var frames = [] # milliseconds between two frames in which a person speaks
var last_frame = 0 # microseconds; 0: nobody spoke in it

func begin(data):
	story = data
	check($Chat.set_option("temperature", 0))
	enter(story.start)

func enter(name):
	for each in story.rooms:
		if each.name == name:
			room = each
	emit_signal("shown", "\n" + room.text + "\n")
	# The texts of all persons begin with the same words, and what was computed of these is kept.
	check($Chat.begin(story.world + " " + room.get("person", "")))

# --8<-- [start:engine-ask]
# What the person of the room may do now. The schema of the reply offers nothing else.
func actions():
	var names = []
	for each in room.actions:
		var has_what_it_needs = not ("needs" in each) or each.needs in items
		var is_done = "gives" in each and each.gives in items
		if has_what_it_needs and not is_done:
			names.append(each.name)
	return names

# Says something. A person who is still speaking is interrupted.
func say(line):
	$Chat.stop()
	emit_signal("shown", "\n> " + line + "\n")
	emit_signal("noted", "> " + line)
	reply = ""
	var names = actions()
	emit_signal("noted", "? " + joined(names, ", "))
	if names.size() == 0:
		return
	var held = "nothing" if items.size() == 0 else joined(items, " and ")
	check($Chat.set_schema(story.schema.replace("{actions}", "\"" + joined(names, "\", \"") + "\"")))
	check($Chat.ask(story.question.replace("{said}", line).replace("{items}", held)))
# --8<-- [end:engine-ask]

# --8<-- [start:engine-hear]
# What is said in a reply. The schema allows no quotes in it, so that these are those of {"say":"...","action":"..."}.
func said():
	var parts = reply.split("\"")
	return parts[3] if parts.size() > 3 else ""

func _on_text(piece):
	var before = said().length()
	reply += piece
	emit_signal("shown", said().substr(before, said().length() - before))

func _on_ended(error):
	var parts = reply.split("\"")
	if error == "" and parts.size() == 9:
		emit_signal("noted", "< " + reply)
		act(parts[7])
	else:
		emit_signal("noted", "! " + error)
	emit_signal("noted", "= " + room.name + ": " + joined(items, ", "))

func act(name):
	emit_signal("shown", " (" + name + ")\n")
	for each in room.actions:
		if each.name == name:
			if "gives" in each:
				items.append(each.gives)
			if "to" in each:
				enter(each.to)
			return
# --8<-- [end:engine-hear]

# Says the lines of the script, for a run without a player.
func play():
	lines = story.script.duplicate()
	is_playing = true

func _process(_delta):
	var now = Time.get_ticks_usec()
	if last_frame > 0:
		frames.append((now - last_frame) / 1000.0)
	if is_playing:
		go_on()
	last_frame = now if $Chat.is_answering() else 0

func go_on():
	var is_next = not $Chat.is_answering()
	if lines.size() > 0 and (is_next or "interrupts" in lines[0] and said() != ""):
		say(lines.pop_front().say)
	elif is_next:
		is_playing = false
		emit_signal("played")

# The 50th and 99th percentile of the frames in which a person spoke, and the longest, in milliseconds.
func frame_times():
	frames.sort()
	var n = frames.size()
	return "%d frames: %.1f, %.1f, %.1f ms" % [n, frames[n / 2], frames[n * 99 / 100], frames[n - 1]]

func joined(texts, between):
	var all = ""
	for text in texts:
		all += text if all == "" else between + text
	return all

func check(error):
	if error != "":
		push_error(error)
