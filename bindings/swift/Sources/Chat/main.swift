// Holds a conversation with a model on the terminal:  swift run Chat model.gguf
import Realizar

guard CommandLine.arguments.count == 2 else { fatalError("usage: Chat model.gguf") }
// The oldest turns are left out of a conversation that has become too long.
let options = ConversationOptions(overflow: .forget)
let chat = try Conversation(await Model.load(CommandLine.arguments[1]), options: options)
print("> ", terminator: "")
while let line = readLine() {
    for try await piece in try chat.say(line) { print(piece, terminator: "") }
    print("\n> ", terminator: "")
}
