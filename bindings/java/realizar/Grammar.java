package realizar;

/** A compiled grammar for constrained decoding. Immutable: any number of generations and replies may use it at once. */
public final class Grammar extends Handle {
    /** The language of a grammar, in the order of the library's numbers from 1. */
    public enum Kind {
        /** JSON that matches a JSON schema. */
        JSON_SCHEMA,
        /** A regular expression. */
        REGEX,
        /** A grammar of Lark, as llguidance reads it. */
        LARK,
        /** A grammar of llama.cpp. */
        GBNF,
        /** Any JSON value; the text is empty. */
        JSON,
        /** One of several texts, a JSON array of strings. */
        CHOICES,
        /** Tool calls of a request in JSON, with "tools" and "tool_choice". */
        TOOLS;

        int number() {
            return ordinal() + 1;
        }
    }

    final int number, flags;
    final String text;

    Grammar(Memory pointer, int number, int flags, String text) {
        super(pointer, Header::rz_grammar_free);
        this.number = number;
        this.flags = flags;
        this.text = text;
    }
}
