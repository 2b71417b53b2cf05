package realizar;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.Queue;
import java.util.Spliterators;
import java.util.concurrent.CancellationException;
import java.util.function.BiFunction;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.jspecify.annotations.Nullable;

/** The reply of a {@link Conversation}, part by part. A complete reply is a message of the conversation. An incomplete
 * one is discarded by {@link #close}, and by the next change of the conversation. One call at a time, except for {@link
 * #cancel}: a second one throws {@link BusyException}. An interrupt of the thread cancels too. */
public final class Reply implements Iterable<Part>, Iterator<Part>, AutoCloseable {
    private final Conversation conversation;
    private final Cancel cancel;
    private final int row;
    private final Queue<Part> ready = new ArrayDeque<>();
    private boolean ended;
    private volatile boolean isClosed;

    Reply(Conversation conversation, Cancel cancel, Options options) {
        this.conversation = conversation;
        this.cancel = cancel;
        row = Math.min(options.logprobs == null ? 0 : options.logprobs, conversation.model().info().vocabulary()) + 1;
    }

    private void check() {
        if (isClosed) throw closed();
        if (!conversation.isReplying(this)) throw new IllegalStateException("the conversation has gone on without this reply");
    }

    private static IllegalStateException closed() {
        return new IllegalStateException("Reply is closed");
    }

    private <T> T call(BiFunction<Arena, Memory, T> f) {
        check();
        return conversation.call(f);
    }

    /** Makes calls that belong together. A call that {@link #close} has ended fails as a later call does. */
    private <T> T alone(Supplier<T> calls) {
        check();
        try {
            return conversation.alone(calls);
        } catch (CancellationException e) {
            throw isClosed ? closed() : e;
        }
    }

    @Override
    public Iterator<Part> iterator() {
        return this;
    }

    /** The parts as they come. */
    public Stream<Part> stream() {
        return StreamSupport.stream(Spliterators.spliteratorUnknownSize(this, 0), false);
    }

    /** Computes until there is a part. @throws CancellationException after {@link #cancel} or an interrupt */
    @Override
    public boolean hasNext() {
        if (ended && ready.isEmpty() && !isClosed) return false; // the conversation may have gone on since
        return alone(() -> {
            while (ready.isEmpty() && !ended) {
                boolean more = step();
                take();
                ended = !more;
            }
            return !ready.isEmpty();
        });
    }

    /** The same for a reply whose failure removes the messages after the first {@code messages}. */
    boolean hasNext(int messages) {
        try {
            return hasNext();
        } catch (RealizarException e) {
            if (e.status() != RealizarException.Status.DEADLINE) conversation.rewind(messages);
            throw e;
        }
    }

    @Override
    public Part next() {
        return alone(() -> {
            if (!hasNext()) throw new NoSuchElementException();
            return ready.remove();
        });
    }

    /** Computes to the end and returns the remaining content. */
    public String readText() {
        var all = new StringBuilder();
        forEachRemaining(part -> all.append(part.kind() == Part.Kind.CONTENT ? part.text() : ""));
        return all.toString();
    }

    /** The parts since the last call. Computes nothing. */
    public List<Part> parts() {
        return alone(() -> {
            take();
            var parts = List.copyOf(ready);
            ready.clear();
            return parts;
        });
    }

    private void take() {
        ready.addAll(call((arena, handle) -> Part.all(arena, (kind, flags, index, out, capacity, written, e) ->
            Header.rz_conversation_next_into(handle, kind, flags, index, out, capacity, written, e))));
    }

    /** Computes until there is a token, or the end. True if there is more to compute. */
    public boolean step() {
        return advance(Header.RZ_NO_LIMIT);
    }

    /** Computes for about so many microseconds; a negative number counts as 0. True if there is more to compute. */
    public boolean step(long microseconds) {
        return advance(Math.max(microseconds, 0));
    }

    private boolean advance(long microseconds) {
        return alone(() -> call((arena, handle) -> Blocking.call(List.of(cancel), () -> Native.check(arena, e ->
            Header.rz_conversation_step(handle, microseconds, e))) != Header.RZ_DONE));
    }

    /** Steps several replies of one model as a batch, until one of them has a token. True if there is more to compute.
     * A reply that fails ends without the others; {@link #error} is the reason. A reply that is cancelled, or whose
     * deadline has passed, waits without the others; {@link #stopped} is the reason. */
    public static boolean stepAll(List<Reply> replies) {
        return advance(replies, Header.RZ_NO_LIMIT);
    }

    /** The same for about so many microseconds. */
    public static boolean stepAll(List<Reply> replies, long microseconds) {
        return advance(replies, Math.max(microseconds, 0));
    }

    private static boolean advance(List<Reply> replies, long microseconds) {
        Native.all(replies, "replies").forEach(Reply::check);
        try (Arena arena = new Arena()) {
            long n = replies.size();
            var conversations = replies.stream().map(reply -> reply.conversation).collect(Collectors.toList());
            var cancels = replies.stream().map(reply -> reply.cancel).collect(Collectors.toList());
            return Handle.allAlone(conversations, () -> Handle.useAll(arena, conversations, handles -> Blocking.callAll(cancels, () ->
                Native.check(arena, e -> Header.rz_conversations_step(handles, n, microseconds, e)))));
        } catch (CancellationException e) {
            replies.forEach(Reply::check); // one that is closed
            throw e;
        }
    }

    /** The tokens of the content since the last call with their log probabilities, if {@link Options#logprobs} is set.
     */
    public List<Logprob.Made> logprobs() {
        return alone(() -> call((arena, handle) -> Logprob.rows(arena, row, (tokens, logprobs, capacity, written, e) ->
            Header.rz_conversation_logprobs_into(handle, tokens, logprobs, capacity, written, e))));
    }

    /** Stops a call that another thread is in. That call and later ones throw CancellationException, until {@link
     * #resume}. */
    public void cancel() {
        cancel.fire();
    }

    /** Lets steps fail with the status DEADLINE after this time, at once if it is not positive; null removes the
     * deadline. */
    public void deadline(@Nullable Duration time) {
        cancel.deadline(time);
    }

    /** Takes back a cancel or a deadline, so that the next step continues. */
    public void resume() {
        cancel.reset();
    }

    /** Why the reply has ended; null if it has not. */
    public Generation.@Nullable End end() {
        check();
        return conversation.info().end();
    }

    /** CANCELLED or DEADLINE if steps fail because of a cancel or a deadline, else null. */
    public RealizarException.@Nullable Status stopped() {
        check();
        return conversation.info().stopped();
    }

    /** The error of a reply that has ended with FAILED, else null. {@link #step} throws this error, {@link #stepAll}
     * does not. */
    public @Nullable RealizarException error() {
        try {
            call((arena, handle) -> Native.check(arena, e -> Header.rz_conversation_error(handle, e)));
            return null;
        } catch (RealizarException e) {
            return e;
        }
    }

    /** Ends a reply that has not ended at once: the text so far becomes a message, with {@link Options#keep} or
     * without. */
    public void stop() {
        alone(() -> call((arena, handle) -> Native.check(arena, e -> Header.rz_conversation_stop(handle, e))));
    }

    /** Gives up a reply that has not ended: nothing of it remains, or with {@link Options#keep} a message of the text
     * so far. Ends a call that another thread is in, with IllegalStateException, as each later call. */
    @Override
    public void close() {
        isClosed = true;
        conversation.giveUp(this, cancel);
    }
}
