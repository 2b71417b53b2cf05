/**
 * LLM inference inside your own process. A {@link realizar.Model} is loaded once; a {@link realizar.Conversation} with
 * it has messages and their KV cache, and a {@link realizar.Reply} is generated part by part.
 *
 * <p>Parameters and results are never null unless their type has {@code @Nullable}: a null is rejected with a
 * NullPointerException that names the parameter, and a number that does not fit with an IllegalArgumentException.
 * Objects with {@code close()} free memory of the library; one that is not closed is freed when it is
 * garbage-collected. A call on a closed object throws IllegalStateException, a second use at the same time {@link
 * realizar.BusyException}, an interrupted or cancelled call {@link java.util.concurrent.CancellationException}, and any
 * other failed call {@link realizar.RealizarException}.
 */
@NullMarked
package realizar;

import org.jspecify.annotations.NullMarked;
