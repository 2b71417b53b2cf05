package realizar;

import java.lang.foreign.MemorySegment;

/** A grammar for what is written. Immutable: any number of generations may use it at once. */
public final class Grammar extends Handle {
    /** The language of a grammar, in the order of the library's numbers from 1. */
    public enum Kind { JSON_SCHEMA, REGEX, LARK, GBNF, JSON, CHOICES, TOOLS }

    Grammar(MemorySegment pointer) {
        super(pointer, Header.rz_grammar_free);
    }
}
