//! GGUF files of adapters.

use super::adapters::Factors;
use super::gguf::Gguf;
use realizar::quant;
use realizar::tensor::DType;

/// A GGUF file of an adapter.
pub fn gguf(architecture: &str, adapter: &[Factors], alpha: f32, dtype: DType) -> Gguf {
    let file = Gguf::new()
        .key("general.type", "adapter")
        .key("general.architecture", architecture)
        .key("adapter.type", "lora")
        .key("adapter.lora.alpha", alpha);
    adapter.iter().fold(file, |file, factors| {
        let tensor = |file: Gguf, ending: &str, dims: [usize; 2], values: &[f32]| {
            let mut bytes = vec![0; values.len() * quant::format(dtype).unwrap().block_bytes];
            quant::quantize(dtype, values, &mut bytes).unwrap();
            file.tensor(&format!("{}.{ending}", factors.name), dtype.0, &dims.map(|d| d as u64), &bytes)
        };
        let file = tensor(file, "lora_a", [factors.rank, factors.cols], &factors.a);
        tensor(file, "lora_b", [factors.b.len() / factors.rank, factors.rank], &factors.b)
    })
}
