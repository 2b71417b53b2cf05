package realizar;

import java.util.List;

/** Choices for a generation. Numbers of zero stand for the defaults: the likeliest token, as many as there is room for. */
public final class Options {
    float temperature, topP, minP, repeatPenalty;
    int topK, maxTokens, draft, draftMax;
    long seed;
    List<String> stops = List.of();
    Grammar grammar;
    Model draftModel;

    public Options temperature(double temperature) {
        this.temperature = (float) temperature;
        return this;
    }

    public Options topK(int topK) {
        this.topK = topK;
        return this;
    }

    public Options topP(double topP) {
        this.topP = (float) topP;
        return this;
    }

    public Options minP(double minP) {
        this.minP = (float) minP;
        return this;
    }

    public Options repeatPenalty(double repeatPenalty) {
        this.repeatPenalty = (float) repeatPenalty;
        return this;
    }

    public Options seed(long seed) {
        this.seed = seed;
        return this;
    }

    public Options maxTokens(int maxTokens) {
        this.maxTokens = maxTokens;
        return this;
    }

    /** The text ends ahead of the first of these. */
    public Options stops(String... stops) {
        this.stops = List.of(stops);
        return this;
    }

    /** Next tokens are guessed out of the text, up to so many at a time, 0: as many as the library chooses. It changes nothing but the time. */
    public Options draftLookup(int most) {
        draft = Native.DRAFT_LOOKUP;
        draftMax = most;
        return this;
    }

    /** Next tokens are guessed by a small model of the same vocabulary, up to so many at a time. It changes nothing but the time. */
    public Options draftModel(Model model, int most) {
        draft = Native.DRAFT_MODEL;
        draftMax = most;
        draftModel = model;
        return this;
    }

    public Options grammar(Grammar grammar) {
        this.grammar = grammar;
        return this;
    }
}
