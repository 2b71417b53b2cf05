// The Kotlin code of docs/guides, a section per guide, as a program that tests/kotlin.sh runs:
// Guides MODEL ADAPTER FOLDER
import java.io.ByteArrayInputStream
import java.io.ByteArrayOutputStream
import java.nio.file.Path
import kotlin.time.Duration.Companion.milliseconds
import kotlinx.coroutines.flow.collect
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.flow.fold
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeoutOrNull
import realizar.CacheType
import realizar.Conversation
import realizar.Device
import realizar.Model
import realizar.Part
import realizar.RealizarException
import realizar.RealizarException.Status
import realizar.Reply
import realizar.RealizarRuntime
import realizar.Store
import realizar.Transcript
import realizar.kotlin.answer
import realizar.kotlin.conversation
import realizar.kotlin.embeddings
import realizar.kotlin.fetchModel
import realizar.kotlin.loadModel
import realizar.kotlin.options
import realizar.kotlin.replyFlow
import realizar.kotlin.sayFlow

// --8<-- [start:chat]
suspend fun chat(model: Model) = model.conversation(system = "").use { chat ->
    chat.sayFlow("Once upon a time").collect(::print)
}
// --8<-- [end:chat]

// --8<-- [start:options]
suspend fun options(model: Model) = model.conversation(overflow = Conversation.Overflow.FORGET).use { chat ->
    val options = options(temperature = 0.7, topP = 0.9, seed = 42, maxTokens = 60, stops = listOf("\n\n"))
    chat.sayFlow("Once upon a time", options).collect(::print)
}
// --8<-- [end:options]

// --8<-- [start:streaming]
suspend fun streaming(model: Model) = model.conversation().use { chat ->
    chat.add("user", "Once upon a time")
    chat.replyFlow(options(maxTokens = 60)).collect { part ->
        if (part.kind() == Part.Kind.CONTENT) print(part.text())
        if (part.kind() == Part.Kind.REASONING) System.err.print(part.text())
    }
}
// --8<-- [end:streaming]

// --8<-- [start:stopping]
suspend fun stopping(model: Model) = model.conversation().use { chat ->
    // Cancelling the coroutine, or leaving the flow, ends the reply and keeps its text.
    val whole = withTimeoutOrNull(20.milliseconds) { chat.sayFlow("Once upon a time").collect(::print) }
    if (whole == null && chat.info().messages() == 2) { // the reply was cut: continue it
        chat.replyFlow(options(continuing = true)).collect { print(it.text()) }
    }
}
// --8<-- [end:stopping]

// --8<-- [start:structured]
suspend fun structured(model: Model): String = model.conversation().use { chat ->
    val schema = """{"type": "object", "properties": {"name": {"type": "string", "maxLength": 20},
        "age": {"type": "integer", "minimum": 0, "maximum": 150}},
        "required": ["name", "age"], "additionalProperties": false}"""
    chat.answer("Lily is five.", options(schema = schema))
}
// --8<-- [end:structured]

// --8<-- [start:tools]
suspend fun tools(model: Model): String {
    val cities = """{"type": "object", "properties": {"city": {"enum": ["Paris", "Tokyo"]}}, "required": ["city"],
        "additionalProperties": false}"""
    val begun = Transcript().parallelToolCalls(false).toolChoice("required") // "auto": the model decides
        .tool("weather", "The weather of a city", cities)
    return model.conversation(transcript = begun).use { chat ->
        chat.add("user", "Is it warm in Paris?")
        val call = chat.replyFlow(options(maxTokens = 100))
            .filter { it.kind() == Part.Kind.TOOL_NAME || it.kind() == Part.Kind.TOOL_ARGUMENTS }
            .fold("") { all, part -> all + part.text() }
        for (made in chat.messages().last()["tool_calls"] as List<*>) {
            chat.add(mapOf("role" to "tool", "tool_call_id" to (made as Map<*, *>)["id"], "content" to "21 C"))
        }
        call // the next chat.replyFlow() answers with the result
    }
}
// --8<-- [end:tools]

// --8<-- [start:embeddings]
suspend fun embeddings(model: Model): Double {
    val texts = listOf("a small girl", "a little girl")
    val (small, little) = model.embeddings(texts, Model.Pooling.MEAN) // MODEL: the model's own
    return small.indices.sumOf { small[it] * little[it].toDouble() } // normalized, so the dot product is the cosine
}
// --8<-- [end:embeddings]

// --8<-- [start:adapters]
suspend fun adapters(model: Model, path: String) = model.adapter(Path.of(path)).use { adapter ->
    model.conversation(adapters = mapOf(adapter to 1f)).use { it.sayFlow("Once upon a time").collect(::print) }
}
// --8<-- [end:adapters]

// --8<-- [start:saving]
suspend fun saving(model: Model): Int {
    val file = ByteArrayOutputStream() // or a FileOutputStream
    model.conversation().use { chat ->
        chat.answer("Once upon a time")
        chat.save(file)
    }
    return Conversation.load(model, ByteArrayInputStream(file.toByteArray())).use { later ->
        later.messages().size // continues bit-identically
    }
}
// --8<-- [end:saving]

