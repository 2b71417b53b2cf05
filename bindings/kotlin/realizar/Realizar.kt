/** Kotlin extensions of the Java package: named options, suspending calls, replies as flows. */
@file:JvmName("RealizarKt")

package realizar.kotlin

import java.nio.file.Path
import java.util.concurrent.atomic.AtomicBoolean
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.catch
import kotlinx.coroutines.flow.emitAll
import kotlinx.coroutines.flow.filter
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.map
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.withContext
import realizar.Adapter
import realizar.CacheType
import realizar.Cancel
import realizar.Conversation
import realizar.Grammar
import realizar.Model
import realizar.Options
import realizar.Part
import realizar.RealizarRuntime
import realizar.Session
import realizar.Store
import realizar.Transcript

/**
 * Named options of a reply or a generation. Null means the default: greedy decoding, or for a reply the model's
 * recommended sampling parameters. Other options are methods of [Options].
 */
fun options(
    maxTokens: Int = 0,
    temperature: Double? = null,
    topK: Int? = null,
    topP: Double? = null,
    minP: Double? = null,
    repeatPenalty: Double? = null,
    presencePenalty: Double? = null,
    frequencyPenalty: Double? = null,
    seed: Long? = null,
    stops: List<String> = emptyList(),
    schema: String? = null,
    grammar: Grammar? = null,
    reasoning: Options.Reasoning = Options.Reasoning.MODEL,
    reasoningTokens: Int = 0,
    logprobs: Int? = null,
    keep: Boolean = false,
    continuing: Boolean = false,
    tools: Transcript? = null,
): Options {
    val options = Options().maxTokens(maxTokens).stops(*stops.toTypedArray())
    logprobs?.let(options::logprobs)
    options.reasoning(reasoning).reasoningTokens(reasoningTokens)
    temperature?.let(options::temperature)
    topK?.let(options::topK)
    topP?.let(options::topP)
    minP?.let(options::minP)
    repeatPenalty?.let(options::repeatPenalty)
    presencePenalty?.let(options::presencePenalty)
    frequencyPenalty?.let(options::frequencyPenalty)
    seed?.let(options::seed)
    schema?.let(options::schema)
    grammar?.let { options.grammar(it) }
    if (keep) options.keep()
    if (continuing) options.continuing()
    tools?.let(options::tools)
    return options
}

/** Loads a model. [load] has the options that are no parameters here. Cancelling the coroutine stops the load, instead
 * of the cancel of [load]. */
suspend fun loadModel(
    path: Path,
    threads: Int? = null,
    runtime: RealizarRuntime? = null,
    device: Int? = null,
    gpuLayers: Int? = null,
    packedPath: Path? = null,
    load: Model.Load = Model.Load(),
    progress: ((done: Long, total: Long) -> Unit)? = null,
): Model {
    threads?.let(load::threads)
    runtime?.let(load::runtime)
    device?.let(load::device)
    gpuLayers?.let(load::gpuLayers)
    packedPath?.let(load::packedPath)
    progress?.let { tell -> load.progress { done, total -> tell(done, total).let { true } } }
    return Cancel().use { cancel -> making(cancel::fire) { Model.load(path, load.cancel(cancel)) } }
}

/** Downloads a model of the Hub, "hf:owner/name:quantization", as [Model.fetch] does, and returns its path. Cancelling
 * the coroutine ends the download. */
suspend fun fetchModel(name: String, progress: ((done: Long, total: Long) -> Unit)? = null): Path {
    val isWanted = AtomicBoolean(true)
    return stoppable({ isWanted.set(false) }) {
        Model.fetch(name) { done, total ->
            progress?.invoke(done, total)
            isWanted.get()
        }
    }
}

/** Begins a conversation. [transcript], instead of [system], has messages, tools and template variables. */
fun Model.conversation(
    system: String? = null,
    transcript: Transcript = if (system == null) Transcript() else Transcript().system(system),
    capacity: Int = 0,
    keys: CacheType = CacheType.F16,
    values: CacheType = CacheType.F16,
    overflow: Conversation.Overflow = Conversation.Overflow.FAIL,
    adapters: Map<Adapter, Float> = emptyMap(),
    store: Store? = null,
): Conversation {
    val setup = Conversation.Setup().capacity(capacity).types(keys, values).overflow(overflow).adapters(adapters)
    return Conversation(this, transcript, setup.store(store))
}

/** Returns an embedding per text. Cancelling the coroutine stops the call. */
suspend fun Model.embeddings(
    texts: List<String>,
    pooling: Model.Pooling = Model.Pooling.MODEL,
    normalize: Boolean = true,
): Array<FloatArray> = Cancel().use { cancel -> stoppable(cancel::fire) { embed(texts, pooling, normalize, cancel) } }

/**
 * Replies to the messages, part by part, each computed when it is collected. Cancelling or leaving the collector stops
 * the computation and gives the reply up; with `keep`, its text so far stays.
 */
fun Conversation.replyFlow(options: Options = Options()): Flow<Part> = flow {
    making { reply(options) }.use { while (stoppable(it::cancel, it::hasNext)) emit(it.next()) }
}

/** Prefills the messages before the next reply, as [Conversation.read] does. Cancelling the coroutine stops it. */
suspend fun Conversation.readAhead(options: Options = Options()) {
    making { read(options) }.use { reading -> while (stoppable(reading::cancel) { reading.step() }) {} }
}

/**
 * Adds a user message and emits the content of the reply, piece by piece. If the collector is cancelled or left, the
 * text so far stays; if the reply fails, the messages are restored.
 */
fun Conversation.sayFlow(text: String, options: Options = Options()): Flow<String> = flow {
    add("user", text) // an unfinished reply is discarded
    val before = info().messages() - 1
    val parts = replyFlow(options.copy().keep()).catch { failure ->
        rewind(before)
        throw failure
    }
    emitAll(parts.filter { it.kind() == Part.Kind.CONTENT && it.text().isNotEmpty() }.map { it.text() })
}

/** Adds a user message and returns the content of the reply. */
suspend fun Conversation.answer(text: String, options: Options = Options()): String =
    sayFlow(text, options).toList().joinToString("")

/** Continues a text, piece by piece, as [replyFlow] does for a conversation. The session keeps completed tokens. */
fun Session.generateFlow(prompt: String, options: Options = Options()): Flow<String> = flow {
    making { generate(prompt, options) }.use { while (stoppable(it::cancel, it::hasNext)) emit(it.next()) }
}

/** Creates an object by [stoppable], and closes it if the coroutine was cancelled meanwhile, which loses the result. */
private suspend fun <T : AutoCloseable> making(stop: () -> Unit = {}, make: () -> T): T {
    var made: T? = null
    try {
        return stoppable(stop) { make().also { made = it } }
    } catch (e: CancellationException) {
        made?.close()
        throw e
    }
}

/**
 * Runs a blocking call on a thread for that. If the coroutine is cancelled, [stop] ends the call, and this function
 * waits for its end, so that its objects may be closed.
 */
private suspend fun <T> stoppable(stop: () -> Unit, work: () -> T): T = coroutineScope {
    val isDone = AtomicBoolean()
    val watch = launch(Dispatchers.Default, CoroutineStart.UNDISPATCHED) {
        try {
            awaitCancellation()
        } finally {
            if (!isDone.get()) stop()
        }
    }
    try {
        withContext(Dispatchers.IO) { work() }
    } finally {
        isDone.set(true)
        watch.cancel()
    }
}
