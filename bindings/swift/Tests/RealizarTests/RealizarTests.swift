// Tests on a tiny model, and on a real one where the variable MODEL names one.
import Foundation
import XCTest

@testable import Realizar

let story = ", there was a little girl named Lily. She loved to play outside in the park. One day, she saw a big, red ball."

/// Lines that were said, on any thread.
final class Told: @unchecked Sendable {
    private let lock = NSLock()
    private var said: [String] = []

    func add(_ line: String) { lock.withLock { said.append(line) } }
    var lines: [String] { lock.withLock { said } }
}

func collect(_ pieces: Pieces) async throws -> String {
    var text = ""
    for try await piece in pieces { text += piece }
    return text
}

final class RealizarTests: XCTestCase {
    static let tiny = ProcessInfo.processInfo.environment["STORY"]
        ?? URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../../tests/data/stories260K-f32.gguf").standardized.path

    func load() throws -> Model { try Model(Self.tiny, options: LoadOptions(runtime: Runtime(threads: 2))) }

    func expect(_ code: RealizarError.Code, line: UInt = #line, _ body: () throws -> Void) {
        XCTAssertThrowsError(try body(), line: line) { error in
            XCTAssertEqual((error as? RealizarError)?.code, code, "\(error)", line: line)
        }
    }

    func testTextIsTheGreedyStory() async throws {
        let model = try await Model.load(Self.tiny)
        XCTAssertEqual(model.info.architecture, "llama")
        XCTAssertEqual(model.info.layers, 5)
        XCTAssertEqual(model.info.capabilities, .generate)
        XCTAssertEqual([model.info.embeddingDim, model.info.scores], [64, 0])
        XCTAssertEqual(model.info.pooling, .model)
        XCTAssertEqual(try model.metadata("general.architecture"), "llama")
        var options = LoadOptions()
        (options.devices, options.shares) = ([1], [2])
        let there = try await Model.load(Self.tiny, options: options).info
        XCTAssertEqual([there.device] + there.devices, [1])
        XCTAssertEqual(there.deviceLayers, [])
        let tokens = try model.tokenize("Once upon a time")
        XCTAssertEqual(tokens.count, 5)
        XCTAssertEqual(try model.detokenize(tokens), "Once upon a time")
        let session = try model.session()
        let text = try await collect(session.generate("Once upon a time", Options(maxTokens: 60)))
        XCTAssertTrue(text.hasPrefix(story), text)
        let stopped = try await collect(session.generate("Once upon a time", Options(stops: [" She"])))
        XCTAssertEqual(stopped, ", there was a little girl named Lily.")
        // Token by token it is the same.
        let other = try model.session(capacity: 40)
        try other.prefill(tokens)
        let logits = try other.logits()
        var token = try other.sample()
        XCTAssertEqual(logits.firstIndex(of: logits.max()!), Int(token))
        let fork = try other.fork()
        var made: [UInt32] = []
        for _ in 0..<20 {
            made.append(token)
            token = try fork.decode(token)
        }
        XCTAssertTrue(story.hasPrefix(try model.detokenize(made)))
        XCTAssertEqual([other.count, fork.count, other.capacity], [5, 25, 40])
        // A seed repeats itself.
        let seeded = Options(sampling: Sampling(temperature: 1, seed: 7), maxTokens: 30)
        let one = try await collect(session.generate("Once", seeded))
        let two = try await collect(model.session().generate("Once", seeded))
        XCTAssertEqual(one, two)
        XCTAssertFalse(one.isEmpty)
    }

    func testRowsOfMediaStandForTokens() throws {
        let model = try load()
        let tokens = try model.tokenize("Once upon a time")
        // The embeddings of tokens, the first tensor of the tiny model.
        let file = [UInt8](try Data(contentsOf: URL(fileURLWithPath: Self.tiny)))
        let rows = file.withUnsafeBytes { bytes in
            tokens[1..<4].flatMap { token in
                (0..<64).map { bytes.loadUnaligned(fromByteOffset: 14176 + (Int(token) * 64 + $0) * 4, as: Float.self) }
            }
        }
        let media = try Media(model, rows: rows, rowDim: 64)
        XCTAssertEqual([media.info.rows, media.info.rowDim, media.info.columns, media.info.lines], [3, 64, 3, 1])
        XCTAssertEqual(try media.rows(), rows)
        let prompt = try Prompt(model, [.tokens([tokens[0]]), .media(media), .tokens(Array(tokens[4...]))], bare: true)
        let ids = [tokens[0], mediaToken, mediaToken, mediaToken] + tokens[4...]
        XCTAssertEqual(try prompt.tokens(), ids)
        XCTAssertEqual(prompt.count, ids.count)
        let said = try model.session().job(tokens, Options(maxTokens: 25))
        while try said.step() {}
        let expected = try said.text()
        let session = try model.session()
        for _ in 0..<2 {
            let job = try session.job(prompt, Options(maxTokens: 25))
            while try job.step() {}
            XCTAssertEqual(try job.text(), expected)
        }
        XCTAssertEqual(try session.match(prompt), ids.count)
        try session.truncate(2)
        try session.prefill(prompt, first: 2)
        XCTAssertEqual(try session.tokens(), ids)
        expect(.invalidArgument) { try session.prefill(prompt, first: ids.count) }

        var saved: [UInt8] = []
        try media.save { saved += $0 }
        var at = 0
        let again = try Media.load(model) { buffer in
            buffer.copyBytes(from: saved[at..<(at + buffer.count)])
            at += buffer.count
        }
        XCTAssertEqual(again.hash, media.hash)
        XCTAssertEqual(media.hash.count, 32)

        expect(.invalidArgument) { _ = try Media(model, rows: [Float](repeating: 0, count: 63), rowDim: 63) }
        expect(.invalidArgument) { _ = try Media(model, rows: [Float](repeating: 0, count: 63), rowDim: 64) }
        expect(.invalidArgument) { _ = try Prompt(model, [.tokens([512])]) }
        expect(.unsupported) { _ = try Encoder(model, Self.tiny) }
        expect(.io) { _ = try Encoder.plan(model, "/none.gguf") }
    }

