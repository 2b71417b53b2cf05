package realizar;

import java.util.List;
import java.util.Map;

/** Sampling parameters. Zero turns a feature off; all zeros choose the most likely token (greedy decoding). Each
 * method sets one and returns the object; a number out of range throws an IllegalArgumentException that names it.
 * The build writes this file: make header. */
public abstract class SamplingOptions<T extends SamplingOptions<T>> {
    /** Whether one of them was given. */
    boolean isSampled;
    float temperature;
    int topK;
    float topP;
    float minP;
    float repeatPenalty;
    float presencePenalty;
    float frequencyPenalty;
    int penaltyWindow;
    boolean temperatureFirst;
    long seed;
    Map<Integer, Float> logitBias = Map.of();
    float typicalP;
    float topNSigma;
    float xtcProbability;
    float xtcThreshold;
    float temperatureRange;
    float temperatureExponent;
    float mirostatTau;
    float mirostatEta;
    float dryMultiplier;
    float dryBase;
    int dryAllowedLength;
    int dryWindow;
    int noRepeatNgramSize;
    List<int[]> dryBreakers = List.of();
    List<int[]> bannedSequences = List.of();
    List<Filter> order = List.of();

    SamplingOptions() {}

    @SuppressWarnings("unchecked")
    final T self() {
        return (T) this;
    }

    private T sampled() {
        isSampled = true;
        return self();
    }

    /** Divides the logits; 0: always the most likely token. */
    public T temperature(double temperature) {
        this.temperature = Native.finite((float) temperature, "temperature");
        return sampled();
    }

    /** Keeps the k most likely tokens. */
    public T topK(int topK) {
        this.topK = Native.whole(topK, "topK");
        return sampled();
    }

    /** Keeps the most likely tokens that together reach this probability. */
    public T topP(double topP) {
        this.topP = Native.finite((float) topP, "topP");
        return sampled();
    }

    /** Drops tokens whose probability is below this fraction of the most likely token's. */
    public T minP(double minP) {
        this.minP = Native.finite((float) minP, "minP");
        return sampled();
    }

    /** Divides positive logits of recent tokens, multiplies negative ones. */
    public T repeatPenalty(double repeatPenalty) {
        this.repeatPenalty = Native.finite((float) repeatPenalty, "repeatPenalty");
        return sampled();
    }

    /** Subtracted from the logit of every recent token. */
    public T presencePenalty(double presencePenalty) {
        this.presencePenalty = Native.finite((float) presencePenalty, "presencePenalty");
        return sampled();
    }

    /** Subtracted from the logit of a recent token once per occurrence. */
    public T frequencyPenalty(double frequencyPenalty) {
        this.frequencyPenalty = Native.finite((float) frequencyPenalty, "frequencyPenalty");
        return sampled();
    }

    /** Number of the last tokens, including tokens of the prompt, that count as recent; 0: all. */
    public T penaltyWindow(int penaltyWindow) {
        this.penaltyWindow = Native.whole(penaltyWindow, "penaltyWindow");
        return sampled();
    }

    /** The temperature comes before the filters, which keep their default order. Recommendations of models'
     * authors, and sampling in transformers, use this order. Not together with order. */
    public T temperatureFirst(boolean temperatureFirst) {
        this.temperatureFirst = temperatureFirst;
        return sampled();
    }

    /** Seed of the random number generator; 0 is a seed like any other. */
    public T seed(long seed) {
        this.seed = seed;
        return sampled();
    }

    /** Added to the logits of tokens; negative infinity forbids a token. */
    public T logitBias(Map<Integer, Float> logitBias) {
        this.logitBias = Native.biases(logitBias, "logitBias");
        return sampled();
    }

    /** Locally typical sampling: keeps the tokens whose information is closest to the entropy, until they together
     * reach this probability; 1: off. */
    public T typicalP(double typicalP) {
        this.typicalP = Native.finite((float) typicalP, "typicalP");
        return sampled();
    }

    /** Drops logits more than this number of standard deviations (of the remaining logits) below the largest. */
    public T topNSigma(double topNSigma) {
        this.topNSigma = Native.finite((float) topNSigma, "topNSigma");
        return sampled();
    }

    /** XTC: probability of a cut. A cut drops all tokens whose probability is at least xtcThreshold, except the
     * least likely one of them. */
    public T xtcProbability(double xtcProbability) {
        this.xtcProbability = Native.finite((float) xtcProbability, "xtcProbability");
        return sampled();
    }

    /** Minimum probability of tokens that XTC may drop; 0: 0.1. Above 0.5 XTC drops no token. */
    public T xtcThreshold(double xtcThreshold) {
        this.xtcThreshold = Native.finite((float) xtcThreshold, "xtcThreshold");
        return sampled();
    }

    /** Dynamic temperature: the temperature rises from temperature - temperatureRange (at least 0) to temperature +
     * temperatureRange with the entropy of the distribution, relative to the entropy of the uniform distribution. */
    public T temperatureRange(double temperatureRange) {
        this.temperatureRange = Native.finite((float) temperatureRange, "temperatureRange");
        return sampled();
    }

