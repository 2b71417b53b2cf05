// The names of options. The build writes this file: make header.
"use strict";

module.exports = {
  runtime: ["threads", "memoryLimit"],
  load: ["device", "deterministic", "mmap", "textOnly", "mtp", "allowUnknown", "bf16Products", "gpuLayers",
  "quantize", "mixedPrefillTokens", "expertsCopiedFrom"],
  sampling: ["temperature", "topK", "topP", "minP", "repeatPenalty", "presencePenalty", "frequencyPenalty",
  "penaltyWindow", "temperatureFirst", "seed", "biases", "typicalP", "topNSigma", "xtcProbability", "xtcThreshold",
  "temperatureRange", "temperatureExponent", "mirostatTau", "mirostatEta", "dryMultiplier", "dryBase",
  "dryAllowedLength", "dryWindow", "noRepeatNgramSize", "dryBreakers", "bannedSequences", "order"],
  cache: ["capacity", "kType", "vType"],
  encoder: ["device", "quantize", "maxRows"],
  media: ["minRows", "maxRows", "maxTiles", "maxPixels", "background"],
  job: ["maxTokens", "draftMax", "priority"],
  store: ["minTokens", "memoryLimit", "maxEntries", "diskLimit"],
  reply: ["maxTokens", "keep", "continue", "reasoning", "reasoningTokens", "draftMax", "logprobs", "priority"],
  embed: ["pooling", "raw"],
};
