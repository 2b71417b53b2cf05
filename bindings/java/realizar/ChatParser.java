package realizar;

import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;

/** Takes the reply to a conversation apart while its tokens come: reasoning, content, and calls of tools. One call at a time. */
public final class ChatParser extends Handle {
    /** The kind of a part, in the order of the library's numbers from 1. A name is whole; arguments are pieces of a JSON object. */
    public enum Kind { REASONING, CONTENT, TOOL_NAME, TOOL_ARGUMENTS, END }

    /**
     * A part of a reply. {@code call} is the number of the call that a name or arguments belong to. {@code unparsed}: content that begins
     * like a call and is none; at the end: there was such, or a call broke off.
     */
    public record Part(Kind kind, int call, String text, boolean unparsed) {}

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
            return parts(arena, (kind, index, out, capacity, written, e) ->
                (int) Header.rz_chat_parser_next_into.invokeExact(parser, kind, index, out, capacity, written, e));
        });
    }

    /** A function that writes the next part. */
    interface Next {
        int apply(MemorySegment kind, MemorySegment index, MemorySegment out, long capacity, MemorySegment written, MemorySegment error) throws Throwable;
    }

    /** The parts that there are. */
    static List<Part> parts(Arena arena, Next next) {
        var parts = new ArrayList<Part>();
        MemorySegment kind = arena.allocate(JAVA_INT), index = arena.allocate(JAVA_INT);
        for (;;) {
            kind.set(JAVA_INT, 0, 0);
            String text = Native.string(Native.filled(arena, 1, 64, (out, capacity, written, e) -> next.apply(kind, index, out, capacity, written, e)));
            int found = kind.get(JAVA_INT, 0);
            if (found == 0) return parts;
            parts.add(new Part(Kind.values()[(found & ~Header.RZ_CHAT_EVENT_UNPARSED) - 1], index.get(JAVA_INT, 0), text, (found & Header.RZ_CHAT_EVENT_UNPARSED) != 0));
        }
    }
}
