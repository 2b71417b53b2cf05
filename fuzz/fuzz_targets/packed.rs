//! A file of packed weights: a type that weights are converted to, a length and a place, then what is laid over a real file: its head
//! from byte 8 on and its weights from that place on. Its checksums are right, so that what stands behind them is reached.
#![no_main]

mod memory;

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use realizar::engine::{CacheParams, Model, Session};
use realizar::error::Result;
use realizar::quant;
use realizar::tensor::DType;
use twox_hash::XxHash64;

/// Bytes ahead of the weights; of them those of numbers, and the places of the checksums of the weights and of these numbers.
const HEAD: usize = 4096;
const NUMBERS: usize = 40;
const OF_WEIGHTS: usize = 32;

const TYPES: [DType; 10] = [
    quant::F32,
    quant::F16,
    quant::BF16,
    quant::Q4_0,
    quant::Q4_1,
    quant::Q5_0,
    quant::Q5_1,
    quant::Q8_0,
    quant::IQ4_NL,
    quant::MXFP4,
];

static PATH: LazyLock<PathBuf> = LazyLock::new(|| memory::folder("packed").join("weights.rzpacked"));

fn load(dtype: DType) -> Result<Arc<Model>> {
    memory::load_packed(&[("model.gguf", include_bytes!("../seeds/gguf/f32"))], dtype.0, &PATH)
}

fn compute(model: &Arc<Model>) -> Vec<u32> {
    let params = CacheParams { capacity: 16, ..Default::default() };
    let mut session = Session::new(model, &params).expect("a session");
    session.prefill(&[1, 2], None).expect("computed");
    session.prefill(&[3], None).expect("computed");
    session.logits().expect("logits").iter().map(|x| x.to_bits()).collect()
}

/// For each type that the library converts to the real file, and what is computed with it.
static REAL: LazyLock<Vec<(DType, Vec<u8>, Vec<u32>)>> = LazyLock::new(|| {
    let real = TYPES.map(|dtype| {
        let _ = fs::remove_file(&*PATH);
        let logits = compute(&load(dtype).ok()?);
        Some((dtype, fs::read(&*PATH).expect("a file"), logits))
    });
    real.into_iter().flatten().collect()
});

fuzz_target!(|data: &[u8]| {
    let Some(([dtype, cut, at @ ..], over)) = data.split_first_chunk::<4>() else { return };
    let (dtype, real, logits) = &REAL[usize::from(*dtype) % REAL.len()];
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
    match load(*dtype) {
        Ok(model) => {
            let found = compute(&model);
            // One that was not taken was made anew.
            let is_anew = fs::read(&*PATH).expect("a file") != bytes;
            assert!(!is_anew || found == *logits, "a file was made anew with other weights");
        }
        Err(e) => panic!("{e}"),
    }
});
