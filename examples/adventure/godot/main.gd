# The adventure with a player, in Godot 4:  MODEL=model.gguf godot --path .  DEVICE=n: the index of a device.
# With "godot --headless --path . -- play" the lines of the script are said in the player's place, and the times of
# frames are printed at the end.
extends Control

var loading = Thread.new()

# --8<-- [start:engine-load]
func _ready():
	$Story.text = "Loading ...\n"
	loading.start(load_model.bind($Adventure/Chat, OS.get_environment("MODEL")))

# Runs on a thread: to read the file, and to prepare the model's vocabulary for schemas, take longer than a frame.
func load_model(chat, path):
	chat.set_option("device", OS.get_environment("DEVICE").to_int())
	var error = chat.load_model(path, 1)
	return error if error else chat.set_schema('{"type": "boolean"}')

func _process(_delta):
	if loading.is_started() and not loading.is_alive():
		var error = loading.wait_to_finish()
		$Story.text = error
		if error == "":
			$Adventure.begin(load("res://adventure.json").data)
			if "play" in OS.get_cmdline_user_args():
				play()
# --8<-- [end:engine-load]

func _exit_tree():
	if loading.is_started():
		loading.wait_to_finish()

func _on_shown(text):
	$Story.add_text(text)

func _on_line(line):
	$Line.clear()
	if $Adventure.room:
		$Adventure.say(line)

func play():
	$Adventure.noted.connect(func(line): print(line))
	$Adventure.played.connect(_on_played)
	$Adventure.play()

func _on_played():
	print($Adventure.frame_times())
	get_tree().quit()
