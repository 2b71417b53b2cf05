package realizar;

import java.lang.foreign.MemorySegment;

/** Turns tokens into text as they come, holding back the bytes of an unfinished character. One call at a time. */
public final class TextStream extends Handle {
    TextStream(MemorySegment pointer) {
        super(pointer, Header.rz_textstream_free);
    }

    /** Puts tokens ahead of those to come, such as a prompt, without their text. */
    public void follow(int... tokens) {
        call((arena, stream) -> {
            MemorySegment ids = Native.ints(arena, tokens);
            return Native.check(arena, e -> (int) Header.rz_textstream_follow.invokeExact(stream, ids, (long) tokens.length, e));
        });
    }

    /** Adds a token, and gives the text that is complete with it, often none. */
    public String push(int token) {
        return call((arena, stream) -> Native.string(Native.filled(arena, 1, 64, (out, capacity, written, e) ->
            (int) Header.rz_textstream_push_into.invokeExact(stream, token, out, capacity, written, e))));
    }

    /** Ends the text, and gives the rest of it. */
    public String flush() {
        return call((arena, stream) -> Native.string(Native.filled(arena, 1, 64, (out, capacity, written, e) ->
            (int) Header.rz_textstream_flush_into.invokeExact(stream, out, capacity, written, e))));
    }
}