    func testFailuresAreErrors() throws {
        XCTAssertThrowsError(try Model("no such file.gguf")) { error in
            let error = error as! RealizarError
            XCTAssertEqual(error.code, .io)
            XCTAssertEqual(error.systemCode, 2)
            XCTAssertTrue(error.description.hasPrefix("RZ_ERR_IO: ") && error.message.contains("no such file.gguf"), error.description)
        }
        expect(.invalidArgument) { _ = try Model("a\0b") }
        let wrong: [([Int], [Float], Int)] = [([1, 1], [], 0), ([1], [0], 0), ([1], [], 1), ([], [1], 0)]
        for (devices, shares, device) in wrong {
            var options = LoadOptions()
            (options.devices, options.shares, options.device) = (devices, shares, device)
            expect(.invalidArgument) { _ = try Model(Self.tiny, options: options) }
        }
        var onDevice = LoadOptions()
        onDevice.device = 1
        XCTAssertEqual(try Model(Self.tiny, options: onDevice).info.device, 1)
        onDevice.device = 99
        XCTAssertThrowsError(try Model(Self.tiny, options: onDevice)) { error in
            XCTAssertTrue((error as! RealizarError).message.contains("device 99"), "\(error)")
        }
        let model = try load()
        expect(.unsupported) { _ = try model.tokenize(conversation: "{\"messages\": []}") }
        expect(.unsupported) { _ = try Conversation(model) }
        expect(.invalidArgument) { _ = try model.grammar(.regex, "(") }
        expect(.invalidArgument) { _ = try model.grammar(.regex, "a", whitespace: true) }
        _ = try model.grammar(.json, whitespace: true)
        expect(.notReady) { _ = try model.session().logits() }
        expect(.unsupported) { _ = try ChatParser(model, conversation: "{\"messages\": []}") }
        let session = try model.session(capacity: 8)
        expect(.contextFull) { try session.prefill(Array(repeating: 1, count: 9)) }
        let job = try session.job([1, 2])
        expect(.busy) { try session.truncate(0) }
        expect(.invalidArgument) { _ = try model.session().job([1], Options(stops: [""])) }
        // What is wrong is refused without a temperature too.
        for wrong in [Sampling(topP: 2), Sampling(topP: .nan), Sampling(temperature: .nan)] {
            expect(.invalidArgument) { _ = try model.session().job([1], Options(sampling: wrong)) }
        }
        _ = try job.step()
        for wrong in ["", "[1", "nul", "[" + String(repeating: "[", count: 1000)] { XCTAssertThrowsError(try JSON(wrong)) }
        let value: JSON = ["b": [1, 2.5, "a\"\\\n\u{1f}é/", nil, true], "a": [:]]
        XCTAssertEqual(try JSON(value.text), value)
        XCTAssertEqual(try value.text, "{\"a\":{},\"b\":[1,2.5,\"a\\\"\\\\\\n\\u001fé/\",null,true]}")
        XCTAssertEqual([value["b"]?[2]?.string, value["c"]?.string, value["b"]?[9]?.string], ["a\"\\\n\u{1f}é/", nil, nil])
    }

    func testNumbersOutOfRangeAreRefused() throws {
        let model = try load()
        let session = try model.session(capacity: 16)
        let prompt = try Prompt(model, [.tokens([1, 2])])
        let load: [(String, WritableKeyPath<LoadOptions, Int>)] = [("device", \.device), ("mixedPrefillTokens", \.mixedPrefillTokens)]
        let encoder: [(String, WritableKeyPath<EncoderOptions, Int>)] = [("device", \.device), ("maxRows", \.maxRows)]
        let text: [(String, WritableKeyPath<Options, Int>)] = [("maxTokens", \.maxTokens), ("draftMax", \.draftMax)]
        let choice: [(String, WritableKeyPath<Sampling, Int>)] = [
            ("topK", \.topK), ("penaltyWindow", \.penaltyWindow), ("dryAllowedLength", \.dryAllowedLength), ("dryWindow", \.dryWindow),
            ("noRepeatNgramSize", \.noRepeatNgramSize),
        ]
        func with<T, V>(_ options: T, _ field: WritableKeyPath<T, V>, _ value: V) -> T {
            var options = options
            options[keyPath: field] = value
            return options
        }
        for number in [-1, 1 << 32, Int.min, Int.max] {
            let ofOptions: [(String, () throws -> Void)] = load.map { name, field in
                (name, { _ = try Model(Self.tiny, options: with(LoadOptions(), field, number)) })
            } + encoder.map { name, field in
                (name, { _ = try Encoder(model, Self.tiny, options: with(EncoderOptions(), field, number)) })
            } + text.map { name, field in
                (name, { _ = try session.job([1], with(Options(), field, number)) })
            } + choice.map { name, field in
                (name, { _ = try Sampler(with(Sampling(), field, number)) })
            }
            let calls: [(String, () throws -> Void)] = ofOptions + [
                ("devices[1]", { _ = try Model(Self.tiny, options: with(LoadOptions(), \.devices, [1, number])) }),
                ("processors[0]", { _ = try Runtime(processors: [number]) }),
                ("logprobs", { _ = try session.job([1], with(Options(), \.logprobs, number)) }),
                ("first", { _ = try Store(model).take(prompt).prefill(prompt, first: number) }),
                ("maxEntries", { _ = try Store(model, options: with(StoreOptions(), \.maxEntries, number)) }),
                ("expertsCopiedFrom", { _ = try Model(Self.tiny, options: with(LoadOptions(), \.expertsCopiedFrom, number)) }),
                ("firstLayer", { _ = try Model(Self.tiny, options: with(LoadOptions(), \.placements, [Placement(firstLayer: number)])) }),
                ("rowDim", { _ = try Media(model, rows: [0], rowDim: number) }),
                ("threads", { _ = try Runtime(threads: number) }),
                ("capacity", { _ = try model.session(capacity: number) }),
                ("sessions", { _ = try Model.plan(Self.tiny, sessions: number) }),
                ("gpuLayers", {
                    var options = LoadOptions()
                    options.gpuLayers = number
                    _ = try Model(Self.tiny, options: options)
                }),
                ("count", { try session.truncate(number) }),
                ("drop", { try session.shift(keep: 0, drop: number) }),
                ("k", { _ = try session.logprobs(number) }),
                ("first", { try session.prefill(prompt, first: number) }),
                ("minTokens", { _ = try Store(model, options: StoreOptions(minTokens: number)) }),
                ("columns", { _ = try Media(model, rows: [0], rowDim: 1, columns: number) }),
            ]
            for (name, call) in calls {
                XCTAssertThrowsError(try call(), name) { error in
                    let wanted = "RZ_ERR_INVALID_ARGUMENT: \(name) is \(number); it must be a whole number from 0 to 4294967295"
                    XCTAssertEqual("\(error)", wanted)
                }
            }
        }
        for number in [Int.min, Int.max] {
            XCTAssertThrowsError(try session.job([1], with(Options(), \.priority, number))) {
                XCTAssertTrue("\($0)".contains("priority is \(number); it must be"), "\($0)")
            }
        }
        _ = try session.job([1], with(Options(), \.priority, -5))
        let reals: [(String, WritableKeyPath<Sampling, Float>)] = [
            ("temperature", \.temperature), ("topP", \.topP), ("minP", \.minP), ("repeatPenalty", \.repeatPenalty), ("xtcThreshold", \.xtcThreshold),
            ("mirostatTau", \.mirostatTau), ("dryBase", \.dryBase), ("presencePenalty", \.presencePenalty),
        ]
        for value in [Float.nan, .infinity, -.infinity] {
            for (name, field) in reals {
                XCTAssertThrowsError(try Sampler(with(Sampling(), field, value)), name) {
                    XCTAssertEqual("\($0)", "RZ_ERR_INVALID_ARGUMENT: \(name) is \(value); it must be a finite number")
                }
            }
            var options = with(LoadOptions(), \.devices, [1])
            options.shares = [value]
            XCTAssertThrowsError(try Model(Self.tiny, options: options)) {
                XCTAssertEqual("\($0)", "RZ_ERR_INVALID_ARGUMENT: shares[0] is \(value); it must be a finite number")
            }
        }
        XCTAssertThrowsError(try Sampler(with(Sampling(), \.temperature, -1))) { XCTAssertTrue("\($0)".contains("temperature is -1"), "\($0)") }
    }

