import java.nio.file.Path
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger
import kotlin.time.measureTime
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancel
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import realizar.CacheType
import realizar.Conversation
import realizar.Generation
import realizar.Model
import realizar.Options
import realizar.Part
import realizar.RealizarException
import realizar.RealizarException.Status
import realizar.RealizarRuntime
import realizar.Store
import realizar.Transcript
import realizar.kotlin.answer
import realizar.kotlin.conversation
import realizar.kotlin.embeddings
import realizar.kotlin.generateFlow
import realizar.kotlin.loadModel
import realizar.kotlin.options
import realizar.kotlin.readAhead
import realizar.kotlin.replyFlow
import realizar.kotlin.sayFlow

/** Tests of the Kotlin package on a tiny model (argument 1), on the same with a chat template (argument 2), and on a
 * real one (argument 3, optional). Prints "ok", or throws. */
const val PROMPT = "Once upon a time"
const val EXPECTED = ", there was a little girl named Lily. She loved to play outside in the park."

fun main(arguments: Array<String>) = runBlocking {
    val story = Path.of(arguments[0])
    loadModel(story, threads = 2).use { model ->
        generating(model)
        stopped(model)
    }
    loading(story)
    loadModel(Path.of(arguments[1]), threads = 2).use { model ->
        talking(model)
        readingAhead(model)
        cut(model)
        failing(model)
        together(model)
    }
    nothingStays(Path.of(arguments[1]))
    if (arguments.size > 2) loadModel(Path.of(arguments[2])).use { model ->
        val answer = model.conversation().use { it.answer("What is the capital of France? One word.", options(maxTokens = 20, temperature = 0.0)) }
        check("Paris" in answer) { answer }
    }
    println("ok")
}

/** The status of the failure that the action ends with. */
suspend fun failure(action: suspend () -> Unit): Status = try {
    action()
    error("no failure")
} catch (e: RealizarException) {
    e.status()
}

suspend fun generating(model: Model) = model.newSession(200).use { session ->
    val pieces = session.generateFlow(PROMPT, options(maxTokens = 25)).toList()
    check(EXPECTED.startsWith(pieces.joinToString("")) && pieces.size > 10) { pieces }
    val seeded = { options(temperature = 1.0, topP = 0.9, seed = 7, maxTokens = 40) }
    val twice = List(2) { session.generateFlow(PROMPT, seeded()).toList().joinToString("") }
    check(twice[0] == twice[1] && !twice[0].startsWith(EXPECTED)) { twice }
    val stopped = session.generateFlow(PROMPT, options(stops = listOf("Lily"))).toList().joinToString("")
    check(stopped == ", there was a little girl named ") { stopped }
    val vectors = model.embeddings(listOf(PROMPT, "The end."), pooling = Model.Pooling.MEAN)
    check(vectors.size == 2 && vectors[0].size == model.info().hidden())
    check(failure { model.embeddings(listOf("a"), Model.Pooling.RANK) } == Status.UNSUPPORTED)
}

/** A cancel ends a step that is being made: of a prompt that takes long its tokens are not all computed. */
suspend fun stopped(model: Model) = model.newSession(8000).use { session ->
    val prompt = "$PROMPT there was a little girl. ".repeat(600)
    val whole = measureTime { session.generateFlow(prompt, options(maxTokens = 1)).collect() }
    val isMidway = (1..9).any { tenths ->
        session.truncate(0)
        val work = CoroutineScope(Dispatchers.Default).launch { session.generateFlow(prompt, options(maxTokens = 1)).collect() }
        delay(whole * tenths / 10)
        work.cancelAndJoin()
        session.length() in 1 until model.tokenize(prompt).size
    }
    check(isMidway) { "a prompt of $whole is always computed to its end" }
    // It goes on with what it has.
    session.truncate(0)
    check(EXPECTED.startsWith(session.generateFlow(PROMPT, options(maxTokens = 9)).toList().joinToString("")))
    val vectors = CoroutineScope(Dispatchers.Default).async { model.embeddings(List(2000) { PROMPT }, Model.Pooling.MEAN) }
    vectors.cancelAndJoin()
    check(runCatching { vectors.await() }.exceptionOrNull() is CancellationException)
}

