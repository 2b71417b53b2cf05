// The options of sampling. The build writes this file: make header.
import CRealizar

/// Choices for tokens; zero switches a part off, so that all zeros choose the most likely token.
public struct Sampling: Sendable, Equatable {
    /// Divides the logits; 0: always the most likely token.
    public var temperature: Float = 0
    /// Keep the k most likely tokens.
    public var topK = 0
    /// Keep the most likely tokens that together reach this probability.
    public var topP: Float = 0
    /// Drop tokens whose probability is below this fraction of the most likely token's.
    public var minP: Float = 0
    /// Divides positive logits of recent tokens, multiplies negative ones.
    public var repeatPenalty: Float = 0
    /// Subtracted from the logit of every recent token.
    public var presencePenalty: Float = 0
    /// Subtracted from the logit of a recent token once per occurrence.
    public var frequencyPenalty: Float = 0
    /// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
    public var penaltyWindow = 0
    /// The temperature comes before the filters, which keep their default order. Recommendations of models'
    /// authors, and sampling in transformers, use this order. Not together with order.
    public var temperatureFirst = false
    /// Seed of the random number generator; 0 is a seed like any other.
    public var seed: UInt64 = 0
    /// Added to the logits of tokens; negative infinity forbids one.
    public var logitBias: [UInt32: Float] = [:]
    /// Locally typical sampling: keep the tokens whose information is closest to the entropy, until they together
    /// reach this probability; 1: off.
    public var typicalP: Float = 0
    /// Drop logits more than this number of standard deviations (of the remaining logits) below the largest.
    public var topNSigma: Float = 0
    /// XTC: probability with which all tokens of at least xtcThreshold, except the least likely of them, are
    /// dropped.
    public var xtcProbability: Float = 0
    /// Probability from which tokens may be dropped by XTC; 0: 0.1. Beyond 0.5 none is dropped.
    public var xtcThreshold: Float = 0
    /// Dynamic temperature: the temperature rises from temperature - temperatureRange (at least 0) to temperature
    /// + temperatureRange with the entropy of the distribution, relative to the entropy of the uniform
    /// distribution.
    public var temperatureRange: Float = 0
    /// Exponent of the relative entropy for the dynamic temperature; 0: 1.
    public var temperatureExponent: Float = 0
    /// Mirostat 2: target mean surprise of tokens, in bits. The draw is among tokens whose surprise is at most a
    /// bound, which begins at twice this value and is corrected after each draw.
    public var mirostatTau: Float = 0
    /// Mirostat 2: learning rate, the fraction of the error that one draw corrects; 0: 0.1.
    public var mirostatEta: Float = 0
    /// DRY: if the last n tokens occurred before (with the largest such n, at least dryAllowedLength), the logit
    /// of the token that followed there is reduced by dryMultiplier * dryBase ^ (n - dryAllowedLength). n above
    /// 4096 counts as 4096.
    public var dryMultiplier: Float = 0
    /// Base of the penalty of DRY, at least 1; 0: 1.75.
    public var dryBase: Float = 0
    /// Length from which DRY penalizes repetitions; 0: 2.
    public var dryAllowedLength = 0
    /// Number of the last tokens, including the prompt, in which DRY looks for repetitions; 0: all.
    public var dryWindow = 0
    /// No sequence of this number of tokens occurs twice in a session, including the prompt: the token that would
    /// complete one is not chosen. At most 4096.
    public var noRepeatNgramSize = 0
    /// Sequences of tokens across which DRY does not look for repetitions.
    public var dryBreakers: [[UInt32]] = []
    /// Sequences that are never completed: their last token is not chosen after the others.
    public var bannedSequences: [[UInt32]] = []
    /// The order of the filters and the temperature; empty: the default order.
    public var order: [Filter] = []

    public init(temperature: Float = 0, topP: Float = 0, seed: UInt64 = 0) {
        self.temperature = temperature
        self.topP = topP
        self.seed = seed
    }

    /// The numbers as the library takes them.
    func numbers() throws -> rz_sampler_params {
        var params = sizedStruct(rz_sampler_params())
        params.temperature = try real(temperature, "temperature")
        params.top_k = try whole(topK, "topK")
        params.top_p = try real(topP, "topP")
        params.min_p = try real(minP, "minP")
        params.repeat_penalty = try real(repeatPenalty, "repeatPenalty")
        params.presence_penalty = try real(presencePenalty, "presencePenalty")
        params.frequency_penalty = try real(frequencyPenalty, "frequencyPenalty")
        params.penalty_window = try whole(penaltyWindow, "penaltyWindow")
        if temperatureFirst { params.flags |= UInt32(RZ_SAMPLER_TEMPERATURE_FIRST) }
        params.seed = seed
        params.typical_p = try real(typicalP, "typicalP")
        params.top_n_sigma = try real(topNSigma, "topNSigma")
        params.xtc_probability = try real(xtcProbability, "xtcProbability")
        params.xtc_threshold = try real(xtcThreshold, "xtcThreshold")
        params.temperature_range = try real(temperatureRange, "temperatureRange")
        params.temperature_exponent = try real(temperatureExponent, "temperatureExponent")
        params.mirostat_tau = try real(mirostatTau, "mirostatTau")
        params.mirostat_eta = try real(mirostatEta, "mirostatEta")
        params.dry_multiplier = try real(dryMultiplier, "dryMultiplier")
        params.dry_base = try real(dryBase, "dryBase")
        params.dry_allowed_length = try whole(dryAllowedLength, "dryAllowedLength")
        params.dry_window = try whole(dryWindow, "dryWindow")
        params.no_repeat_ngram_size = try whole(noRepeatNgramSize, "noRepeatNgramSize")
        return params
    }
}
