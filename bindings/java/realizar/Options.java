package realizar;

import java.util.List;
import org.jspecify.annotations.Nullable;

/** Options of a generation or a reply. Zero in a number stands for the default: the most likely token, and as many
 * tokens as fit into the context. A reply without sampling options uses the model's recommended sampling parameters. */
public final class Options extends TextOptions<Options> implements Cloneable {
    /** The sources of draft tokens, in the order of the library's numbers from 0. */
    enum Draft { NONE, LOOKUP, MODEL, MTP }

    /** Whether a reply begins with reasoning, in the order of the library's numbers from 0. */
    public enum Reasoning {
        /** The default of the chat template. */
        MODEL,
        /** No reasoning. */
        OFF,
        /** Reasoning. */
        ON
    }

    List<String> stops = List.of();
    Draft draft = Draft.NONE;
    @Nullable Grammar grammar;
    String grammarText = "";
    @Nullable Transcript transcript;
    int grammarKind, grammarFlags;
    @Nullable Model draftModel;

    /** All options are the default. */
    public Options() {}

    /** Stop sequences: the text ends before the first of them. In a reply they apply to the content. */
    public Options stops(String... stops) {
        this.stops = Native.all("stops", stops);
        return this;
    }

    /** Speculative decoding with up to {@code most} draft tokens from the text itself; 0: as many as the library
     * chooses. It changes the speed only. */
    public Options draftLookup(int most) {
        return draft(Draft.LOOKUP, null, most);
    }

    /** Speculative decoding with up to {@code most} draft tokens of a small model with the same vocabulary. It changes
     * the speed only. */
    public Options draftModel(Model model, int most) {
        return draft(Draft.MODEL, Native.given(model, "model"), most);
    }

    /** Speculative decoding with draft tokens of the model's MTP head, which {@link Model.Load#mtp} loads. */
    public Options draftMtp(int most) {
        return draft(Draft.MTP, null, most);
    }

    private Options draft(Draft draft, @Nullable Model model, int most) {
        draftMax = Native.whole(most, "most");
        this.draft = draft;
        draftModel = model;
        return this;
    }

    /** Grammar of the text, or of the content of a reply (constrained decoding). */
    public Options grammar(Grammar grammar) {
        this.grammar = Native.given(grammar, "grammar");
        grammarKind = grammar.number;
        grammarFlags = grammar.flags;
        grammarText = grammar.text;
        return this;
    }

    /** The same for a grammar that is compiled for this use only. */
    public Options grammar(Grammar.Kind kind, String text) {
        grammarKind = Native.given(kind, "kind").number();
        grammarText = Native.given(text, "text");
        grammar = null;
        grammarFlags = 0;
        return this;
    }

    /** The text is JSON that matches this schema (structured output). */
    public Options schema(String schema) {
        return grammar(Grammar.Kind.JSON_SCHEMA, Native.given(schema, "schema"));
    }

    /** Tools, the choice among them and variables of this reply only, as a transcript without messages. Its
     * tools and choice replace the conversation's; its variables are set in addition to the conversation's. */
    public Options tools(@Nullable Transcript transcript) {
        this.transcript = transcript;
        return this;
    }

    /** Options that begin as these and change by themselves. */
    public Options copy() {
        try {
            return (Options) clone();
        } catch (CloneNotSupportedException e) {
            throw new IllegalStateException(e);
        }
    }

    /** Sampling parameters. */
    @Override
    public String toString() {
        return "temperature " + temperature + ", topK " + topK + ", topP " + topP + ", minP " + minP + ", repeatPenalty " + repeatPenalty
            + ", presencePenalty " + presencePenalty + ", frequencyPenalty " + frequencyPenalty + ", penaltyWindow " + penaltyWindow
            + ", temperatureFirst " + temperatureFirst + ", seed " + seed;
    }
}
