// The options of sampling. The build writes this file: make header.
import CRealizar

/// Choices for tokens; zero switches a part off, so that all zeros choose the most likely token.
public struct Sampling: Sendable, Equatable {
    /// Divides the logits; 0: always the most likely token.
    public var temperature: Float = 0
    /// Keep the k most likely tokens.
    public var topK: UInt32 = 0
    /// Keep the most likely tokens that together reach this probability.
    public var topP: Float = 0
    /// Drop tokens less likely than this share of the likeliest one.
    public var minP: Float = 0
    /// Divides positive logits of recent tokens, multiplies negative ones.
    public var repeatPenalty: Float = 0
    /// Taken from the logit of every recent token.
    public var presencePenalty: Float = 0
    /// Taken from the logit of a recent token as often as it occurred.
    public var frequencyPenalty: Float = 0
    /// Number of the last tokens, including tokens of the prompt, that count as recent; 0: all.
    public var penaltyWindow: UInt32 = 0
    /// The filters see the distribution that the temperature leaves, and keep their default order. What makers
    /// advise for their models, and sampling in transformers, is in this order. Not to be given with order.
    public var temperatureFirst = false
    /// Seed of the random numbers; 0 is one like any other.
    public var seed: UInt64 = 0
    /// Added to the logits of tokens; negative infinity forbids one.
    public var logitBias: [UInt32: Float] = [:]
    /// Keep the tokens whose information is closest to the entropy, until they together reach this probability; 1:
    /// off.
    public var typicalP: Float = 0
    /// Drop logits more than so many standard deviations, of the logits that are left, below the largest.
    public var topNSigma: Float = 0
    /// XTC: chance with which all tokens of at least xtcThreshold are dropped, but the least likely of them.
    public var xtcProbability: Float = 0
    /// Probability from which tokens may be dropped by XTC; 0: 0.1. Beyond 0.5 none is dropped.
    public var xtcThreshold: Float = 0
    /// The temperature is from temperature - this, but not below 0, to temperature + this: the higher, the closer
    /// the entropy is to that of equal probabilities.
    public var temperatureRange: Float = 0
    /// Power to which the entropy's share of that one is raised; 0: 1.
    public var temperatureExponent: Float = 0
    /// Mirostat 2: the surprise, in bits, that tokens are to have in the mean. The draw is among those of no more
    /// than a bound, which begins as twice this and is corrected by each draw.
    public var mirostatTau: Float = 0
    /// How much of its difference a draw corrects; 0: 0.1.
    public var mirostatEta: Float = 0
    /// DRY: where the last n tokens stood before, n being the most there are and at least dryAllowedLength, the
    /// logit of the token that came then is reduced by dryMultiplier * dryBase ^ (n - dryAllowedLength). More than
    /// 4096 count as 4096.
    public var dryMultiplier: Float = 0
    /// Base of the penalty of DRY, at least 1; 0: 1.75.
    public var dryBase: Float = 0
    /// Length from which DRY penalises repetitions; 0: 2.
    public var dryAllowedLength: UInt32 = 0
    /// Number of the last tokens, the prompt's included, among which DRY looks for repetitions; 0: all.
    public var dryWindow: UInt32 = 0
    /// No sequence of so many tokens comes twice in a session, its prompt included: the token that would end one
    /// is not chosen. At most 4096.
    public var noRepeatNgramSize: UInt32 = 0
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
        var params = sizedStruct(rz_sampler_params(), \.struct_size)
        params.temperature = try real(temperature, "temperature")
        params.top_k = topK
        params.top_p = try real(topP, "topP")
        params.min_p = try real(minP, "minP")
        params.repeat_penalty = try real(repeatPenalty, "repeatPenalty")
        params.presence_penalty = try real(presencePenalty, "presencePenalty")
        params.frequency_penalty = try real(frequencyPenalty, "frequencyPenalty")
        params.penalty_window = penaltyWindow
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
        params.dry_allowed_length = dryAllowedLength
        params.dry_window = dryWindow
        params.no_repeat_ngram_size = noRepeatNgramSize
        return params
    }
}
