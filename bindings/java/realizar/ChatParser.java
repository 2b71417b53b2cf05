package realizar;

import java.lang.foreign.MemorySegment;
import java.util.List;

/** Takes the reply to a conversation apart while its tokens come: reasoning, content, and calls of tools. One call at a time. */
public final class ChatParser extends Handle {
    ChatParser(MemorySegment pointer) {
        super(pointer, Header.rz_chat_parser_free);
    }

    /** Adds a token, and gives the parts that it completes, often none. */
    public List<Part> push(int token) {
        return parts(parser -> e -> (int) Header.rz_chat_parser_push.invokeExact(parser, token, e));
    }

    /** Ends the reply, and gives the rest of it. */
    public List<Part> end() {
        return parts(parser -> e -> (int) Header.rz_chat_parser_end.invokeExact(parser, e));
    }

    private List<Part> parts(java.util.function.Function<MemorySegment, Native.Call> step) {
        return call((arena, parser) -> {
            Native.check(arena, step.apply(parser));
            return Part.all(arena, (kind, index, out, capacity, written, e) ->
                (int) Header.rz_chat_parser_next_into.invokeExact(parser, kind, index, out, capacity, written, e));
        });
    }
}
