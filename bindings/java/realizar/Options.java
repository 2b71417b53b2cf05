package realizar;

import java.util.List;
import java.util.Map;

/** Choices for a generation or a reply. Numbers of zero stand for the defaults: the likeliest token, as many as there
 *  is room for. A reply for which no sampling is chosen is sampled as the makers of the model advise. */
public final class Options {
    /** The sources of drafts, in the order of the library's numbers from 0. */
    enum Draft { NONE, LOOKUP, MODEL, MTP }

    /** Reasoning of a reply, in the order of the library's numbers from 0. MODEL: as the chat template has it by
     * itself. */
    public enum Reasoning { MODEL, OFF, ON }

    float temperature, topP, minP, repeatPenalty, presencePenalty, frequencyPenalty;
    int topK, penaltyWindow, maxTokens, draftMax, logprobs, priority;
    long seed;
    boolean temperatureFirst;
    float typicalP, topNSigma, xtcProbability, xtcThreshold, temperatureRange, temperatureExponent, mirostatTau, mirostatEta, dryMultiplier, dryBase;
    int dryAllowedLength, dryWindow, noRepeatNgramSize;
    List<int[]> dryBreakers = List.of(), bannedSequences = List.of();
    List<Filter> order = List.of();
    Map<Integer, Float> logitBias = Map.of();
    List<String> stops = List.of();
    Draft draft = Draft.NONE;
    Reasoning reasoning = Reasoning.MODEL;
    Grammar grammar;
    String grammarText = "";
    int grammarKind, reasoningTokens, replyFlags;
    boolean isSampled;
    Model draftModel;

    public Options temperature(double temperature) {
        this.temperature = (float) temperature;
        return sampled();
    }

    public Options topK(int topK) {
        this.topK = topK;
        return sampled();
    }

    public Options topP(double topP) {
        this.topP = (float) topP;
        return sampled();
    }

    public Options minP(double minP) {
        this.minP = (float) minP;
        return sampled();
    }

    public Options repeatPenalty(double repeatPenalty) {
        this.repeatPenalty = (float) repeatPenalty;
        return sampled();
    }

    public Options presencePenalty(double presencePenalty) {
        this.presencePenalty = (float) presencePenalty;
        return sampled();
    }

    public Options frequencyPenalty(double frequencyPenalty) {
        this.frequencyPenalty = (float) frequencyPenalty;
        return sampled();
    }

    /** How many of the last tokens count for penalties; 0: 64. */
    public Options penaltyWindow(int tokens) {
        penaltyWindow = tokens;
        return sampled();
    }

    /** Added to the logits of tokens; negative infinity forbids one. */
    public Options logitBias(Map<Integer, Float> biases) {
        logitBias = Map.copyOf(biases);
        return sampled();
    }

    /** The filters see the distribution that the temperature leaves, which is the order of transformers. */
    public Options temperatureFirst(boolean isFirst) {
        temperatureFirst = isFirst;
        return sampled();
    }

    /** Filters and the temperature in another order than the default one. */
    public Options order(Filter... order) {
        this.order = List.of(order);
        return sampled();
    }

    public Options typicalP(double typicalP) {
        this.typicalP = (float) typicalP;
        return sampled();
    }

    public Options topNSigma(double deviations) {
        topNSigma = (float) deviations;
        return sampled();
    }

    /** With this chance, the tokens of at least the threshold, 0: 0.1, are dropped, but for the least likely of
     *  them. */
    public Options xtc(double probability, double threshold) {
        xtcProbability = (float) probability;
        xtcThreshold = (float) threshold;
        return sampled();
    }

    /** The temperature goes up and down by the range with the entropy, raised to the exponent, 0: 1. */
    public Options temperatureRange(double range, double exponent) {
        temperatureRange = (float) range;
        temperatureExponent = (float) exponent;
        return sampled();
    }

    /** Mirostat 2: the mean surprise in bits, and how much of a difference is corrected, 0: 0.1. */
    public Options mirostat(double tau, double eta) {
        mirostatTau = (float) tau;
        mirostatEta = (float) eta;
        return sampled();
    }

