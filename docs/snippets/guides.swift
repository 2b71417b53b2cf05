// The Swift code of docs/guides, a section per guide, as a program that tests/docs.sh runs:
// guides MODEL ADAPTER FOLDER
import Foundation
import Realizar

// --8<-- [start:chat]
func chat(_ model: Model) async throws {
    let chat = try Conversation(model, system: "")
    for try await piece in try chat.say("Once upon a time") { print(piece, terminator: "") }
}
// --8<-- [end:chat]

// --8<-- [start:options]
func options(_ model: Model) async throws {
    let chat = try Conversation(model, options: ConversationOptions(overflow: .forget))
    let options = Options(sampling: Sampling(temperature: 0.7, topP: 0.9, seed: 42), maxTokens: 60, stops: ["\n\n"])
    for try await piece in try chat.say("Once upon a time", options) { print(piece, terminator: "") }
}
// --8<-- [end:options]

// --8<-- [start:streaming]
func streaming(_ model: Model) async throws {
    let chat = try Conversation(model)
    try chat.add("user", "Once upon a time")
    for try await part in try chat.reply(Options(maxTokens: 60)) {
        switch part.kind {
        case .content: print(part.text, terminator: "")
        case .reasoning: print(part.text, terminator: "") // the reasoning before the answer
        default: break
        }
    }
}
// --8<-- [end:streaming]

// --8<-- [start:stopping]
func stopping(_ model: Model) async throws {
    let chat = try Conversation(model)
    try chat.add("user", "Once upon a time")
    var options = Options()
    options.keeps = true // a discarded reply keeps its text
    let reply = try chat.reply(options)
    try reply.deadline(microseconds: 20_000) // or cancel the task, or call reply.cancel()
    do {
        while try reply.step() {}
    } catch let error as RealizarError where error.code == .deadline {
        reply.resume() // the paused reply continues
        while try reply.step() {}
    }
}
// --8<-- [end:stopping]

// --8<-- [start:structured]
func structured(_ model: Model) async throws -> String {
    let schema = """
        {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"], "additionalProperties": false}
        """
    let chat = try Conversation(model)
    try chat.add("user", "Lily is five.")
    var text = ""
    for try await part in try chat.reply(Options(grammar: Grammar(.jsonSchema, schema))) where part.kind == .content {
        text += part.text
    }
    return text
}
// --8<-- [end:structured]

// --8<-- [start:tools]
func tools(_ model: Model) async throws -> String {
    let weather: JSON = [
        "type": "function",
        "function": [
            "name": "weather", "description": "The weather of a city",
            "parameters": [
                "type": "object", "properties": ["city": ["enum": ["Paris", "Tokyo"]]], "required": ["city"],
                "additionalProperties": false,
            ],
        ],
    ]
    let chat = try Conversation(model, ["tools": [weather], "parallel_tool_calls": false, "tool_choice": "required"]) // or "auto"
    try chat.add("user", "Is it warm in Paris?")
    var call = "", id = "" // part.call is the index of the call
    for try await part in try chat.reply(Options(maxTokens: 100)) {
        switch part.kind {
        case .toolID: id = part.text
        case .toolName, .toolArguments: call += part.text
        default: break
        }
    }
    try chat.add(["role": "tool", "tool_call_id": .string(id), "content": "21 C"])
    return call // the next chat.reply() answers with the result
}
// --8<-- [end:tools]

// --8<-- [start:embeddings]
func embeddings(_ model: Model) throws -> Float {
    let vectors = try model.embed(["a small girl", "a little girl"], pooling: .mean) // .model: the model's own
    return zip(vectors[0], vectors[1]).reduce(0) { $0 + $1.0 * $1.1 } // normalized, so this is the cosine
}
// --8<-- [end:embeddings]

// --8<-- [start:pictures]
func pictures(_ model: Model, _ projector: String, _ picture: String) throws {
    let encoder = try Encoder(model, projector) // "mmproj-....gguf", or the folder of the model
    let media = try encoder.encode(file: [UInt8](Data(contentsOf: URL(fileURLWithPath: picture))))
    let json = """
        {"messages": [{"role": "user", "content": [{"type": "image", "media": 0}, {"type": "text", "text": "What is this?"}]}]}
        """
    let prompt = try Prompt(model, conversation: json, media: [media])
    let job = try model.session().job(prompt, Options(maxTokens: 200))
    while try job.step() { print(try job.text(), terminator: "") }
    print(try job.text())
}
// --8<-- [end:pictures]

// --8<-- [start:adapters]
func adapters(_ model: Model, _ path: String) async throws {
    var options = ConversationOptions()
    options.adapters = [(try model.adapter(path), scale: 1)]
    let chat = try Conversation(model, options: options)
    for try await piece in try chat.say("Once upon a time") { print(piece, terminator: "") }
}
// --8<-- [end:adapters]

