# Plays the script of the adventure in Godot 3, with its rules as they are in Godot 4. EACH=yes also prints each frame:
#   MODEL=model.gguf BUDGET=2000 FPS=60 godot3-server --path project -s adventure3.gd
extends SceneTree

var adventure
var shown = ""

func _initialize():
	var chat = load("res://addons/realizar/realizar_chat.gdns").new()
	adventure = load("res://adventure.gd").new()
	chat.name = "Chat"
	adventure.add_child(chat)
	root.add_child(adventure)
	chat.connect("text", adventure, "_on_text")
	chat.connect("ended", adventure, "_on_ended")
	adventure.connect("shown", self, "_on_shown")
	adventure.connect("noted", self, "_on_noted")
	adventure.connect("played", self, "_on_played")
	adventure.check(chat.load_model(OS.get_environment("MODEL"), 1))
	adventure.check(chat.set_schema("{\"type\": \"boolean\"}"))
	adventure.check(chat.set_option("budget", int(OS.get_environment("BUDGET"))))
	var file = File.new()
	file.open("res://adventure.json", File.READ)
	Engine.target_fps = int(OS.get_environment("FPS"))
	adventure.begin(JSON.parse(file.get_as_text()).result)
	adventure.play()

func _on_shown(text):
	shown += text.replace("\n", " ")

func _on_noted(line):
	print(line)

func _on_played():
	if OS.has_environment("EACH"):
		for frame in adventure.frames:
			print("frame ", frame)
	print("shown ", shown)
	print(adventure.frame_times())
	adventure.queue_free()
	quit()
