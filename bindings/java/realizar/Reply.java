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
import java.util.stream.Collectors;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;

/**
 * The reply of a {@link Conversation}, part by part; at its end it is a message. One that is left before is given up by
 * the next change of the conversation, or by {@link #close}. One thread at a time, but for {@link #cancel}, which an
 * interrupt of that thread calls too.
 */
public final class Reply implements Iterable<Part>, Iterator<Part>, AutoCloseable {
    private final Conversation conversation;
    private final Cancel cancel;
    private final int row;
    private final Queue<Part> ready = new ArrayDeque<>();
    private boolean ended;

    Reply(Conversation conversation, Cancel cancel, Options options) {
        this.conversation = conversation;
        this.cancel = cancel;
        row = Math.min(options.logprobs, conversation.model().info().vocabulary()) + 1;
    }

    private void check() {
        if (conversation.isReplying(this)) return;
        throw new IllegalStateException("the conversation has gone on without this reply");
    }

    private <T> T call(BiFunction<Arena, Memory, T> f) {
        check();
        return conversation.call(f);
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
        while (ready.isEmpty() && !ended) {
            boolean more = step();
            take();
            ended = !more;
        }
        return !ready.isEmpty();
    }

    /** The same for a reply whose failure takes the messages back to the first so many. */
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
        if (!hasNext()) throw new NoSuchElementException();
        return ready.remove();
    }

    /** Works to the end, and gives the content that is left. */
    public String readText() {
        var all = new StringBuilder();
        forEachRemaining(part -> all.append(part.kind() == Part.Kind.CONTENT ? part.text() : ""));
        return all.toString();
    }

    /** The parts that there are since the last call, without any work. */
    public List<Part> parts() {
        take();
        var parts = List.copyOf(ready);
        ready.clear();
        return parts;
    }

    private void take() {
        ready.addAll(call((arena, handle) -> Part.all(arena, (kind, index, out, capacity, written, e) ->
            Header.rz_conversation_next_into(handle, kind, index, out, capacity, written, e))));
    }

    /** Works until it has made a token or has ended; true: there is more to do. */
    public boolean step() {
        return advance(Header.RZ_NO_LIMIT);
    }

    /** Works for about so many microseconds, of which a negative number is none; true: there is more to do. */
    public boolean step(long microseconds) {
        return advance(Math.max(microseconds, 0));
    }

    private boolean advance(long microseconds) {
        return call((arena, handle) -> Blocking.call(List.of(cancel), () -> Native.check(arena, e ->
            Header.rz_conversation_step(handle, microseconds, e))) != Header.RZ_DONE);
    }

    /** Steps several replies of one model in common passes over the weights, until one has made a token; true: there is
     * more to do. One that fails ends alone: {@link #error} tells why. */
    public static boolean stepAll(List<Reply> replies) {
        return advance(replies, Header.RZ_NO_LIMIT);
    }

    /** The same for about so many microseconds. */
    public static boolean stepAll(List<Reply> replies, long microseconds) {
        return advance(replies, Math.max(microseconds, 0));
    }

    private static boolean advance(List<Reply> replies, long microseconds) {
        replies.forEach(Reply::check);
        try (Arena arena = new Arena()) {
            long n = replies.size();
            var conversations = replies.stream().map(reply -> reply.conversation).collect(Collectors.toList());
            var cancels = replies.stream().map(reply -> reply.cancel).collect(Collectors.toList());
            return Handle.useAll(arena, conversations, handles -> Blocking.call(cancels, () -> Native.check(arena, e ->
                Header.rz_conversations_step(handles, n, microseconds, e))) != Header.RZ_DONE);
        }
    }

    /** Tokens of the content that are new since the last call with their probabilities, of {@link Options#logprobs}. */
    public List<Logprob.Made> logprobs() {
        return call((arena, handle) -> Logprob.rows(arena, row, (tokens, logprobs, capacity, written, e) ->
            Header.rz_conversation_logprobs_into(handle, tokens, logprobs, capacity, written, e)));
    }

    /** Stops a call that another thread is in; it and those after it throw, until {@link #resume}. */
    public void cancel() {
        cancel.fire();
    }

    /** Has steps end after so long, at once where that has passed, with the status DEADLINE; null takes that back. */
    public void deadline(Duration time) {
        cancel.deadline(time);
    }

    /** Takes a cancel or a deadline back: the reply goes on with the next step. */
    public void resume() {
        cancel.reset();
    }

    /** Why it has ended; null where it has not. */
    public Generation.End end() {
        check();
        return conversation.info().end();
    }

    /** The error by which it has ended (FAILED), which {@link #step} throws and {@link #stepAll} does not; null for any
     * other. */
    public RealizarException error() {
        if (end() != Generation.End.FAILED) return null;
        try {
            step(0);
            return null;
        } catch (RealizarException e) {
            return e;
        }
    }

    /** Gives it up where it has not ended: it leaves no trace, or with {@link Options#keep} a message of what was
     * said. */
    @Override
    public void close() {
        conversation.giveUp(this);
    }
}
