package realizar;

import java.util.ArrayList;
import java.util.List;

/** A part of a reply. {@code call}: number of the tool call that a name or arguments belong to. {@code unparsed}: true
 * for content that begins like a tool call but is none, and for the END of a reply that had such content or broke off
 * in a tool call. The text of END is the incomplete tag in which a reply broke off, usually empty. */
public record Part(Kind kind, int call, String text, boolean unparsed) {
    /** The kind of a part, in the order of the library's numbers from 1. A tool call is a TOOL_ID, a TOOL_NAME and some
     * TOOL_ARGUMENTS. */
    public enum Kind {
        /** Reasoning before the answer. */
        REASONING,
        /** Text of the answer. */
        CONTENT,
        /** The whole name of the tool that is called. */
        TOOL_NAME,
        /** A piece of the arguments of a tool call, which together are a JSON object. */
        TOOL_ARGUMENTS,
        /** The end of the reply. */
        END,
        /** The whole id of a tool call, which its message has too. */
        TOOL_ID
    }

    /** A function that writes the next part. */
    interface Next {
        int apply(Memory kind, Memory flags, Memory index, Memory out, long capacity, Memory written,
            Memory error);
    }

    /** All parts that the function has. */
    static List<Part> all(Arena arena, Next next) {
        var parts = new ArrayList<Part>();
        Memory kind = arena.allocate(4), flags = arena.allocate(4), index = arena.allocate(4);
        for (;;) {
            kind.set(0, 0);
            String text = Native.filled(arena, 1, 64,
                (out, capacity, written, e) -> next.apply(kind, flags, index, out, capacity, written, e)).text();
            int number = kind.getInt(0);
            if (number == 0) return parts;
            boolean isUnparsed = (flags.getInt(0) & Header.RZ_CHAT_EVENT_FLAG_UNPARSED) != 0;
            parts.add(new Part(Kind.values()[number - 1], index.getInt(0), text, isUnparsed));
        }
    }
}