    func testCancelledTasksEnd() async throws {
        let session = try load().session()
        let task = Task { () -> String in
            var text = ""
            do {
                for try await piece in try session.generate("Once upon a time") {
                    text += piece
                    if text.count > 30 { withUnsafeCurrentTask { $0?.cancel() } }
                }
                return "it went on"
            } catch is CancellationError {
                return text
            }
        }
        let text = try await task.value
        XCTAssertTrue(text.count > 30 && text.count < 40 && story.hasPrefix(text), text)
        // The session is free again.
        let again = try await collect(session.generate("Once upon a time", Options(maxTokens: 60)))
        XCTAssertTrue(again.hasPrefix(story), again)
        // So it is where a loop is left.
        for try await _ in try session.generate("Once upon a time") { break }
        try session.truncate(0)
    }

    func testJobsShareSteps() throws {
        let model = try load()
        let tokens = try model.tokenize("Once upon a time")
        let colors = try model.grammar(.choices, "[\" red\", \" blue\"]")
        let jobs = try [
            Options(maxTokens: 20), Options(grammar: colors), Options(grammar: Grammar(.choices, "[\" green\"]")), Options(maxTokens: 60, draft: .lookup),
            Options(maxTokens: 20, draft: .model(model)),
        ].map { try model.session(capacity: 128).job(tokens, $0) }
        XCTAssertTrue(try jobs[0].step(microseconds: 0) && jobs[0].step(microseconds: -1))
        XCTAssertEqual(try jobs[0].tokens(), [])
        XCTAssertFalse(try Job.step([]))
        while try Job.step(jobs, microseconds: 200) {}
        let texts = try jobs.map { try $0.text() }
        XCTAssertTrue(story.hasPrefix(texts[0]) && texts[0].count > 20, texts[0])
        XCTAssertTrue(["red", "blue"].contains(texts[1].trimmingCharacters(in: .whitespaces)), texts[1])
        XCTAssertEqual(texts[2].trimmingCharacters(in: .whitespaces), "green")
        XCTAssertTrue(texts[3].hasPrefix(story), texts[3])
        XCTAssertEqual(texts[4], texts[0])
        XCTAssertEqual(try jobs.map { try $0.end }, [.length, try jobs[1].end, try jobs[2].end, .length, .length])
        XCTAssertEqual(try jobs[0].tokens().count, 20)
        // The model drafts what it would choose itself.
        let drafts = try jobs[4].drafts
        XCTAssertTrue(drafts.drafted >= drafts.accepted)
        jobs[2].cancel()
        _ = try jobs[2].step() // one that has ended has nothing to stop
    }

    func testJobsThatFailAndProbabilities() throws {
        let model = try load()
        var nothing = Sampling()
        for token in 0..<UInt32(512) { nothing.logitBias[token] = -.infinity }
        var counted = Options(maxTokens: 6)
        counted.logprobs = 2
        let tokens = try model.tokenize("Once upon a time")
        let failing = try model.session(capacity: 64).job(tokens, Options(sampling: nothing))
        let going = try model.session(capacity: 64).job(tokens, counted)
        XCTAssertNil(try failing.error)
        while try Job.step([failing, going]) {}
        XCTAssertEqual(try [failing.end, going.end], [.failed, .length])
        XCTAssertNil(try going.error)
        let why = try XCTUnwrap(failing.error)
        expect(why.code) { _ = try failing.step() }
        let rows = try going.logprobs()
        XCTAssertEqual(rows.map(\.made.token), try going.tokens())
        XCTAssertEqual(rows.count, 6)
        XCTAssertEqual(try going.logprobs(), [])
        let other = try model.session(capacity: 64)
        try other.prefill(tokens)
        for row in rows {
            XCTAssertEqual(row.likeliest, try other.logprobs(2))
            XCTAssertEqual(row.likeliest[0], row.made) // greedily
            try other.prefill([row.made.token])
        }
        XCTAssertEqual(try other.logprobs(1000).count, 512)
        expect(.invalidArgument) { _ = try failing.logprobs() }
    }

