/** The Java package for Kotlin: options by name, calls that suspend, replies as flows. */
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
 * Choices for a reply or a generation by name. Those that are null are left to the library: the most likely token, or
 * what the model's makers advise. The others of [Options] are chosen by its methods.
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

/** Loads a model. [load] has the options that are no parameters here. A cancelled coroutine stops the load, in place of
 * the cancel of [load]. */
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

/** The path of a model of the Hub, "hf:owner/name:quantization", as of [Model.fetch]. A cancelled coroutine ends it. */
suspend fun fetchModel(name: String, progress: ((done: Long, total: Long) -> Unit)? = null): Path {
    val isWanted = AtomicBoolean(true)
    return stoppable({ isWanted.set(false) }) {
        Model.fetch(name) { done, total ->
            progress?.invoke(done, total)
            isWanted.get()
        }
    }
}

/** Begins a conversation. [transcript] in place of [system] has other messages, tools and variables of the template. */
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

/** Embeddings of texts: a vector for each. A cancelled coroutine stops it. */
suspend fun Model.embeddings(
    texts: List<String>,
    pooling: Model.Pooling = Model.Pooling.MODEL,
    normalize: Boolean = true,
): Array<FloatArray> = Cancel().use { cancel -> stoppable(cancel::fire) { embed(texts, pooling, normalize, cancel) } }

/**
 * Replies to the messages, part by part, each computed when it is collected. A collector that is cancelled, or has
 * enough, stops the work and gives the reply up; with `keep` what was said stays.
 */
fun Conversation.replyFlow(options: Options = Options()): Flow<Part> = flow {
    making { reply(options) }.use { while (stoppable(it::cancel, it::hasNext)) emit(it.next()) }
}

/** Reads the messages ahead of the next reply, as [Conversation.read]. A cancelled coroutine stops it. */
suspend fun Conversation.readAhead(options: Options = Options()) {
    making { read(options) }.use { reading -> while (stoppable(reading::cancel) { reading.step() }) {} }
}

/**
 * A message of the user, and the content of the reply piece by piece. What was said stays where the collector is
 * cancelled or has enough; where the reply fails the messages are as they were.
 */
fun Conversation.sayFlow(text: String, options: Options = Options()): Flow<String> = flow {
    add("user", text) // an unfinished reply is given up
    val before = info().messages() - 1
    val parts = replyFlow(options.copy().keep()).catch { failure ->
        rewind(before)
        throw failure
    }
    emitAll(parts.filter { it.kind() == Part.Kind.CONTENT && it.text().isNotEmpty() }.map { it.text() })
}

/** The same as one text. */
suspend fun Conversation.answer(text: String, options: Options = Options()): String =
    sayFlow(text, options).toList().joinToString("")

/** Continues a text piece by piece, as [replyFlow] does a conversation. The session keeps complete tokens. */
fun Session.generateFlow(prompt: String, options: Options = Options()): Flow<String> = flow {
    making { generate(prompt, options) }.use { while (stoppable(it::cancel, it::hasNext)) emit(it.next()) }
}

/** Makes something by [stoppable], and closes it where the coroutine was cancelled meanwhile, which loses a result. */
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
 * Runs what blocks on a thread for that. Where the coroutine is cancelled, [stop] has the work end, and its end is
 * waited for, so that what it uses may be closed.
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