    /** Exponent of the relative entropy for the dynamic temperature; 0 means the default, 1. */
    public T temperatureExponent(double temperatureExponent) {
        this.temperatureExponent = Native.finite((float) temperatureExponent, "temperatureExponent");
        return sampled();
    }

    /** Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
     * bound, which begins at twice this value and is corrected after each draw. */
    public T mirostatTau(double mirostatTau) {
        this.mirostatTau = Native.finite((float) mirostatTau, "mirostatTau");
        return sampled();
    }

    /** Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0 means the default, 0.1. */
    public T mirostatEta(double mirostatEta) {
        this.mirostatEta = Native.finite((float) mirostatEta, "mirostatEta");
        return sampled();
    }

    /** DRY: if the last n tokens occurred before (with the largest such n, at least dryAllowedLength), the logit of
     * the token that followed the earlier occurrence is reduced by dryMultiplier * dryBase ^ (n -
     * dryAllowedLength). n above 4096 counts as 4096. */
    public T dryMultiplier(double dryMultiplier) {
        this.dryMultiplier = Native.finite((float) dryMultiplier, "dryMultiplier");
        return sampled();
    }

    /** Base of the DRY penalty, at least 1; 0: 1.75. */
    public T dryBase(double dryBase) {
        this.dryBase = Native.finite((float) dryBase, "dryBase");
        return sampled();
    }

    /** Minimum length of repetitions that DRY penalizes; 0: 2. */
    public T dryAllowedLength(int dryAllowedLength) {
        this.dryAllowedLength = Native.whole(dryAllowedLength, "dryAllowedLength");
        return sampled();
    }

    /** Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all. */
    public T dryWindow(int dryWindow) {
        this.dryWindow = Native.whole(dryWindow, "dryWindow");
        return sampled();
    }

    /** No sequence of this number of tokens occurs twice in the tokens of a cache, including the prompt: the token
     * that would complete such a repetition is not chosen. At most 4096. */
    public T noRepeatNgramSize(int noRepeatNgramSize) {
        this.noRepeatNgramSize = Native.whole(noRepeatNgramSize, "noRepeatNgramSize");
        return sampled();
    }

    /** Sequences of tokens across which DRY does not look for repetitions. */
    public T dryBreakers(int[]... dryBreakers) {
        this.dryBreakers = Native.sequences(dryBreakers, "dryBreakers");
        return sampled();
    }

    /** Token sequences that are never generated: the last token of a sequence is not sampled after the other
     * tokens. */
    public T bannedSequences(int[]... bannedSequences) {
        this.bannedSequences = Native.sequences(bannedSequences, "bannedSequences");
        return sampled();
    }

    /** The order of the filters and the temperature; empty: the default order. */
    public T order(Filter... order) {
        this.order = Native.all("order", order);
        return sampled();
    }

    /** Writes the numbers of the struct. */
    void set(Memory params) {
        Native.set(params, Header.rz_sampler_params, "temperature", temperature);
        Native.set(params, Header.rz_sampler_params, "top_k", topK);
        Native.set(params, Header.rz_sampler_params, "top_p", topP);
        Native.set(params, Header.rz_sampler_params, "min_p", minP);
        Native.set(params, Header.rz_sampler_params, "repeat_penalty", repeatPenalty);
        Native.set(params, Header.rz_sampler_params, "presence_penalty", presencePenalty);
        Native.set(params, Header.rz_sampler_params, "frequency_penalty", frequencyPenalty);
        Native.set(params, Header.rz_sampler_params, "penalty_window", penaltyWindow);
        Native.set(params, Header.rz_sampler_params, "seed", seed);
        Native.set(params, Header.rz_sampler_params, "typical_p", typicalP);
        Native.set(params, Header.rz_sampler_params, "top_n_sigma", topNSigma);
        Native.set(params, Header.rz_sampler_params, "xtc_probability", xtcProbability);
        Native.set(params, Header.rz_sampler_params, "xtc_threshold", xtcThreshold);
        Native.set(params, Header.rz_sampler_params, "temperature_range", temperatureRange);
        Native.set(params, Header.rz_sampler_params, "temperature_exponent", temperatureExponent);
        Native.set(params, Header.rz_sampler_params, "mirostat_tau", mirostatTau);
        Native.set(params, Header.rz_sampler_params, "mirostat_eta", mirostatEta);
        Native.set(params, Header.rz_sampler_params, "dry_multiplier", dryMultiplier);
        Native.set(params, Header.rz_sampler_params, "dry_base", dryBase);
        Native.set(params, Header.rz_sampler_params, "dry_allowed_length", dryAllowedLength);
        Native.set(params, Header.rz_sampler_params, "dry_window", dryWindow);
        Native.set(params, Header.rz_sampler_params, "no_repeat_ngram_size", noRepeatNgramSize);
        Native.set(params, Header.rz_sampler_params, "flags", (temperatureFirst ? Header.RZ_SAMPLER_TEMPERATURE_FIRST : 0));
    }
}