// --8<-- [start:store]
// Without a folder the prefixes are freed with the store.
suspend fun prefixes(model: Model, folder: String) = Store(model, Store.Setup().minTokens(4).path(Path.of(folder))).use { store ->
    repeat(2) { // the second conversation reuses the prompt
        model.conversation(store = store).use { it.answer("Once upon a time there was a long instruction") }
    }
    store.info()
}
// --8<-- [end:store]

// --8<-- [start:batches]
fun batches(model: Model): List<String> {
    val chats = listOf("Once upon a time", "The little dog", "One day").map { question ->
        model.conversation().apply { add("user", question) }
    }
    val replies = chats.map { it.reply(options(maxTokens = 40)) }
    // Each step decodes a token of every conversation.
    while (Reply.stepAll(replies)) replies.forEach { it.parts() }
    return chats.map { it.messages().last()["content"].toString() }
}
// --8<-- [end:batches]

// --8<-- [start:frames]
/** Runs once per frame: steps the reply for 2 ms, then prints new text. Returns false at the end of the reply. */
fun frame(reply: Reply): Boolean {
    val more = reply.step(2000)
    reply.parts().forEach { print(it.text()) }
    return more
}
// --8<-- [end:frames]

// --8<-- [start:hub]
suspend fun fetched(name: String): Model {
    // "hf:Qwen/Qwen3-0.6B-GGUF", or with a quantization: "hf:Qwen/Qwen3-0.6B-GGUF:Q8_0".
    val path = fetchModel(name) { done, total -> System.err.print("\r${done shr 20} of ${total shr 20} MB") }
    return loadModel(path)
}
// --8<-- [end:hub]

// --8<-- [start:plan]
fun plan(path: String) {
    // The memory of one model and four conversations of 4,096 tokens each; no weight is read.
    val plan = Model.plan(Path.of(path), Model.Load(), 4, 4096, CacheType.F16, CacheType.F16)
    println("weights ${plan.weightsHost() shr 20} MB, each conversation ${plan.cacheHost() shr 20} MB, all ${plan.totalHost() shr 20} MB")
}
// --8<-- [end:plan]

// --8<-- [start:memory]
suspend fun memory(path: String) {
    val runtime = RealizarRuntime(2, 512L shl 20, null) // beyond the limit: the status LIMIT
    loadModel(Path.of(path), runtime = runtime).use { model ->
        model.conversation(capacity = 2048, keys = CacheType.Q8_0, values = CacheType.Q8_0).use { it.answer("Once upon a time") }
    }
}
// --8<-- [end:memory]

// --8<-- [start:gpus]
suspend fun gpus(path: String) {
    for (device in Device.all()) println("${device.index()}: ${device.name()} ${device.isa()} ${device.unavailable()}")
    // 0: the library chooses. Or set the index of a device, or Load.devices for several.
    loadModel(Path.of(path), device = 0).use { println("on device ${it.info().device()}, GPUs ${it.info().devices()}") }
}
// --8<-- [end:gpus]

// --8<-- [start:determinism]
/** For tests: returns a reply, which is the same for every number of threads. */
suspend fun said(path: String, threads: Int): String = loadModel(Path.of(path), threads = threads).use { model ->
    model.conversation().use { it.answer("Once upon a time") }
}
// --8<-- [end:determinism]

// --8<-- [start:errors]
suspend fun loadOrExplain(path: String) {
    try {
        loadModel(Path.of(path)).use { println(it.info()) }
    } catch (e: RealizarException) {
        when (e.status()) {
            Status.IO -> System.err.println("fetch the model first: ${e.message}")
            Status.UNSUPPORTED, Status.FORMAT -> System.err.println("another file is needed: ${e.message}")
            else -> throw e
        }
    }
}
// --8<-- [end:errors]

fun main(arguments: Array<String>) = runBlocking {
    val (path, adapter, folder) = arguments
    loadModel(Path.of(path)).use { model ->
        chat(model)
        println()
        options(model)
        streaming(model)
        stopping(model)
        check(structured(model).startsWith("{\"name\":"))
        check(tools(model).startsWith("weather{\"city\":"))
        check(embeddings(model) > 0.5)
        adapters(model, adapter)
        check(saving(model) == 2)
        check(prefixes(model, folder).hits() > 0)
        check(batches(model).all { it.length > 20 })
        model.conversation().use { chat ->
            chat.add("user", "Once upon a time")
            val reply = chat.reply(options(maxTokens = 40))
            while (frame(reply)) continue
        }
        fetched("hf:tests/story").use { check(it.info().architecture() == "llama") }
        plan(path)
        memory(path)
        gpus(path)
        check(said(path, 1) == said(path, 3))
        loadOrExplain("none.gguf")
    }
    println("\nall ran")
}