    /** The penalty of a token that goes on with a repetition: 0 in the base, the length and the window are 1.75, 2
     *  and all tokens. */
    public Options dry(double multiplier, double base, int allowedLength, int window, int[]... breakers) {
        dryMultiplier = (float) multiplier;
        dryBase = (float) base;
        dryAllowedLength = allowedLength;
        dryWindow = window;
        dryBreakers = List.of(breakers);
        return sampled();
    }

    /** No sequence of so many tokens comes twice. */
    public Options noRepeatNgramSize(int tokens) {
        noRepeatNgramSize = tokens;
        return sampled();
    }

    /** Sequences of tokens whose last one is not chosen behind the others. */
    public Options bannedSequences(int[]... sequences) {
        bannedSequences = List.of(sequences);
        return sampled();
    }

    public Options seed(long seed) {
        this.seed = seed;
        return sampled();
    }

    public Options maxTokens(int maxTokens) {
        this.maxTokens = maxTokens;
        return this;
    }

    /** The text ends ahead of the first of these, that of a reply in its content. */
    public Options stops(String... stops) {
        this.stops = List.of(stops);
        return this;
    }

    /** How many of the likeliest tokens {@link Generation#logprobs} and {@link
     * Reply#logprobs} tell with each, at most 32. */
    public Options logprobs(int likeliest) {
        logprobs = likeliest;
        return this;
    }

    /** Next tokens are guessed out of the text, up to so many at a time, 0: as many as the library chooses. It
     *  changes nothing but the time. */
    public Options draftLookup(int most) {
        return draft(Draft.LOOKUP, null, most);
    }

    /** Next tokens are guessed by a small model of the same vocabulary, up to so many at a time. It changes nothing
     *  but the time. */
    public Options draftModel(Model model, int most) {
        return draft(Draft.MODEL, model, most);
    }

    /** Next tokens are guessed by a layer of the model itself, which {@link Model.Load#mtp} has loaded. */
    public Options draftMtp(int most) {
        return draft(Draft.MTP, null, most);
    }

    private Options draft(Draft draft, Model model, int most) {
        this.draft = draft;
        draftModel = model;
        draftMax = most;
        return this;
    }

    /** Priority among the jobs of one step: the higher go first; 0 by default. */
    public Options priority(int priority) {
        this.priority = priority;
        return this;
    }

    /** What a text, or the content of a reply, has to be. */
    public Options grammar(Grammar grammar) {
        this.grammar = grammar;
        grammarKind = grammar.number;
        grammarText = grammar.text;
        return this;
    }

    /** The same for a grammar that is compiled for this use alone. */
    public Options grammar(Grammar.Kind kind, String text) {
        grammar = null;
        grammarKind = kind.number(false);
        grammarText = text;
        return this;
    }

    /** JSON of this schema. */
    public Options schema(String schema) {
        return grammar(Grammar.Kind.JSON_SCHEMA, schema);
    }

    /** Whether a reply begins with reasoning. */
    public Options reasoning(Reasoning reasoning) {
        this.reasoning = reasoning;
        return this;
    }

    /** Tokens of reasoning at most, after which the model answers; 0: no bound. */
    public Options reasoningTokens(int most) {
        reasoningTokens = most;
        return this;
    }

    /** What was said of a reply that is given up becomes a message, which may be continued. */
    public Options keep() {
        replyFlags |= Header.RZ_REPLY_KEEP;
        return this;
    }

    /** The reply goes on with the last message, a reply that was cut. */
    public Options continuing() {
        replyFlags |= Header.RZ_REPLY_CONTINUE;
        return this;
    }

    private Options sampled() {
        isSampled = true;
        return this;
    }

    /** How tokens are chosen. */
    @Override
    public String toString() {
        return "temperature " + temperature + ", topK " + topK + ", topP " + topP + ", minP " + minP + ", repeatPenalty " + repeatPenalty
            + ", presencePenalty " + presencePenalty + ", frequencyPenalty " + frequencyPenalty + ", penaltyWindow " + penaltyWindow
            + ", temperatureFirst " + temperatureFirst + ", seed " + seed;
    }
}
