//! Keys and tensors that a file may contain although its network does not use them. Everything else unknown fails the
//! load, because a partially understood file would be computed wrongly.

/// Keys, without the architecture's prefix, that have no effect if the architecture does not read them.
const KEYS: &[(&str, &str)] = &[
    ("vocab_size", "told by the embedding's rows"),
    ("tensor_data_layout", "tells the history of the tensors"),
    ("classifier.output_labels", "names of a classifier's scores"),
    ("rope.scaling.finetuned", "history, unless the architecture reads it"),
    // Some converters write every key, with the defaults of other architectures.
    ("attn_logit_softcapping", "Gemma 2's default"),
    ("final_logit_softcapping", "Gemma 2's default"),
    ("router_logit_softcapping", "Grok's default"),
    ("expert_group_scale", "a default of networks with expert groups"),
    ("token_shift_count", "RWKV's default"),
    ("activation.situ_beta", "a default of one activation"),
    ("deepstack_mapping", "layers that take in images"),
    ("attention.rope_pattern", "a default of layers without rotation"),
    ("attention.indexer.kpool_select_tail", "a default of sparse attention"),
    ("attention.key_length_swa", "twin of attention.key_length for layers with a window"),
    ("attention.value_length_swa", "twin of attention.value_length for layers with a window"),
    ("rope.dimension_count_swa", "twin of rope.dimension_count for layers with a window"),
    ("rope.freq_base_swa", "twin of rope.freq_base for layers with a window"),
    ("expert_used_count", "counts nothing without experts"),
    ("expert_feed_forward_length", "a width of experts, where there are none"),
];

/// Suffixes of tensors that do not affect the logits of networks that do not use them.
const TENSORS: &[(&str, &str)] = &[
    (".input_scale", "range of quantized activations"),
    (".rotary_emb.inv_freq", "frequencies, which the keys tell"),
    ("rope.freqs", "frequencies, which the keys tell"),
];

/// True for a key that has no effect if the architecture does not read it.
pub fn key(key: &str) -> bool {
    KEYS.iter().any(|(name, _)| *name == key)
}

/// True for a tensor that has no effect on logits if the network does not use it.
pub fn tensor(name: &str) -> bool {
    // Classifier heads are used by pooling.
    name.starts_with("cls.") || TENSORS.iter().any(|(ending, _)| name.ends_with(ending))
}