suspend fun loading(path: Path) {
    check(failure { loadModel(path.resolveSibling("none.gguf")) } == Status.IO)
    val told = AtomicInteger()
    loadModel(path, threads = 1, progress = { done, total -> if (done == total) told.incrementAndGet() }).use { check(told.get() > 0) }
    val began = CountDownLatch(1)
    val cancelled = CountDownLatch(1)
    val work = CoroutineScope(Dispatchers.Default).async {
        loadModel(path) { _, _ ->
            began.countDown()
            cancelled.await()
        }
    }
    began.await()
    work.cancel()
    cancelled.countDown()
    check(runCatching { work.await() }.exceptionOrNull() is CancellationException)
    RealizarRuntime(1, 0, null).use { runtime ->
        val refused = runCatching { loadModel(path, runtime = runtime) { _, _ -> runtime.close() } }.exceptionOrNull()
        check(refused is IllegalStateException && refused.message == "RealizarRuntime is in use by another call") { "$refused" }
    }
    val thrown = runCatching { loadModel(path) { done, _ -> check(done < 0) { "a callback" } } }.exceptionOrNull()
    check(thrown is IllegalStateException && thrown.message == "a callback") { "$thrown" }
}

suspend fun talking(model: Model) = model.conversation(system = "Be kind. ").use { chat ->
    val said = chat.sayFlow(PROMPT, options(maxTokens = 30)).toList()
    // The Java package says the same.
    val java = Conversation(model, "Be kind. ").use { other ->
        other.add("user", PROMPT)
        other.reply(Options().maxTokens(30)).readText()
    }
    check(said.size > 10 && said.joinToString("") == java && chat.messages(2)[0]["content"] == java) { "$said, $java" }
    val before = chat.info()
    check(chat.answer(" And then", options(maxTokens = 9)) == chat.messages(4)[0]["content"])
    check(chat.info().reusedTokens() >= before.promptTokens() && chat.info().tokens() == 9) { chat.info() }
    chat.rewind(2)
    val parts = chat.replyFlow(options(schema = """{"enum": ["yes", "no"]}""", reasoning = Options.Reasoning.OFF)).toList()
    val content = parts.filter { it.kind() == Part.Kind.CONTENT }.joinToString("") { it.text() }.trim()
    check(content in listOf("\"yes\"", "\"no\"") && parts.last().kind() == Part.Kind.END) { parts }
    val plain = model.conversation().use { it.answer(PROMPT) }
    check(plain.startsWith(EXPECTED)) { plain }
}

suspend fun readingAhead(model: Model) = model.conversation(transcript = Transcript().user(PROMPT)).use { chat ->
    val tools = Transcript().tool("go", "Goes", """{"type": "object", "properties": {}, "additionalProperties": false}""").toolChoice("required")
    chat.readAhead(options(tools = tools))
    check(chat.info().tokens() == 0 && chat.info().messages() == 1) { chat.info() }
    val parts = chat.replyFlow(options(tools = tools.parallelToolCalls(false))).toList()
    check(parts.filter { it.kind() == Part.Kind.TOOL_NAME }.joinToString("") { it.text() } == "go") { parts }
    check(chat.info().reusedTokens() + 1 == chat.info().promptTokens()) { chat.info() }
}

