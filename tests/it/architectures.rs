//! GGUF files of architectures, compared with the logits (or hidden states) of an implementation in 64-bit floats
//! (`data/README.md`). Weights are derived from tensor names.

mod folders;
mod variants;

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use realizar::engine::saved::RestoreParams;
use realizar::engine::{
    CacheParams, EmbedParams, LoadOptions, Model, Pooling, Prompt, PromptPart, Session, decode_batch, media_from_tokens,
};
use realizar::quant;
use realizar::tensor::DType;
use serde_json::Value;

use crate::support::gguf::Gguf;
use crate::support::models;
use crate::support::published::{file_of, numbers, relative_rms};
use crate::support::save::{restored, saved_bytes};

/// The rows of `data` whose results it holds, one after the other, by a model that takes `piece` tokens at a time and
/// keeps what `kv` tells.
fn results(model: &Arc<Model>, data: &Value, kv: DType, piece: usize) -> Vec<f32> {
    let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
    let rows = numbers(&data["rows"]).into_iter().map(|row| row as usize);
    if data["states"].is_array() {
        let params = EmbedParams { pooling: Some(Pooling::None), raw: true };
        let all = model.embed(&[&ids], params, None).unwrap();
        let width = all.len() / ids.len();
        return rows.flat_map(|row| all[row * width..][..width].to_vec()).collect();
    }
    let (mut session, mut at) = begun(model, data, kv);
    let mut got = Vec::new();
    for row in rows {
        ids[at..=row].chunks(piece).for_each(|ids| session.prefill(ids, None).unwrap());
        got.extend_from_slice(session.logits().unwrap());
        at = row + 1;
    }
    got
}

/// The results that `data` holds, row after row.
fn expected(data: &Value) -> Vec<f32> {
    let rows = if data["states"].is_array() { &data["states"] } else { &data["logits"] };
    let row = |row: &Value| row.as_array().unwrap().iter().map(|v| v.as_f64().unwrap() as f32).collect::<Vec<_>>();
    rows.as_array().unwrap().iter().flat_map(row).collect()
}

/// A session that has read the source of `data`, where it has one, and the number of its ids that came with it.
fn begun(model: &Arc<Model>, data: &Value, kv: DType) -> (Session, usize) {
    let source = data["source"].as_array().map_or(0, Vec::len);
    let capacity = if source > 0 { (source + numbers(&data["ids"]).len()) as u32 } else { 320 };
    let mut session = Session::new(model, &CacheParams { capacity, k_type: kv, v_type: kv }).unwrap();
    if source == 0 {
        return (session, 0);
    }
    let tokens: Vec<u32> = numbers(&data["source"]).iter().map(|id| *id as u32).collect();
    let media = media_from_tokens(model, &tokens, None).unwrap();
    let prompt = Prompt::new(model, &[PromptPart::Media(&media)], false).unwrap();
    assert_eq!((prompt.tokens().len(), prompt.tokens()[source]), (source + 1, numbers(&data["ids"])[0] as u32));
    session.prefill_prompt(&prompt, 0, None).unwrap();
    (session, 1)
}

/// The name, the data and the file of each architecture, written to a folder.
pub fn files(folder: &Path) -> Vec<(String, Value, PathBuf)> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures");
    let file = |entry: DirEntry| {
        let path = entry.path();
        let data: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let file = file_of(&data);
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let gguf = folder.join(format!("{name}.gguf"));
        fs::write(&gguf, file.build().0).unwrap();
        (name, data, gguf)
    };
    fs::read_dir(data).unwrap().map(|entry| file(entry.unwrap())).collect()
}

#[test]
fn architectures_give_the_results_of_another_implementation() {
    let folder = tempfile::tempdir().unwrap();
    let mut n = 0;
    for (name, data, gguf) in files(folder.path()) {
        let expected = expected(&data);
        // What is rounded may choose other experts, and other positions.
        let rounded = [(None, quant::F16, 0.5), (None, quant::Q8_0, 0.5), (Some(quant::Q8_0), quant::F32, 0.5)];
        for (quantize, kv, limit) in [(None, quant::F32, 1e-5)].into_iter().chain(rounded) {
            let model = Model::load(&gguf, LoadOptions { device: 1, quantize, ..Default::default() }).unwrap();
            let [single, many] = [1, 64].map(|piece| results(&model, &data, kv, piece));
            let error = relative_rms(&single, &expected);
            println!("{name:20} {quantize:?} {kv:?} {error:.1e}");
            assert!(error < limit, "{name}, matrices of type {quantize:?}, {kv:?}: {error:.1e}");
            assert!(single == many, "{name}, matrices of type {quantize:?}, {kv:?}: tokens one by one");
        }
        n += 1;
    }
    assert!(n >= 39);
}

/// The oracle is a session that computes all tokens at once.
#[test]
fn architectures_go_on_after_forks_rewinds_and_saves_and_beside_others() {
    let folder = tempfile::tempdir().unwrap();
    for (name, data, gguf) in files(folder.path()).into_iter().filter(|(_, data, _)| data["logits"].is_array()) {
        let model = models::load(&gguf);
        let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
        let read = |mut session: Session, ids: &[u32]| {
            session.prefill(ids, None).unwrap();
            session
        };
        let at = |n: usize| {
            let (session, read_so_far) = begun(&model, &data, quant::F32);
            read(session, &ids[read_so_far..n])
        };
        let logits = |session: &Session| session.logits().unwrap().to_vec();
        let (whole, half) = (logits(&at(ids.len())), at(30));
        let mut back = read(half.fork().unwrap(), &ids[30..41]);
        let source = half.len() as u32 - 30;
        back.truncate(source + 25).unwrap();
        let saved = restored(&model, &RestoreParams::default(), &saved_bytes(&half)).unwrap();
        for (session, from) in [(half.fork().unwrap(), 30), (back, 25), (saved, 30)] {
            assert!(logits(&read(session, &ids[from..])) == whole, "{name} from {from}");
        }
        let (mut a, mut b) = (half.fork().unwrap(), at(17));
        let tokens = [ids[30], ids[17]];
        decode_batch(&mut [&mut a, &mut b], &tokens, &mut [None, None], &mut [0; 2]).unwrap();
        assert!(logits(&a) == logits(&at(31)) && logits(&b) == logits(&at(18)), "{name} beside another");
    }
}

#[test]
fn networks_of_diffusion_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["dream", "llada", "llada-moe", "rnd1"] {
        let gguf = folder.path().join("model.gguf");
        fs::write(&gguf, Gguf::new().key("general.architecture", name).build().0).unwrap();
        let error = Model::load(&gguf, models::cpu()).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains("diffusion"), "{error}");
    }
}
