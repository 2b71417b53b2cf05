// What programs do wrong: replies within replies, texts with a NUL, cancels before and between calls, empty lists. Each
// is a thrown error or a named state, and changes nothing.
import XCTest

@testable import Realizar

extension RealizarTests {
    /// What a call says that another reply is being read.
    func expectBusy(_ body: () throws -> Void, line: UInt = #line) {
        XCTAssertThrowsError(try body(), line: line) { error in
            XCTAssertEqual((error as? RealizarError)?.code, .busy, "\(error)", line: line)
            XCTAssertTrue("\(error)".contains("being read"), "\(error)", line: line)
        }
    }

    func testRepliesWithinReplies() async throws {
        let model = try chatModel()
        let options = Options(maxTokens: 12)
        let plain = try Conversation(model)
        let chat = try Conversation(model)
        var expected = ""
        for try await piece in try plain.say(Self.prompt, options) { expected += piece }
        var said = ""
        for try await piece in try chat.say(Self.prompt, options) {
            said += piece
            if try chat.info().state == .ended { continue } // nothing is left to take from it
            expectBusy { _ = try chat.say("x") }
            expectBusy { try chat.say("x") { _ in true } }
            expectBusy { _ = try chat.reply() }
            expectBusy { _ = try chat.read() }
        }
        XCTAssertEqual(said, expected)
        XCTAssertEqual(try chat.messages(), try plain.messages())
        // At its end, and once a loop was left, another reply may follow.
        for try await part in try chat.reply(options) where part.kind == .end {
            for try await _ in try chat.say("Go on", options) { break }
        }
        for try await _ in try chat.say("More") { break }
        for try await _ in try chat.say("And", options) {}
        XCTAssertEqual(try chat.info().end, .length)
        // A message within the loop gives the reply up, which the loop is told.
        do {
            for try await _ in try chat.say(Self.prompt) { try chat.add("user", "x") }
            XCTFail("it went on")
        } catch let error as RealizarError {
            XCTAssertEqual(error.code, .invalidArgument)
        }
        // Within the listener of a reply of this thread.
        try chat.rewind(0)
        try chat.say(Self.prompt, options) { _ in
            self.expect(.busy) { _ = try chat.say("x") }
            self.expect(.busy) { try chat.say("x") { _ in true } }
            self.expect(.busy) { try chat.add("user", "x") }
            return true
        }
        XCTAssertEqual(try chat.messages(), try plain.messages())
    }

    func testTextsWithANULAndWithoutAnything() async throws {
        let model = try chatModel()
        let chat = try Conversation(model)
        var parts = 0
        try chat.say("a\0b", Options(maxTokens: 3)) { _ in
            parts += 1
            return true
        }
        for try await _ in try chat.say("c\0d", Options(maxTokens: 3)) {}
        XCTAssertEqual(try chat.messages()[0]["content"], "a\0b")
        XCTAssertEqual(try chat.messages()[2]["content"], "c\0d")
        XCTAssertEqual(try model.detokenize(model.tokenize("a\0b")), "a\0b")
        let named: [(String, () throws -> Void)] = [
            ("path", { _ = try Model("a\0b") }), ("key", { _ = try model.metadata("a\0b") }), ("role", { try chat.add("a\0b", "x") }),
            ("stops[1]", { _ = try chat.reply(Options(stops: ["a", "b\0"])) }), ("files", { _ = try Model(files: ["a\0b": []]) }),
            ("packedPath", {
                var options = LoadOptions()
                options.packedPath = "a\0"
                _ = try Model(Self.tiny, options: options)
            }),
        ]
        for (name, call) in named {
            XCTAssertThrowsError(try call(), name) { XCTAssertEqual("\($0)", "RZ_ERR_INVALID_ARGUMENT: \(name) has a NUL; it must have none") }
        }
        let session = try model.session(capacity: 64)
        XCTAssertEqual(try model.embed([String](), pooling: .mean), [])
        XCTAssertEqual(try model.embed([Prompt](), pooling: .none), [])
        XCTAssertEqual(try Session.decode([], []), [])
        XCTAssertEqual(try model.detokenize([]), "")
        XCTAssertFalse(try Job.step([]) || Reply.step([]))
        expect(.invalidArgument) { try session.prefill([]) }
        expect(.invalidArgument) { _ = try session.job([]) }
        var banned = Sampling()
        banned.bannedSequences = [[]]
        expect(.invalidArgument) { _ = try Sampler(banned) }
        expect(.invalidArgument) { _ = try chat.reply(Options(grammar: Grammar(.jsonSchema, ""))) }
        XCTAssertThrowsError(try Model(files: [:]))
        try chat.add([])
    }