suspend fun cut(model: Model) = model.conversation(transcript = Transcript().user(PROMPT)).use { chat ->
    val whole = chat.replyFlow(options(maxTokens = 200)).toList().filter { it.kind() == Part.Kind.CONTENT }.joinToString("") { it.text() }
    // What nobody collects is not computed, and a flow that is left leaves no trace.
    chat.rewind(1)
    check(chat.replyFlow().take(3).toList().size == 3 && chat.info().messages() == 1 && chat.info().tokens() < 9) { chat.info() }
    // A cancelled coroutine keeps what was said, and the reply goes on.
    val work = CoroutineScope(Dispatchers.Default).launch {
        var pieces = 0
        chat.replyFlow(options(maxTokens = 200, keep = true)).collect { if (++pieces == 5) coroutineContext.cancel() }
    }
    work.join()
    val begun = chat.messages(1).single()
    check(work.isCancelled && begun["finish_reason"] == "cancelled" && whole.startsWith("${begun["content"]}") && chat.info().tokens() < 12) { begun }
    chat.replyFlow(options(continuing = true, maxTokens = 12)).collect()
    check(whole.startsWith("${chat.messages(1).single()["content"]}") && chat.info().end() == Generation.End.LENGTH)
    // What a collector throws goes on, and what was said before stays.
    chat.rewind(0)
    val thrown = runCatching { chat.sayFlow(PROMPT).collect { throw ArithmeticException(it) } }.exceptionOrNull()
    check(thrown is ArithmeticException && chat.messages(1).single()["content"] == thrown.message) { chat.messages() }
}

suspend fun failing(model: Model) = model.conversation(capacity = 24).use { chat ->
    // Options stay as they are: a reply with them is not kept.
    chat.rewind(0)
    val shared = options(maxTokens = 3)
    chat.sayFlow(PROMPT, shared).collect()
    chat.rewind(1)
    chat.replyFlow(shared).take(1).collect()
    check(chat.messages().size == 1) { chat.messages() }
    chat.rewind(0)
    check(failure { chat.sayFlow("$PROMPT, ".repeat(20)).collect() } == Status.CONTEXT_FULL && chat.messages().isEmpty())
    check(failure { chat.replyFlow(options(schema = "{")).collect() } == Status.INVALID_ARGUMENT)
    check(chat.answer(PROMPT, options(maxTokens = 5)).isNotEmpty())
    // What a collector changes ends the flow, and nothing of either stays.
    chat.rewind(0)
    val changed = runCatching { chat.sayFlow(PROMPT).collect { chat.add("user", "x") } }.exceptionOrNull()
    check(changed is IllegalStateException && changed !is CancellationException && chat.messages().isEmpty()) { "$changed, ${chat.messages()}" }
    // At the end of a reply its collector may add what comes next.
    chat.add("user", PROMPT)
    chat.replyFlow(options(maxTokens = 3)).collect { if (it.kind() == Part.Kind.END) chat.add("user", "x") }
    check(chat.messages().map { it["role"] } == listOf("user", "assistant", "user")) { chat.messages() }
    chat.rewind(0)
    check(runCatching { options(maxTokens = -1) }.exceptionOrNull() is IllegalArgumentException)
    chat.add("user", PROMPT)
    chat.reply(Options()).use { other ->
        check(other.hasNext())
        other.cancel() // of another's reply
    }
    chat.close()
    check(runCatching { chat.replyFlow().collect() }.exceptionOrNull() is IllegalStateException)
}

suspend fun together(model: Model) = coroutineScope {
    val store = Store(model, Store.Setup().minTokens(4))
    val answers = List(4) { async { model.conversation(store = store, keys = CacheType.F32, values = CacheType.F32).use { it.answer(PROMPT, options(maxTokens = 30)) } } }
    val all = answers.awaitAll()
    check(all.toSet().size == 1 && EXPECTED.startsWith(all[0].take(40))) { all }
    store.close()
}

/** A hundred conversations, some left midway, find room where there is room for two: the handles of each are freed. */
suspend fun nothingStays(path: Path) {
    val plan = Model.plan(path, Model.Load(), 2, 512, CacheType.F16, CacheType.F16)
    RealizarRuntime(1, plan.totalHost(), null).use { runtime ->
        loadModel(path, runtime = runtime).use { model ->
            repeat(100) {
                model.conversation(capacity = 512).use { chat -> check(chat.sayFlow(PROMPT, options(maxTokens = 9)).take(2).toList().size == 2) }
                model.newSession(512).use { session -> check(session.generateFlow(PROMPT).take(2).toList().size == 2) }
            }
            val kept = mutableListOf<Conversation>()
            check(failure { repeat(9) { kept += model.conversation(capacity = 512).apply { answer(PROMPT, options(maxTokens = 2)) } } } == Status.LIMIT)
            kept.forEach(Conversation::close)
        }
    }
}
