// Holds a conversation on the terminal, or tells what this machine has for models:  swift run Chat model.gguf
// swift run Chat doctor [model.gguf]
import Foundation
import Realizar

func number(_ value: Double) -> String { String(format: "%.1f", value) }

func doctor(_ path: String?) async throws {
    print("realizar \(Library.version), \(ProcessInfo.processInfo.operatingSystemVersionString)")
    for device in try Device.all() {
        let memory = "\(number(Double(device.memoryFree) / 1e9)) of \(number(Double(device.memoryTotal) / 1e9)) GB of memory free"
        let about = [device.name, device.isa, device.memoryTotal > 0 ? memory : "", device.isAvailable ? "" : "unavailable: \(device.unavailable)"]
        print("device \(device.index): \(about.filter { !$0.isEmpty }.joined(separator: ", "))")
    }
    guard let path else { return }
    let plan = try Model.plan(path)
    print("takes \(number(Double(plan.totalHost) / 1e6)) MB of memory, \(number(Double(plan.totalDevice) / 1e6)) MB of GPUs, with one conversation")
    let begin = Date()
    let model = try await Model.load(path)
    let time = Int(Date().timeIntervalSince(begin) * 1000)
    let template = model.info.hasChatTemplate ? "a chat template" : "no chat template"
    print("loaded in \(time) ms: \(model.info.architecture) on device \(model.info.device), \(template)")
    let session = try model.session()
    for try await _ in try session.generate("Once upon a time", Options(maxTokens: 32)) {}
    let decode = try model.metrics().decode
    if decode.count > 0 { print("\(number(Double(decode.count) * 1e9 / Double(decode.nanoseconds))) tokens per second") }
}

let arguments = CommandLine.arguments.dropFirst()
if arguments.first == "doctor" {
    try await doctor(arguments.dropFirst().first)
    exit(0)
}
guard arguments.count == 1 else { fatalError("usage: Chat model.gguf, or Chat doctor [model.gguf]") }
// The oldest turns are left out of a conversation that has become too long.
let options = ConversationOptions(overflow: .forget)
let chat = try Conversation(await Model.load(arguments.first!), options: options)
print("> ", terminator: "")
while let line = readLine() {
    for try await piece in try chat.say(line) { print(piece, terminator: "") }
    print("\n> ", terminator: "")
}