    func testDeadlines() throws {
        let model = try load()
        let tokens = try model.tokenize("Once upon a time")
        let job = try model.session(capacity: 256).job(tokens)
        for passed in [0, -1, Int64.min] {
            try job.deadline(microseconds: passed)
            expect(.deadline) { _ = try job.step() }
        }
        for later in [Int64.max, 60_000_000, nil] {
            try job.deadline(microseconds: later)
            XCTAssertTrue(try job.step())
        }
        job.cancel()
        expect(.cancelled) { _ = try job.step() }
        job.resume()
        XCTAssertTrue(try job.step())
        XCTAssertEqual(try job.counts.made, 4)
        let cancel = try Cancel()
        try cancel.deadline(microseconds: 0)
        expect(.deadline) { _ = try model.session(capacity: 64).score(tokens, cancel: cancel) }
        cancel.reset()
        XCTAssertEqual(try model.session(capacity: 64).score(tokens, cancel: cancel).count, 5)
    }

    func testSessionsThatLast() throws {
        let model = try load()
        let tokens = try model.tokenize("Once upon a time")
        let one = try model.session(capacity: 64)
        let two = try model.session(capacity: 64, keys: .f32, values: .f32)
        let half = try model.session(capacity: 64, keys: .q8_0, values: .q4_0)
        for session in [one, two, half] { try session.prefill(tokens) }
        let token = try one.sample()
        for before in [tokens.last!, token] {
            var banned = Sampling()
            banned.bannedSequences = [[1, 2, 3], [before, token]]
            banned.dryBreakers = [[13]]
            banned.order = [.temperature, .xtc]
            XCTAssertEqual(try one.sample(Sampler(banned)) == token, before == token)
        }
        let sampler = try Sampler()
        let next = try Session.decode([one, two], [token, token], [nil, sampler])
        XCTAssertEqual(next[0], next[1])
        XCTAssertEqual(try one.tokens(), tokens + [token])
        expect(.invalidArgument) { _ = try Session.decode([one], [1, 2]) }
        XCTAssertEqual(try one.match(tokens + [7]), 5)
        var saved: [UInt8] = []
        try one.save { saved.append(contentsOf: $0) }
        var at = 0
        let read = { (buffer: UnsafeMutableRawBufferPointer) in
            guard at + buffer.count <= saved.count else { throw CancellationError() }
            buffer.copyBytes(from: saved[at..<(at + buffer.count)])
            at += buffer.count
        }
        let loaded = try model.restore(read)
        XCTAssertEqual(try loaded.logits(), try one.logits())
        XCTAssertThrowsError(try model.restore(read)) { XCTAssertTrue($0 is CancellationError) }
        XCTAssertThrowsError(try one.save { _ in throw CancellationError() }) { XCTAssertTrue($0 is CancellationError) }
        for session in [one, loaded] {
            try session.release()
            try session.shift(keep: 1, drop: 2)
        }
        XCTAssertEqual([one.count, loaded.count], [4, 4])
        XCTAssertEqual(try loaded.decode(token), try one.decode(token))
        let free = try two.sample(sampler)
        try sampler.setGrammar(model.grammar(.choices, "[\"yes\"]"))
        XCTAssertTrue("yes".hasPrefix(try model.detokenize([two.sample(sampler)]).trimmingCharacters(in: .whitespaces)))
        expect(.invalidArgument) { try sampler.setGrammar(Grammar(.json)) }
        try sampler.setGrammar(nil)
        XCTAssertEqual(try two.sample(sampler), free)

        let stream = try TextStream(model)
        let text = try model.tokenize("größe €").map { try stream.push($0) }.joined()
        XCTAssertEqual(text + (try stream.flush()), "größe €")
        try stream.follow(model.tokenize("Once upon a"))
        XCTAssertEqual(try stream.push(tokens[4]) + stream.flush(), " time")
        XCTAssertEqual(try model.bytes(of: 1), Array("<s>".utf8))
        XCTAssertTrue(try model.metadataKeys().contains("general.architecture"))
        expect(.notFound) { _ = try model.metadataList("none") }
        XCTAssertGreaterThan(try model.work().dispatches, 0)
        model.resetMetrics()
        XCTAssertEqual(try model.metrics().prefill.count, 0)
        XCTAssertEqual(try Device.all()[0].kind, .cpu)
        XCTAssertTrue(try Device.all()[0].isAvailable)
        XCTAssertEqual(try model.embed(["Once upon a time"], pooling: .none).count, 5)
    }

    func testLoadsAndPlans() throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        try Data("{\"model_type\": \"llama\", \"magic_norm\": true}".utf8).write(to: folder.appendingPathComponent("config.json"))
        try Data("{\"temperature\": 0.5, \"top_k\": 20}".utf8).write(to: folder.appendingPathComponent("generation_config.json"))
        var options = LoadOptions()
        options.textOnly = true
        expect(.unsupported) { _ = try Model(folder.path, options: options) }
        options.allowUnknown = true
        let model = try Model(folder.path, options: options)
        XCTAssertEqual(model.info.unknown, 1)
        let advice = try XCTUnwrap(model.advisedSampling())
        XCTAssertEqual([advice.temperature, advice.topP], [0.5, 0])
        XCTAssertEqual(advice.topK, 20)
        XCTAssertTrue(advice.temperatureFirst)
        XCTAssertNil(try load().advisedSampling())

