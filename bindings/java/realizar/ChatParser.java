package realizar;

import java.util.List;

/** Parses the tokens of a reply into reasoning, content and tool calls. One call at a time. */
public final class ChatParser extends Handle {
    ChatParser(Memory pointer) {
        super(pointer, Header::rz_chat_parser_free);
    }

    /** Adds a token and returns the parts that it completes, often none. */
    public List<Part> push(int token) {
        Native.whole(token, "token");
        return parts(parser -> e -> Header.rz_chat_parser_push(parser, token, e));
    }

    /** Ends the reply and returns its remaining parts. */
    public List<Part> end() {
        return parts(parser -> e -> Header.rz_chat_parser_end(parser, e));
    }

    private List<Part> parts(java.util.function.Function<Memory, Native.Call> step) {
        return call((arena, parser) -> {
            Native.check(arena, step.apply(parser));
            return Part.all(arena, (kind, flags, index, out, capacity, written, e) ->
                Header.rz_chat_parser_next_into(parser, kind, flags, index, out, capacity, written, e));
        });
    }
}
