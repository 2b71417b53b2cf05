# Asks a model through the node RealizarChat, in Godot 3:  godot3-server --path project -s chat.gd
extends SceneTree

var node
var text = ""
var reasoning = ""
var story = ""
var turn = 0
var pieces = 0
var frames = 0
var first = 0
var began = 0
var errors = []

func _initialize():
	node = load("res://addons/realizar/realizar_chat.gdns").new()
	root.add_child(node)
	node.connect("text", self, "_on_text")
	node.connect("reasoning", self, "_on_reasoning")
	node.connect("ended", self, "_on_ended")
	expect(node.load_model("no such file.gguf", 1).find("no such file.gguf") >= 0, "a missing file is named")
	expect(node.ask("x") == "no model is loaded" and node.begin("") == "no model is loaded", "a model is needed")
	expect(node.ask() == "there are too few or too many arguments", "arguments are counted")
	expect(node.set_option("none", 1) != "" and node.set_option("max_tokens", -1) != "", "options are checked")
	expect(node.set_option("max_tokens", 2.5) == "max_tokens is 2.5; it must be a whole number from 0 to 4294967295", "numbers are checked")
	expect(node.set_option(1, 1) == "an argument has the wrong type", "types are checked")
	expect(node.load_model("x", -1).begins_with("threads is -1"), "threads are checked")
	began = OS.get_ticks_usec()
	expect(node.load_model(OS.get_environment("MODEL"), 1) == "", "a model is loaded")
	expect(node.device_name(1) != "" and node.device_name(99) == "", "devices have names")
	expect(node.set_option("device", 99) == "", "a device is set")
	expect(node.load_model(OS.get_environment("MODEL"), 1).find("device 99") >= 0, "a device that does not exist is named")
	expect(node.begin("") == "", "the model stays")
	expect(node.set_option("device", 1) == "" and node.load_model(OS.get_environment("MODEL"), 1) == "", "the CPU is device 1")
	expect(node.set_option("max_tokens", 60) == "", "an option is set")
	expect(node.set_option("budget", int(OS.get_environment("BUDGET"))) == "", "a budget is set")
	for option in OS.get_environment("OPTIONS").split(" ", false):
		expect(node.set_option(option.split("=")[0], float(option.split("=")[1])) == "", option)
	expect(node.begin(OS.get_environment("SYSTEM")) == "" and not node.is_answering(), "no answer yet")
	var error = node.ask(OS.get_environment("QUESTION"))
	expect(error == "" and node.is_answering(), "a question is asked " + error)

# An image of the engine, in the way of a picture of the screen.
func ask_about_an_image():
	var image = Image.new()
	image.create(90, 70, false, Image.FORMAT_RGBA8)
	image.fill(Color(0.2, 0.7, 0.4))
	var png = Marshalls.raw_to_base64(image.save_png_to_buffer())
	text = ""
	expect(node.load_encoder(OS.get_environment("ENCODER")) == "", "an encoder is loaded")
	var error = node.begin("") + node.ask_about(OS.get_environment("QUESTION"), png)
	expect(error == "" and node.is_answering(), "a question about an image is asked " + error)

func expect(fine, what):
	if not fine:
		errors.append(what)

func _idle(_delta):
	frames += 1
	return false

func _on_reasoning(piece):
	reasoning += piece

func _on_text(piece):
	if pieces == 0:
		first = OS.get_ticks_usec()
	pieces += 1
	text += piece
	if turn == 1 and pieces == 3:
		node.stop()

func _on_ended(error):
	expect(not node.is_answering(), "it ended")
	expect(error == ("stopped" if turn == 1 else ""), "turn " + str(turn) + " ended: " + error)
	expect(pieces > 1, "text comes in pieces")
	if turn == 0:
		expect(frames >= pieces, "at most one piece comes in a frame")
		print('answer: "', text, '"')
		print('reasoning: "', reasoning, '"')
		printerr("first piece after ", (first - began) / 1000, " ms, ", pieces, " pieces in ", frames, " frames")
		story = text
		text = ""
	if turn == 3:
		expect(text != story, "an image counts")
		printerr("an image was shown")
	if turn == 2:
		expect(text.begins_with(story), "what was said of an answer that was stopped stays")
	pieces = 0
	turn += 1
	if turn == 1 and OS.has_environment("TALK"):
		expect(node.begin("") == "" and node.ask(OS.get_environment("QUESTION")) == "", "another conversation")
	elif turn == 2:
		expect(node.ask("") == "", "a receiver asks")
	elif turn == 3 and OS.has_environment("TALK"):
		ask_about_an_image()
	else:
		for e in errors:
			print("FAILED: ", e)
		node.queue_free()
		quit()
