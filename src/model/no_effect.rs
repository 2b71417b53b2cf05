//! Keys and tensors that a file may hold although its network does not use them. Everything else is refused by name,
//! because a file that is understood in part is computed wrongly.

/// Keys, after the prefix of the architecture, that change no result where the architecture does not read them.
const KEYS: &[(&str, &str)] = &[
    ("vocab_size", "told by the embedding's rows"),
    ("tensor_data_layout", "tells the history of the tensors"),
    ("classifier.output_labels", "names of a classifier's scores"),
    ("rope.scaling.finetuned", "history, unless the architecture reads it"),
    // Savers that leave no key out write the defaults of other architectures.
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

/// Endings of the names of tensors that change no logits of a network that does not use them.
const TENSORS: &[(&str, &str)] = &[
    (".input_scale", "range of quantised activations"),
    (".rotary_emb.inv_freq", "frequencies, which the keys tell"),
    ("rope.freqs", "frequencies, which the keys tell"),
];

/// True for a key that changes no result of an architecture that does not read it.
pub fn key(key: &str) -> bool {
    KEYS.iter().any(|(name, _)| *name == key)
}

/// True for a tensor that changes no logits of a network that does not use it.
pub fn tensor(name: &str) -> bool {
    // Heads of classifiers serve pooling.
    name.starts_with("cls.") || TENSORS.iter().any(|(ending, _)| name.ends_with(ending))
}
