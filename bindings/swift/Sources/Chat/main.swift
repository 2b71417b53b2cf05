// Holds a conversation with a model on the terminal:  swift run Chat model.gguf
import Realizar

guard CommandLine.arguments.count == 2 else { fatalError("usage: Chat model.gguf") }
let session = try await Model.load(CommandLine.arguments[1]).session()
var messages: [Message] = []
print("> ", terminator: "")
while let line = readLine() {
    messages.append(Message("user", line))
    var answer = ""
    for try await piece in try session.chat(messages, Options(sampling: Sampling(temperature: 0.7, topP: 0.95))) {
        print(piece, terminator: "")
        answer += piece
    }
    messages.append(Message("assistant", answer))
    print("\n> ", terminator: "")
}
