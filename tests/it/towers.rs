//! CLIP and SigLIP: embeddings of images and texts compared with the reference implementation (`data/README.md`).

use std::sync::Arc;

use realizar::engine::{
    EmbedParams, Encoder, Media, MediaKind, MediaWork, Model, PictureBounds, Pooling, Prompt, PromptPart,
};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::text::Tokenizer;
use serde_json::{Value, json};

use crate::support::models;
use crate::support::published::numbers;
use crate::support::safetensors::Folder;
pub use crate::support::vision::tower as folder;
use crate::vision::{self, data, load, picture, sides};

const MODELS: EmbedParams = EmbedParams { pooling: None, raw: false };

fn open(folder: &Folder) -> Result<(Arc<Model>, Arc<Encoder>)> {
    let model = Model::load(folder.0.path(), models::cpu())?;
    let encoder = load(&model, folder.0.path())?;
    Ok((model, encoder))
}

fn vector(encoder: &Arc<Encoder>, size: &Value) -> Arc<Media> {
    let picture = picture(sides(size));
    let mut work = MediaWork::picture(encoder, picture, PictureBounds::default()).unwrap();
    work.advance(None, None, None).unwrap().unwrap()
}

/// The largest difference; both are vectors of the length 1.
pub fn off(got: &[f32], expected: &Value) -> f64 {
    let expected = expected.as_array().unwrap();
    assert_eq!(got.len(), expected.len());
    got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b.as_f64().unwrap()).abs()).fold(0.0, f64::max)
}

#[test]
fn vectors_are_those_of_the_makers() {
    for family in ["clip", "siglip", "siglip2"] {
        let data = data(family);
        let (model, encoder) = open(&folder(&data, |_| true)).unwrap_or_else(|e| panic!("{family}: {e}"));
        for case in data["pictures"].as_array().unwrap() {
            let vector = vector(&encoder, &case["size"]);
            let error = off(vector.rows(), &case["vector"]);
            println!("{family} {} {error:.1e}", case["size"]);
            assert!(error < 1e-6, "{family} {}: {error:.1e}", case["size"]);
            assert_eq!((vector.kind(), vector.layout().n_tokens()), (MediaKind::Vector, 1));
        }
        let cases = data["texts"].as_array().unwrap();
        let texts: Vec<Vec<u32>> =
            cases.iter().map(|case| numbers(&case["tokens"]).iter().map(|id| *id as u32).collect()).collect();
        let refs: Vec<&[u32]> = texts.iter().map(Vec::as_slice).collect();
        let all = model.embed(&refs, MODELS, None).unwrap();
        let width = all.len() / cases.len();
        assert_eq!(width, encoder.facts().row_dim);
        for (case, got) in cases.iter().zip(all.chunks(width)) {
            let error = off(got, &case["vector"]);
            println!("{family} {} {error:.1e}", case["tokens"]);
            assert!(error < 1e-6, "{family} {}: {error:.1e}", case["tokens"]);
        }
    }
}

#[test]
fn vectors_stand_in_no_prompt_and_are_saved() {
    let (model, encoder) = open(&folder(&data("clip"), |_| true)).unwrap();
    let vector = vector(&encoder, &json!([40, 30]));
    let e = Prompt::new(&model, &[PromptPart::Media(&vector)], false).err().unwrap();
    assert!(matches!(e, Error::Unsupported(_)) && e.to_string().contains("the vector of a picture"), "{e}");
    let back = vision::saved_and_loaded(&model, &vector);
    assert_eq!((back.rows(), back.kind()), (vector.rows(), MediaKind::Vector));
}

#[test]
fn texts_of_siglip_are_filled_up_and_no_longer_than_the_context() {
    let (model, _) = open(&folder(&data("siglip"), |_| true)).unwrap();
    let long: Vec<u32> = (0..11).collect();
    assert!(model.embed(&[&long], MODELS, None).unwrap_err().to_string().contains("11 tokens"));
    let padded = [0, 98, 5, 5, 5, 5, 5, 5, 5, 5];
    let embed = |tokens: &[u32]| model.embed(&[tokens], MODELS, None).unwrap();
    assert_eq!(embed(&[0, 98]), embed(&padded));
    // Without pooling a text has the vectors of its own tokens.
    let none = EmbedParams { pooling: Some(Pooling::None), raw: true };
    assert_eq!(model.embed(&[&[0, 98]], none, None).unwrap().len(), 2 * 48);
}

#[test]
fn towers_that_lack_something_are_refused_by_name() {
    for (family, lacking) in [("clip", "visual_projection.weight"), ("siglip", "vision_model.head.probe")] {
        let e = open(&folder(&data(family), |name| name != lacking)).err().unwrap().to_string();
        let ours = if family == "clip" { "mm.fc.weight" } else { "v.head.probe" };
        assert!(e.contains(ours), "{e}");
    }
    // A text tower of another width than the vectors of pictures.
    let mut clip = data("clip");
    let model = models::load(folder(&clip, |_| true).0.path());
    clip["tensors"].as_array_mut().unwrap().retain(|row| row[0] != "visual_projection.weight");
    clip["tensors"].as_array_mut().unwrap().push(json!(["visual_projection.weight", [20, 48]]));
    let e = load(&model, folder(&clip, |_| true).0.path()).err().unwrap();
    assert!(matches!(e, Error::Mismatch(_)) && e.to_string().contains("a vector has 20 numbers"), "{e}");
    let error = load(&model, folder(&data("siglip"), |_| true).0.path()).err().unwrap().to_string();
    assert!(error.contains("vectors of \"siglip\", which a model of \"clip-text\" does not have"), "{error}");
    let mut siglip = data("siglip");
    siglip["config"]["vision_config"]["vision_use_head"] = json!(false);
    let e = load(&model, folder(&siglip, |_| true).0.path()).err().unwrap().to_string();
    assert!(e.contains("vision_use_head"), "{e}");
    let mut siglip = data("siglip2");
    siglip["pixels"]["patch_size"] = json!(16);
    let e = load(&model, folder(&siglip, |_| true).0.path()).err().unwrap().to_string();
    assert!(e.contains("patch_size"), "{e}");
}

#[test]
fn words_of_clip_end_with_a_suffix() {
    let data = data("clip_tokenizer");
    let folder = Folder::new(r#"{"model_type":"llama"}"#);
    folder.put("tokenizer.json", data["tokenizer"].to_string());
    let tokenizer = Tokenizer::from_metadata(&mut Source::open(folder.0.path(), Access::Map).unwrap().metadata);
    let tokenizer = tokenizer.unwrap();
    for case in data["texts"].as_array().unwrap() {
        let mut tokens = Vec::new();
        tokenizer.encode(case["text"].as_str().unwrap(), true, true, &mut tokens).unwrap();
        let expected: Vec<u32> = numbers(&case["tokens"]).iter().map(|id| *id as u32).collect();
        assert_eq!(tokens, expected, "{}", case["text"]);
    }
}
