package realizar;

import java.util.List;
import java.util.Map;

/** Choices for a generation. Numbers of zero stand for the defaults: the likeliest token, as many as there is room for. */
public final class Options {
    /** The sources of drafts, in the order of the library's numbers from 0. */
    enum Draft { NONE, LOOKUP, MODEL, MTP }

    float temperature, topP, minP, repeatPenalty, presencePenalty, frequencyPenalty;
    int topK, penaltyWindow, maxTokens, draftMax, logprobs;
    long seed;
    boolean temperatureFirst;
    Map<Integer, Float> logitBias = Map.of();
    List<String> stops = List.of();
    Draft draft = Draft.NONE;
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

    public Options presencePenalty(double presencePenalty) {
        this.presencePenalty = (float) presencePenalty;
        return this;
    }

    public Options frequencyPenalty(double frequencyPenalty) {
        this.frequencyPenalty = (float) frequencyPenalty;
        return this;
    }

    /** How many of the last tokens count for penalties; 0: 64. */
    public Options penaltyWindow(int tokens) {
        penaltyWindow = tokens;
        return this;
    }

    /** Added to the logits of tokens; negative infinity forbids one. */
    public Options logitBias(Map<Integer, Float> biases) {
        logitBias = Map.copyOf(biases);
        return this;
    }

    /** topP and minP see the distribution that the temperature leaves, which is the order of transformers. */
    public Options temperatureFirst(boolean isFirst) {
        temperatureFirst = isFirst;
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

    /** The text ends ahead of the first of these, that of a reply in its content. */
    public Options stops(String... stops) {
        this.stops = List.of(stops);
        return this;
    }

    /** How many of the likeliest tokens {@link Generation#logprobs} tells with each, at most 32. */
    public Options logprobs(int likeliest) {
        logprobs = likeliest;
        return this;
    }

    /** Next tokens are guessed out of the text, up to so many at a time, 0: as many as the library chooses. It changes nothing but the time. */
    public Options draftLookup(int most) {
        return draft(Draft.LOOKUP, null, most);
    }

    /** Next tokens are guessed by a small model of the same vocabulary, up to so many at a time. It changes nothing but the time. */
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

    public Options grammar(Grammar grammar) {
        this.grammar = grammar;
        return this;
    }

    boolean isGreedy() {
        return temperature == 0 && repeatPenalty == 0 && presencePenalty == 0 && frequencyPenalty == 0 && logitBias.isEmpty();
    }

    /** How tokens are chosen. */
    @Override
    public String toString() {
        return "temperature " + temperature + ", topK " + topK + ", topP " + topP + ", minP " + minP + ", repeatPenalty " + repeatPenalty
            + ", presencePenalty " + presencePenalty + ", frequencyPenalty " + frequencyPenalty + ", penaltyWindow " + penaltyWindow
            + ", temperatureFirst " + temperatureFirst + ", seed " + seed;
    }
}
