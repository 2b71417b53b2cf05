package realizar;

/** A compiled grammar for constrained decoding. Immutable: any number of generations may use it at once. */
public final class Grammar extends Handle {
    /** The language of a grammar, in the order of the library's numbers from 1. */
    public enum Kind { JSON_SCHEMA, REGEX, LARK, GBNF, JSON, CHOICES, TOOLS;

        int number(boolean whitespace) {
            return ordinal() + 1 | (whitespace ? Header.RZ_GRAMMAR_WHITESPACE : 0);
        }
    }


    final int number;
    final String text;

    Grammar(Memory pointer, int number, String text) {
        super(pointer, Header::rz_grammar_free);
        this.number = number;
        this.text = text;
    }
}