    func testBatchesOfWhatWasCancelled() throws {
        let model = try chatModel()
        let one = try asked(model).reply(Options(maxTokens: 3))
        let two = try asked(model).reply(Options(maxTokens: 30))
        while try one.end == nil { XCTAssertTrue(try Reply.step([one, two])) }
        two.cancel()
        XCTAssertFalse(try Reply.step([one, two]) || Reply.step([two], microseconds: 500))
        XCTAssertEqual(try [one.stopped, two.stopped], [nil, .cancelled])
        XCTAssertNil(try two.end)
        expect(.cancelled) { _ = try two.step() }
        two.resume()
        try two.deadline(microseconds: 0)
        XCTAssertFalse(try Reply.step([one, two]))
        XCTAssertEqual(try two.stopped, .deadline)
        two.resume()
        while try Reply.step([one, two]) {}
        XCTAssertEqual(try [one.end, two.end], [.length, .length])
        XCTAssertNil(try two.stopped)
        let job = try model.session(capacity: 64).job(model.tokenize(Self.prompt), Options(maxTokens: 9))
        XCTAssertTrue(try Job.step([job]))
        job.cancel()
        XCTAssertFalse(try Job.step([job]))
        XCTAssertEqual(try job.stopped, .cancelled)
        job.resume()
        while try Job.step([job]) {}
        XCTAssertEqual(try job.end, .length)
    }

    func testTasksThatWereCancelledBefore() async throws {
        let model = try chatModel()
        let chat = try asked(model)
        let before = try chat.messages()
        let path = Self.tiny
        let task = Task {
            withUnsafeCurrentTask { $0?.cancel() }
            var met: [String] = []
            do { _ = try await Model.load(path) } catch { met.append("\(type(of: error))") }
            do { for try await _ in try chat.reply() {} } catch { met.append("\(type(of: error))") }
            do { for try await _ in try model.session().generate("Once") {} } catch { met.append("\(type(of: error))") }
            return met
        }
        let met = await task.value
        XCTAssertEqual(met, ["CancellationError", "CancellationError", "CancellationError"])
        XCTAssertEqual(try chat.messages(), before)
        // One that is cancelled in the middle of a long prompt.
        let long = try Conversation(model, options: ConversationOptions(capacity: 8192))
        try long.add("user", String(repeating: Self.prompt + " ", count: 900))
        let reading = Task { for try await _ in try long.reply() {} }
        while try long.info().state == .none { await Task.yield() }
        reading.cancel()
        do {
            try await reading.value
            XCTFail("it went on")
        } catch { XCTAssertTrue(error is CancellationError, "\(error)") }
        XCTAssertEqual(try long.info().tokens, 0)
        // A banned sequence alone is sampling that was given.
        var banned = Sampling()
        banned.bannedSequences = [try model.tokenize("Lily", special: false)]
        XCTAssertFalse(try content(asked(model), Options(sampling: banned, maxTokens: 20)).contains("Lily"))
    }

    /// Chats leave no memory behind; the KV cache of each takes half a megabyte.
    func testMemoryOfManyChats() throws {
        let model = try chatModel()
        func resident(after chats: Int) throws -> Int {
            for _ in 0..<chats { try Conversation(model).say(Self.prompt, Options(maxTokens: 3)) { _ in true } }
            guard let status = try? String(contentsOfFile: "/proc/self/status", encoding: .utf8),
                let line = status.split(separator: "\n").first(where: { $0.hasPrefix("VmRSS") })
            else { throw XCTSkip("the resident set is the one of Linux") }
            return Int(line.filter(\.isNumber))!
        }
        let before = try resident(after: 100)
        XCTAssertLessThan(try resident(after: 200) - before, 16_000)
    }

    func testTwoCallsAtOnce() async throws {
        let model = try chatModel()
        let chat = try Conversation(model, options: ConversationOptions(capacity: 8192))
        try chat.add("user", String(repeating: Self.prompt + " ", count: 900))
        let reply = try chat.reply(Options(maxTokens: 1))
        let task = Task.detached { while try reply.step() {} }
        while try chat.info().promptDone == 0 { await Task.yield() }
        var codes: Set<RealizarError.Code> = []
        for call in [{ _ = try reply.step() }, { try chat.release() }, { _ = try chat.fork() }] as [() throws -> Void] {
            do { try call() } catch let error as RealizarError { codes.insert(error.code) }
        }
        XCTAssertEqual(codes, [.busy])
        reply.cancel()
        do {
            try await task.value
            XCTFail("it went on")
        } catch let error as RealizarError { XCTAssertEqual(error.code, .cancelled) }
    }
}