        let one = try Model.plan(Self.tiny, capacity: 256)
        let three = try Model.plan(Self.tiny, sessions: 3, capacity: 256)
        XCTAssertEqual(three.totalHost - one.totalHost, 2 * one.cacheHost)
        XCTAssertTrue(one.devices.isEmpty)
        let files = ["model.gguf": [UInt8](try Data(contentsOf: URL(fileURLWithPath: Self.tiny)))]
        XCTAssertLessThan(try Model.plan(files: files, capacity: 256, keys: .q8_0, values: .q8_0).cacheToken, one.cacheToken)
        let told = Told()
        var logged = try LoadOptions(runtime: Runtime(threads: 1, log: { level, text in told.add("\(level) \(text)") }))
        logged.progress = { done, total in
            told.add("\(done) of \(total)")
            return true
        }
        let ofBytes = try Model(files: files, options: logged)
        XCTAssertEqual(ofBytes.info.weightBytes, one.weightsHost)
        XCTAssertTrue(told.lines.contains { $0.hasPrefix("info ") } && told.lines.contains { $0.contains(" of ") })
        logged.progress = { _, _ in false }
        expect(.cancelled) { _ = try Model(Self.tiny, options: logged) }
    }

    static let prompt = "Once upon a time"
    static let by = "{\"type\": \"object\", \"properties\": {\"by\": {\"enum\": [\"car\", \"bus\"]}}, \"required\": [\"by\"], \"additionalProperties\": false}"

    func chatModel() throws -> Model {
        guard let path = ProcessInfo.processInfo.environment["CHAT"] else { throw XCTSkip("CHAT names no model with a template") }
        return try Model(path, options: LoadOptions(runtime: Runtime(threads: 2)))
    }

    func of(_ parts: [ReplyPart], _ kind: ReplyPart.Kind) -> String { parts.filter { $0.kind == kind }.map(\.text).joined() }

    /// All parts of a reply, on this thread.
    func parts(_ reply: Reply) throws -> [ReplyPart] {
        while try reply.step() {}
        return try reply.parts()
    }

    func content(_ chat: Conversation, _ options: Options) throws -> String { of(try parts(chat.reply(options)), .content) }

    func asked(_ model: Model, _ text: String = prompt, _ options: ConversationOptions = ConversationOptions()) throws -> Conversation {
        let chat = try Conversation(model, options: options)
        try chat.add("user", text)
        return chat
    }

    func testTurnsComputeWhatIsNew() async throws {
        let model = try chatModel()
        XCTAssertTrue(model.info.capabilities.isSuperset(of: [.generate, .tools, .switchReasoning]), "\(model.info.capabilities)")
        let chat = try Conversation(model, system: "Be kind. ")
        try chat.add("user", Self.prompt)
        var made: [ReplyPart] = []
        for try await part in try chat.reply(Options(maxTokens: 30)) { made.append(part) }
        XCTAssertEqual(made.last, ReplyPart(kind: .end, call: 0, text: "", unparsed: made.last?.unparsed ?? true))
        let said = of(made, .content)
        XCTAssertTrue(made.count > 10 && !said.isEmpty)
        let first = try chat.info()
        XCTAssertEqual([first.messages, first.tokens, first.promptDone], [3, 30, first.promptTokens])
        XCTAssertEqual([first.state], [.ended])
        XCTAssertEqual([first.end], [.length])
        XCTAssertTrue(first.stopped == nil && first.firstToken >= first.promptTime && first.promptTime > 0 && first.tokensTime > 0)
        XCTAssertEqual(try chat.messages(from: 2), [["role": "assistant", "content": .string(said), "finish_reason": "length"]])
        try chat.add("user", " And then")
        _ = try content(chat, Options(maxTokens: 9))
        let second = try chat.info()
        XCTAssertGreaterThanOrEqual(second.reusedTokens, first.promptTokens)
        XCTAssertEqual([second.promptDone, second.cacheCount], [second.promptTokens - second.reusedTokens, second.promptTokens + 8])

        // The pieces of what is said, and a loop that is left, which keeps them.
        try chat.rewind(1)
        var begun = ""
        for try await piece in try chat.say(Self.prompt) {
            begun += piece
            if begun.count > 9 { break }
        }
        XCTAssertTrue(said.hasPrefix(begun))
        XCTAssertEqual(try chat.messages(from: 2), [["role": "assistant", "content": .string(begun), "finish_reason": "cancelled"]])
        try chat.rewind(1)
        var heard = ""
        try chat.say(Self.prompt) { piece in
            heard += piece
            XCTAssertEqual((try? chat.info())?.messages, 2)
            self.expect(.busy) { try chat.rewind(0) }
            return heard.count < 9
        }
        XCTAssertTrue(said.hasPrefix(heard) && !heard.isEmpty)
        XCTAssertEqual(try chat.messages(from: 2)[0]["content"], .string(heard))
        // With options of a reply.
        try chat.rewind(1)
        var few = ""
        try chat.say(Self.prompt, Options(maxTokens: 3)) { piece in
            few += piece
            return true
        }
        XCTAssertTrue(said.hasPrefix(few) && !few.isEmpty)
        XCTAssertEqual(try chat.info().tokens, 3)
        try chat.rewind(1)
        XCTAssertThrowsError(try chat.say(Self.prompt) { _ in throw CancellationError() }) { XCTAssertTrue($0 is CancellationError) }
        XCTAssertEqual(try chat.info().messages, 3)
        // A call of another thread fails while one is at work.
        let busy = Told()
        try chat.rewind(1)
        try chat.say(Self.prompt) { _ in
            let thread = Thread { busy.add("\((Result { try chat.add("user", "x") }))") }
            thread.start()
            while !thread.isFinished { usleep(100) }
            return false
        }
        XCTAssertTrue(busy.lines.count == 1 && busy.lines[0].contains("RZ_ERR_BUSY"), "\(busy.lines)")
    }

    func testOptionsOfReplies() throws {
        let model = try chatModel()
        let chat = try asked(model)
        let plain = try content(chat, Options(maxTokens: 30))
        func again(_ options: Options) throws -> String {
            try chat.rewind(1)
            return try content(chat, options)
        }
        let seeded = Options(sampling: Sampling(temperature: 1.2, seed: 7), maxTokens: 30)
        let one = try again(seeded)
        XCTAssertNotEqual(one, plain)
        XCTAssertEqual(try again(seeded), one)
        for draft in [Draft.lookup, .model(model)] { XCTAssertEqual(try again(Options(maxTokens: 30, draft: draft)), plain) }
        XCTAssertTrue(try chat.info().accepted > 0 && chat.info().drafted > 0)
        XCTAssertEqual(try again(Options(stops: [" She"])), ", there was a little girl named Lily.")
        XCTAssertEqual(try chat.info().end, .stop)
        var bound = Options(grammar: Grammar(.jsonSchema, Self.by))
        bound.reasoning = .off
        bound.logprobs = 2
        try chat.rewind(1)
        let reply = try chat.reply(bound)
        let value = try JSON(of(parts(reply), .content))
        XCTAssertTrue(["car", "bus"].contains(value["by"]?.string), "\(value)")
        let rows = try reply.logprobs()
        XCTAssertTrue(!rows.isEmpty && rows.allSatisfy { $0.likeliest.count == 2 })
        XCTAssertEqual(try reply.logprobs(), [])
        bound.grammar = try model.grammar(.regex, "[ab]{3}")
        XCTAssertEqual(try again(bound).trimmingCharacters(in: .whitespaces).count, 3)
        var reasoning = Options(maxTokens: 30)
        (reasoning.reasoning, reasoning.reasoningTokens) = (.on, 5)
        try chat.rewind(1)
        let thought = try parts(chat.reply(reasoning))
        XCTAssertEqual(try chat.info().reasoningTokens, 5)
        XCTAssertTrue(!of(thought, .reasoning).isEmpty && !of(thought, .content).isEmpty)
        XCTAssertEqual(try chat.messages(from: 1)[0]["reasoning_content"]?.string, of(thought, .reasoning))
        // What is wrong is an error, and changes nothing.
        try chat.rewind(1)
        expect(.invalidArgument) { _ = try chat.reply(Options(sampling: Sampling(topP: 2))) }
        expect(.invalidArgument) { _ = try chat.reply(Options(grammar: Grammar(.regex, "("))) }
        expect(.invalidArgument) { _ = try chat.reply(Options(stops: [""])) }
        expect(.invalidArgument) { try chat.add([1]) }
        expect(.invalidArgument) { try chat.add("a\0b", "x") }
        expect(.invalidArgument) { try chat.rewind(2) }
        expect(.contextFull) { _ = try chat.say(String(repeating: "long ", count: 999)) }
        expect(.contextFull) { try chat.say(String(repeating: "long ", count: 999)) { _ in true } }
        XCTAssertEqual(try chat.json(), "[{\"role\":\"user\",\"content\":\"Once upon a time\"}]")
    }

    func testCallsAndTheirResults() throws {
        let model = try chatModel()
        let json =
            "{\"messages\": [{\"role\": \"user\", \"content\": \"Once upon a time\"}], \"tool_choice\": \"required\", \"parallel_tool_calls\": "
            + "false, \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"go\", \"parameters\": \(Self.by)}}]}"
        var options = ConversationOptions(capacity: 600)
        (options.keys, options.values) = (.f32, .f32)
        let chat = try Conversation(model, json: json, options: options)
        var off = Options()
        off.reasoning = .off
        for turn in 0..<2 {
            let parts = try parts(chat.reply(off))
            XCTAssertEqual(of(parts, .toolName), "go")
            XCTAssertTrue(["{\"by\":\"car\"}", "{\"by\":\"bus\"}"].contains(of(parts, .toolArguments).filter { !$0.isWhitespace }), "\(parts)")
            let message = try chat.messages(from: 1 + 2 * turn)[0]
            XCTAssertEqual([message["finish_reason"], message["content"]], ["tool_calls", JSON.null])
            let id = try XCTUnwrap(message["tool_calls"]?[0]?["id"])
            XCTAssertEqual(id, .string(of(parts, .toolID)))
            try chat.add(["role": "tool", "tool_call_id": id, "name": "go", "content": " There."])
            XCTAssertEqual(try chat.messages(from: 2 + 2 * turn)[0]["tool_call_id"], id)
        }
        XCTAssertEqual(try [chat.info().messages, chat.info().cacheCapacity], [5, 600])
        let parser = try ChatParser(model, conversation: json)
        var parts: [ReplyPart] = []
        for token in try model.tokenize("<call>{\"name\": \"go\", \"arguments\": {\"by\": \"bus\"}}</call>", special: false) {
            parts += try parser.push(token)
        }
        XCTAssertEqual(of(parts + (try parser.end()), .toolName), "go")
        XCTAssertTrue(try model.render(conversation: json).hasSuffix(Self.prompt))
    }

    func testToolsOfOneReplyAndReadingAhead() throws {
        let model = try chatModel()
        let by = try JSON(Self.by)
        let members: JSON = [
            "tool_choice": "required", "parallel_tool_calls": false, "variables": ["a": 1],
            "tools": [["type": "function", "function": ["name": "go", "parameters": by]]],
        ]
        let ofLife = try Conversation(model, members, options: ConversationOptions(capacity: 600))
        let chat = try Conversation(model, options: ConversationOptions(capacity: 600))
        try ofLife.add("user", Self.prompt)
        try chat.add("user", Self.prompt)
        var options = Options()
        options.reasoning = .off
        _ = try parts(ofLife.reply(options))
        options.members = members
        let reading = try chat.read(options)
        while try reading.step() {}
        XCTAssertEqual(try reading.end, .length)
        XCTAssertEqual(try [chat.info().tokens, chat.info().messages], [0, 1])
        XCTAssertEqual(of(try parts(chat.reply(options)), .toolName), "go")
        XCTAssertEqual(try chat.messages(), try ofLife.messages())
        XCTAssertEqual(try chat.info().reusedTokens + 1, try chat.info().promptTokens)
        // The other replies are as the conversation was made.
        try chat.add("user", "And now?")
        XCTAssertEqual(of(try parts(chat.reply(Options(maxTokens: 3))), .toolName), "")
        options.members = ["tool_choice": "required"]
        expect(.invalidArgument) { _ = try chat.reply(options) }
    }

    func testConversationsAreChangedBetweenReplies() throws {
        let model = try chatModel()
        let adapter = try model.adapter(Self.tiny.replacingOccurrences(of: "stories260K-f32", with: "story-adapter"))
        let store = try Store(model, options: StoreOptions(minTokens: 3))
        let plain = try Conversation(model)
        let chat = try Conversation(model)
        let changes: [() throws -> Void] = [
            { try chat.release() }, { try chat.setCapacity(300) }, { try chat.setOverflow(.forget) }, { try chat.setAdapters([]) },
            { try chat.setStore(store) }, { try chat.setStore(nil) },
        ]
        for change in changes {
            for each in [plain, chat] {
                try each.add("user", Self.prompt)
                _ = try parts(each.reply(Options(maxTokens: 5)))
            }
            XCTAssertEqual(try chat.messages(), try plain.messages())
            try change()
        }
        XCTAssertEqual(try chat.info().cacheCapacity, 300)
        XCTAssertGreaterThan(try store.info().entries, 0)
        let reading = try chat.read()
        expect(.busy) { try chat.release() }
        XCTAssertNil(try reading.end)
        try chat.rewind(0)
        try chat.release()
        XCTAssertEqual(try chat.info().cacheCount, 0)
        let cancel = try Cancel()
        try chat.setCancel(cancel)
        try chat.add("user", Self.prompt)
        let stopped = try chat.reply(Options(maxTokens: 3))
        cancel.fire()
        expect(.cancelled) { _ = try stopped.step() }
        try chat.rewind(1)
        try chat.setCancel(nil)
        try chat.setAdapters([(adapter, scale: 1)])
        var adapted = ConversationOptions()
        adapted.adapters = [(adapter, scale: 1)]
        let other = try Conversation(model, options: adapted)
        try other.add("user", Self.prompt)
        for each in [chat, other] { _ = try parts(each.reply(Options(maxTokens: 20))) }
        XCTAssertEqual(try chat.messages(), try other.messages())
    }

    func testRepliesThatAreCutGoOn() async throws {
        let model = try chatModel()
        let chat = try asked(model)
        let whole = try content(chat, Options(maxTokens: 40))
        var keeping = Options(maxTokens: 40)
        // One that is let go of leaves no trace, but where that is asked for.
        for keeps in [false, true] {
            try chat.rewind(1)
            keeping.keeps = keeps
            for try await part in try chat.reply(keeping) where part.kind == .content { break }
            XCTAssertEqual(try chat.info().messages, keeps ? 2 : 1)
        }
        var continuing = keeping
        continuing.continues = true
        for n in [1, 2, 12] {
            continuing.maxTokens = n
            _ = try content(chat, continuing)
        }
        let made = try XCTUnwrap(chat.messages(from: 1)[0]["content"]?.string)
        XCTAssertTrue(made.count > 20 && whole.hasPrefix(made), made)
        try chat.add("user", "x")
        expect(.invalidArgument) { _ = try chat.reply(continuing) }

        try chat.rewind(1)
        let reply = try chat.reply(Options(maxTokens: 40))
        XCTAssertTrue(try reply.step(microseconds: 0) && reply.step(microseconds: -1))
        XCTAssertTrue(try reply.step())
        reply.cancel()
        expect(.cancelled) { _ = try reply.step() }
        XCTAssertEqual(try chat.info().stopped, .cancelled)
        reply.resume()
        try reply.deadline(microseconds: 0)
        expect(.deadline) { _ = try reply.step() }
        try reply.deadline(microseconds: nil)
        XCTAssertEqual(try chat.fork().messages(), try chat.messages())
        // A task that is cancelled pauses it.
        let task = Task {
            do {
                for try await part in reply where part.kind == .content { withUnsafeCurrentTask { $0?.cancel() } }
                return false
            } catch is CancellationError {
                return true
            }
        }
        let isCancelled = try await task.value
        XCTAssertTrue(isCancelled)
        XCTAssertNil(try reply.end)
        while try reply.step(microseconds: 200) {}
        XCTAssertEqual(try reply.end, .length)
        XCTAssertEqual(try chat.messages(from: 1)[0]["content"]?.string, whole)
        // The conversation goes on without a reply.
        try chat.rewind(1)
        expect(.invalidArgument) { _ = try reply.step() }
        var options = ConversationOptions()
        options.cancel = try Cancel()
        let other = try asked(model, Self.prompt, options)
        options.cancel?.fire()
        expect(.cancelled) { _ = try self.content(other, Options(maxTokens: 5)) }
        options.cancel?.reset()
        XCTAssertTrue(whole.hasPrefix(try content(other, Options(maxTokens: 5))))
        // What nobody holds any more is freed in the middle of a reply.
        for _ in 0..<20 { XCTAssertTrue(try asked(model).reply().step()) }
    }

    func testForksAndSavedConversations() throws {
        let model = try chatModel()
        let chat = try Conversation(model, ["messages": [["role": "user", "content": "Once upon a time"]], "variables": ["a": 1]])
        _ = try content(chat, Options(maxTokens: 9))
        var saved: [UInt8] = []
        try chat.save { saved.append(contentsOf: $0) }
        var at = 0
        let read = { (buffer: UnsafeMutableRawBufferPointer) in
            guard at + buffer.count <= saved.count else { throw CancellationError() }
            buffer.copyBytes(from: saved[at..<(at + buffer.count)])
            at += buffer.count
        }
        let fork = try chat.fork()
        let loaded = try Conversation.load(model, read: read)
        var continuing = Options(maxTokens: 5)
        continuing.continues = true
        for one in [chat, fork, loaded] {
            _ = try content(one, continuing)
            try one.add("user", " Go on")
            _ = try content(one, Options(maxTokens: 9))
            XCTAssertGreaterThan(try one.info().reusedTokens, 5)
            XCTAssertEqual(try one.messages(), try chat.messages())
        }
        try fork.rewind(1)
        XCTAssertEqual(try [fork.info().messages, chat.info().messages], [1, 4])
        XCTAssertThrowsError(try Conversation.load(model, read: read)) { XCTAssertTrue($0 is CancellationError) }
        saved[300] ^= 1
        at = 0
        expect(.format) { _ = try Conversation.load(model, read: read) }
    }

    func testPrefixesAreShared() throws {
        let model = try chatModel()
        let folder = NSTemporaryDirectory() + UUID().uuidString
        var options = ConversationOptions(capacity: 256)
        let system = String(repeating: "Be brief. ", count: 9)
        func said(_ known: Bool = false) throws -> String {
            let chat = try Conversation(model, system: system, options: options)
            try chat.add("user", Self.prompt)
            let said = try content(chat, Options(maxTokens: 9))
            XCTAssertEqual(try chat.info().reusedTokens > 30, known)
            return said
        }
        let plain = try said()
        options.store = try Store(model, options: StoreOptions(minTokens: 30, path: folder))
        for known in [false, true] { XCTAssertEqual(try said(known), plain) }
        let tokens = try model.tokenize(String(repeating: Self.prompt, count: 20))
        var store: Store? = options.store
        for known in [0, tokens.count - 1] {
            let session = try XCTUnwrap(store).take(tokens, capacity: 256)
            XCTAssertEqual([session.count, session.capacity], [known, 256])
            try session.prefill(Array(tokens[known...]))
            try store?.put(session)
        }
        let info = try XCTUnwrap(store).info()
        XCTAssertEqual([info.entries, info.files], [2, 0])
        XCTAssertEqual([info.hits, info.misses], [2, 2])
        expect(.mismatch) { try store?.put(self.load().session(capacity: 64)) }
        expect(.mismatch) { _ = try Conversation(self.chatModel(), options: options) }
        // What a store knew that is gone is in the folder.
        (options.store, store) = (nil, nil)
        let again = try Store(model, options: StoreOptions(minTokens: 30, path: folder))
        XCTAssertEqual(try again.info().files, 2)
        try again.clear()
        XCTAssertEqual(try again.info().files, 0)
        XCTAssertEqual(try again.take(tokens).count, 0)
        try FileManager.default.removeItem(atPath: folder)
        expect(.invalidArgument) { _ = try Store(model, options: StoreOptions(path: "a\0b")) }
    }

    func testManyConversationsAtOnce() throws {
        let model = try chatModel()
        let prompts = (0..<5).map { Self.prompt + String(repeating: "!", count: $0) }
        let chats = try prompts.map { try asked(model, $0) }
        var replies = try chats.enumerated().map { try $1.reply(Options(maxTokens: 6 + $0)) }
        var nothing = Sampling()
        for token in 0..<UInt32(512) { nothing.logitBias[token] = -.infinity }
        replies.append(try asked(model).reply(Options(sampling: nothing)))
        XCTAssertFalse(try Reply.step([]))
        XCTAssertTrue(try Reply.step(replies, microseconds: 0))
        while try Reply.step(replies) {}
        XCTAssertEqual(try replies.map { try $0.end }, [.length, .length, .length, .length, .length, .failed])
        let why = try XCTUnwrap(replies[5].error)
        expect(why.code) { _ = try replies[5].step() }
        for i in 0..<5 {
            XCTAssertEqual(of(try replies[i].parts(), .content), try content(asked(model, prompts[i]), Options(maxTokens: 6 + i)))
            XCTAssertNil(try replies[i].error)
        }
        expect(.invalidArgument) { _ = try Reply.step([replies[0], replies[0]]) }
        // A stop keeps what was said.
        let stopped = try asked(model)
        let reply = try stopped.reply(Options())
        XCTAssertTrue(try reply.step())
        try reply.stop()
        XCTAssertEqual(try reply.end, .cancelled)
        XCTAssertNil(try reply.error)
        let kept = try of(reply.parts(), .content)
        XCTAssertEqual(try stopped.messages(from: 1), [["role": "assistant", "content": .string(kept), "finish_reason": "cancelled"]])
        // The oldest turns are left out where that is asked for.
        let small = try Conversation(model, system: "S", options: ConversationOptions(capacity: 64, overflow: .forget))
        for _ in 0..<8 {
            try small.add("user", "Some question")
            _ = try content(small, Options(maxTokens: 6))
        }
        XCTAssertTrue(try small.info().firstInPrompt > 0 && small.info().messages == 17)
        var adapted = ConversationOptions()
        adapted.adapters = [(try model.adapter((Self.tiny as NSString).deletingLastPathComponent + "/story-adapter.gguf"), 1)]
        XCTAssertTrue(try content(asked(model, Self.prompt, adapted), Options(maxTokens: 40)).contains("draw"))
    }

    func testAdaptersAndEmbeddings() throws {
        let model = try load()
        let tokens = try model.tokenize("Once upon a time")
        let session = try model.session(capacity: 40)
        try session.prefill(tokens)
        let plain = try session.logits()
        let path = (Self.tiny as NSString).deletingLastPathComponent + "/story-adapter.gguf"
        let adapter = try model.adapter(path)
        try session.setAdapters([(adapter, 1)])
        XCTAssertEqual(session.count, 0)
        try session.prefill(tokens)
        XCTAssertNotEqual(try session.logits(), plain)
        try session.setAdapters([])
        try session.prefill(tokens)
        XCTAssertEqual(try session.logits(), plain)

        let vectors = try model.embed(["Once upon", "a time"], pooling: .mean)
        XCTAssertEqual(vectors.map(\.count), [64, 64])
        XCTAssertEqual(vectors[0].map { $0 * $0 }.reduce(0, +), 1, accuracy: 1e-5)
        XCTAssertEqual(try model.embed([String]()), [])
    }

    func testManyTasksAtOnce() async throws {
        let model = try load()
        let texts = try await withThrowingTaskGroup(of: String.self) { group in
            for _ in 0..<4 {
                group.addTask { try await collect(model.session().generate("Once upon a time", Options(maxTokens: 40))) }
            }
            return try await group.reduce(into: []) { $0.append($1) }
        }
        XCTAssertEqual(texts.count, 4)
        XCTAssertTrue(texts.allSatisfy { story.hasPrefix($0) && !$0.isEmpty })
    }

    func testARealModel() async throws {
        guard let path = ProcessInfo.processInfo.environment["MODEL"], !path.isEmpty else { throw XCTSkip("MODEL names no model") }
        let start = DispatchTime.now().uptimeNanoseconds
        let model = try await Model.load(path)
        let chat = try Conversation(model)
        var text = ""
        for try await piece in try chat.say("What is the capital of France, and what is it famous for?") {
            if text.isEmpty { print("from load to the first piece: \((DispatchTime.now().uptimeNanoseconds - start) / 1_000_000) ms") }
            text += piece
        }
        XCTAssertTrue(text.contains("Paris"), text)
    }
}
