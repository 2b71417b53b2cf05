//! tokenizer.json, a zero byte, and a text that is tokenized.
#![no_main]

mod memory;

use libfuzzer_sys::fuzz_target;

const CONFIG: &[u8] = br#"{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 300, "hidden_size": 16,
    "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "max_position_embeddings": 64, "rms_norm_eps": 1e-5}"#;
/// No tensors.
const WEIGHTS: &[u8] = b"\x02\0\0\0\0\0\0\0{}";

fuzz_target!(|data: &[u8]| {
    let zero = data.iter().position(|&byte| byte == 0).unwrap_or(data.len());
    let (json, text) = (&data[..zero], String::from_utf8_lossy(data.get(zero + 1..).unwrap_or_default()));
    let files = [("config.json", CONFIG), ("model.safetensors", WEIGHTS), ("tokenizer.json", json)];
    let Ok(model) = memory::load(&files, true) else { return };
    let Ok(tokenizer) = model.tokenizer() else { return };
    for (special, parse) in [(false, false), (true, true)] {
        let mut ids = Vec::new();
        let _ = tokenizer.encode(&text, special, parse, &mut ids);
        let _ = tokenizer.decode(&ids, true);
    }
});