// --8<-- [start:saving]
func saving(_ model: Model) async throws -> Int {
    let chat = try Conversation(model)
    for try await _ in try chat.say("Once upon a time") {}
    var file: [UInt8] = [] // or a FileHandle
    try chat.save { file.append(contentsOf: $0) }
    var at = 0
    let later = try Conversation.load(model) { buffer in
        buffer.copyBytes(from: file[at..<(at + buffer.count)])
        at += buffer.count
    }
    return try later.messages().count // continues bit-identically
}
// --8<-- [end:saving]

// --8<-- [start:store]
func prefixes(_ model: Model, _ folder: String) async throws -> StoreInfo {
    // Without a folder the prefixes are freed with the store.
    let store = try Store(model, options: StoreOptions(minTokens: 4, path: folder))
    var options = ConversationOptions()
    options.store = store
    for _ in 0..<2 { // the second conversation reuses the prompt
        let chat = try Conversation(model, options: options)
        for try await _ in try chat.say("Once upon a time there was a long instruction") {}
    }
    return try store.info()
}
// --8<-- [end:store]

// --8<-- [start:batches]
func batches(_ model: Model) throws {
    let replies = try ["Once upon a time", "The little dog", "One day"].map { question in
        let chat = try Conversation(model)
        try chat.add("user", question)
        return try chat.reply(Options(maxTokens: 40))
    }
    // Each step decodes a token of every conversation.
    while try Reply.step(replies) {} // take parts here: reply.parts()
}
// --8<-- [end:batches]

// --8<-- [start:frames]
/// Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply.
func frame(_ reply: Reply) throws -> Bool {
    let more = try reply.step(microseconds: 2000)
    for part in try reply.parts() { print(part.text, terminator: "") }
    return more
}
// --8<-- [end:frames]

// --8<-- [start:plan]
func plan(_ path: String) throws {
    // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
    let plan = try Model.plan(path, sessions: 4, capacity: 4096)
    print("weights \(plan.weightsHost >> 20) MB, each conversation \(plan.cacheHost >> 20) MB, all \(plan.totalHost >> 20) MB")
}
// --8<-- [end:plan]

// --8<-- [start:memory]
func memory(_ path: String) throws {
    let runtime = try Runtime(threads: 2, memoryLimit: 512 << 20) // beyond the limit: .limit
    let model = try Model(path, options: LoadOptions(runtime: runtime))
    var options = ConversationOptions(capacity: 2048)
    options.keys = .q8_0
    options.values = .q8_0
    _ = try Conversation(model, options: options)
}
// --8<-- [end:memory]

// --8<-- [start:gpus]
func gpus(_ path: String) throws {
    for device in try Device.all() {
        print(device.index, device.name, device.isAvailable ? device.isa : device.unavailable)
    }
    var options = LoadOptions()
    options.device = 0 // 0: the library chooses; or the index of a device, or options.devices
    let model = try Model(path, options: options)
    print("on device \(model.info.device), GPUs \(model.info.devices)")
}
// --8<-- [end:gpus]

// --8<-- [start:determinism]
/// For tests: returns a reply, which is the same for every number of threads.
func said(_ path: String, threads: Int) async throws -> String {
    let model = try Model(path, options: LoadOptions(runtime: try Runtime(threads: threads)))
    var text = ""
    for try await piece in try Conversation(model).say("Once upon a time") { text += piece }
    return text
}
// --8<-- [end:determinism]

// --8<-- [start:errors]
func loadOrExplain(_ path: String) {
    do {
        _ = try Model(path)
    } catch let error as RealizarError where error.code == .io {
        print("fetch the model first: \(error.message)")
    } catch {
        print(error)
    }
}
// --8<-- [end:errors]

let path = CommandLine.arguments[1]
let model = try await Model.load(path)
try await chat(model)
print()
try await options(model)
try await streaming(model)
try await stopping(model)
let json = try await structured(model)
precondition(json.hasPrefix("{\"name\":"))
let call = try await tools(model)
precondition(call.hasPrefix("weather{\"city\":"))
let similarity = try embeddings(model)
precondition(similarity > 0.5)
do {
    try pictures(model, path, path)
    preconditionFailure("an encoder")
} catch let error as RealizarError {
    precondition(error.code == .unsupported)
}
try await adapters(model, CommandLine.arguments[2])
let kept = try await saving(model)
precondition(kept == 2)
let stored = try await prefixes(model, CommandLine.arguments[3])
precondition(stored.hits > 0)
try batches(model)
let talk = try Conversation(model)
try talk.add("user", "Once upon a time")
let reply = try talk.reply(Options(maxTokens: 40))
while try frame(reply) {}
try plan(path)
try memory(path)
try gpus(path)
let one = try await said(path, threads: 1)
let three = try await said(path, threads: 3)
precondition(one == three)
loadOrExplain("none.gguf")
print("\nall ran")
