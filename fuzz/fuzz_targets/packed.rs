//! A file of packed weights: a byte that chooses the model, a length by which the file is truncated, an offset, then
//! bytes that are XORed with a real file: with its header from byte 8 on, and with its weights from the offset on. The
//! checksums are corrected, so that the code after their validation is reached.
#![no_main]

mod memory;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::{CacheParams, Model, Session};
use realizar::quant;
use realizar::tensor::DType;
use twox_hash::XxHash64;

/// Number of bytes before the weights; number of bytes of the numbers at the beginning, after which their checksum
/// follows; offset of the last number, the checksum of the weights.
const HEAD: usize = 4096;
const NUMBERS: usize = 40;
const OF_WEIGHTS: usize = 32;

/// Model files and the type to which their floats are converted; the second file has types that cannot be quantized to.
const MODELS: [(&[u8], Option<DType>); 9] = {
    let floats = include_bytes!("../seeds/gguf/plain");
    [
        (floats, None),
        (floats, Some(quant::F16)),
        (floats, Some(quant::BF16)),
        (floats, Some(quant::Q4_0)),
        (floats, Some(quant::Q4_1)),
        (floats, Some(quant::Q5_0)),
        (floats, Some(quant::Q5_1)),
        (floats, Some(quant::Q8_0)),
        (include_bytes!("../seeds/gguf/types"), None),
    ]
};

static PATH: LazyLock<PathBuf> = LazyLock::new(|| memory::folder("packed").join("weights.rzpacked"));

fn load(choice: usize) -> Arc<Model> {
    let (file, quantize) = MODELS[choice];
    memory::load_packed(&[("model.gguf", file)], quantize, &PATH).expect("loaded")
}

fn compute(model: &Arc<Model>) -> Vec<u32> {
    let params = CacheParams { capacity: 16, ..Default::default() };
    let mut session = Session::new(model, &params).expect("a session");
    session.prefill(&[1, 2], None).expect("computed");
    session.prefill(&[3], None).expect("computed");
    session.logits().expect("logits").iter().map(|x| x.to_bits()).collect()
}

/// The real file of each model, and the results with it.
static REAL: LazyLock<[(Vec<u8>, Vec<u32>); MODELS.len()]> = LazyLock::new(|| {
    std::array::from_fn(|choice| {
        let _ = fs::remove_file(&*PATH);
        let logits = compute(&load(choice));
        (fs::read(&*PATH).expect("a file"), logits)
    })
});

fuzz_target!(|data: &[u8]| {
    let Some(([choice, cut, at @ ..], over)) = data.split_first_chunk::<4>() else { return };
    let choice = usize::from(*choice) % MODELS.len();
    let (real, logits) = &REAL[choice];
    let at = HEAD + usize::from(u16::from_le_bytes(*at)) % (real.len() - HEAD);
    let mut bytes = real.clone();
    for (place, byte) in (8..NUMBERS).chain(at..real.len()).zip(over) {
        bytes[place] ^= byte;
    }
    bytes.truncate(real.len() - usize::from(*cut));
    let of_weights = XxHash64::oneshot(0, &bytes[HEAD..]);
    bytes[OF_WEIGHTS..NUMBERS].copy_from_slice(&of_weights.to_le_bytes());
    let of_numbers = XxHash64::oneshot(0, &bytes[..NUMBERS]);
    bytes[NUMBERS..][..8].copy_from_slice(&of_numbers.to_le_bytes());
    fs::write(&*PATH, &bytes).expect("written");
    let found = compute(&load(choice));
    // A file that was rejected was written again.
    let is_anew = fs::read(&*PATH).expect("a file") != bytes;
    assert!(!is_anew || found == *logits, "a file was made anew with other weights");
});
