package realizar;

import java.util.ArrayList;
import java.util.List;

/**
 * A part of a reply. {@code call} is the number of the call that a name or arguments belong to. {@code unparsed}:
 * content that begins like a call and is none; at the end: there was such, or a call broke off. The text of the end is
 * half a tag, where the reply broke off within one.
 */
public record Part(Kind kind, int call, String text, boolean unparsed) {
    /** The kind of a part, in the order of the library's numbers from 1. A name is whole; arguments are pieces of a
     * JSON object. */
    public enum Kind { REASONING, CONTENT, TOOL_NAME, TOOL_ARGUMENTS, END }

    /** A function that writes the next part. */
    interface Next {
        int apply(Memory kind, Memory index, Memory out, long capacity, Memory written,
            Memory error);
    }

    /** The parts that there are. */
    static List<Part> all(Arena arena, Next next) {
        var parts = new ArrayList<Part>();
        Memory kind = arena.allocate(4), index = arena.allocate(4);
        for (;;) {
            kind.set(0, 0);
            String text = Native.filled(arena, 1, 64,
                (out, capacity, written, e) -> next.apply(kind, index, out, capacity, written, e)).text();
            int found = kind.getInt(0), number = found & ~Header.RZ_CHAT_EVENT_UNPARSED;
            if (found == 0) return parts;
            parts.add(new Part(Kind.values()[number - 1], index.getInt(0), text, found != number));
        }
    }
}
