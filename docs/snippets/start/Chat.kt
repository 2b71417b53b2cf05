// --8<-- [start:start]
// java --enable-native-access=ALL-UNNAMED -cp ... ChatKt model.gguf
import java.nio.file.Path
import kotlinx.coroutines.runBlocking
import realizar.kotlin.conversation
import realizar.kotlin.loadModel
import realizar.kotlin.sayFlow

fun main(arguments: Array<String>) = runBlocking {
    loadModel(Path.of(arguments[0])).use { model ->
        model.conversation(system = "Be brief.").use { chat ->
            for (line in generateSequence(::readlnOrNull)) {
                chat.sayFlow(line).collect(::print)
                println()
            }
        }
    }
}
// --8<-- [end:start]
