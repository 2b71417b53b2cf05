import java.nio.file.Path
import kotlinx.coroutines.runBlocking
import realizar.Conversation
import realizar.kotlin.conversation
import realizar.kotlin.loadModel
import realizar.kotlin.sayFlow

/** Talks with a model: one line a turn.  java -cp ... ChatKt model.gguf */
fun main(arguments: Array<String>) = runBlocking {
    loadModel(Path.of(arguments[0])).use { model ->
        // The oldest turns are left out of a conversation that has become too long.
        model.conversation(overflow = Conversation.Overflow.FORGET).use { chat ->
            print("> ")
            for (line in generateSequence(::readlnOrNull)) {
                chat.sayFlow(line).collect(::print)
                print("\n> ")
            }
        }
    }
}
