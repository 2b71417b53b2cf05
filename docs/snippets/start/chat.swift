// --8<-- [start:start]
// swift run Chat model.gguf
import Realizar

let chat = try Conversation(await Model.load(CommandLine.arguments[1]), system: "Be brief.")
while let line = readLine() {
    for try await piece in try chat.say(line) { print(piece, terminator: "") }
    print()
}
// --8<-- [end:start]
