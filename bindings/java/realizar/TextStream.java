package realizar;

/** Turns tokens into text as they come, holding back the bytes of an unfinished character. One call at a time. */
public final class TextStream extends Handle {
    TextStream(Memory pointer) {
        super(pointer, Header::rz_textstream_free);
    }

    /** Puts tokens ahead of those to come, such as a prompt, without their text. */
    public void follow(int... tokens) {
        Native.wholes(tokens, "tokens");
        call((arena, stream) -> {
            Memory ids = Native.ints(arena, tokens, "tokens");
            return Native.check(arena, e -> Header.rz_textstream_follow(stream, ids, tokens.length, e));
        });
    }

    /** Adds a token, and gives the text that is complete with it, often none. */
    public String push(int token) {
        Native.whole(token, "token");
        return call((arena, stream) -> Native.filled(arena, 1, 64, (out, capacity, written, e) ->
            Header.rz_textstream_push_into(stream, token, out, capacity, written, e)).text());
    }

    /** Ends the text, and gives the rest of it. */
    public String flush() {
        return call((arena, stream) -> Native.filled(arena, 1, 64, (out, capacity, written, e) ->
            Header.rz_textstream_flush_into(stream, out, capacity, written, e)).text());
    }
}
