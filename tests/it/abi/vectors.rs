//! Image embeddings, and embeddings of prompts with images, through the C interface, compared with the reference
//! implementation.

use super::host::*;
use super::media::{Medium, Prompt, text};
use super::pictures::{Seer, pixels};
use std::collections::BTreeMap;
use std::ptr::{null, null_mut};

use realizar::ffi::embed::*;
use realizar::ffi::encoder::*;
use realizar::ffi::media::*;
use realizar::ffi::prompt::*;
use realizar::ffi::status::*;
use serde_json::{Value as Json, json};

use crate::support::published::numbers;
use crate::towers::{self, off};
use crate::vision;

fn see(seer: &Seer, size: &Json) -> Medium {
    let sides = vision::sides(size);
    let picture = vision::picture(sides);
    seer.pixels(&pixels(RZ_PIXELS_RGB8, sides.map(|side| side as u32), &picture.rgb), null())
}

#[test]
fn pictures_and_texts_are_compared() {
    let data = vision::data("clip");
    let seer = Seer::at(towers::folder(&data, |_| true).0);
    let info = seer.info();
    assert_eq!((info.kinds, info.row_dim, info.max_rows), (RZ_MEDIA_VECTOR, 24, 1));
    let case = &data["pictures"][1];
    let medium = see(&seer, &case["size"]);
    let told = medium.info();
    assert_eq!((told.kind, told.n_rows, told.n_tokens, told.row_dim), (RZ_MEDIA_VECTOR, 1, 1, 24));
    assert_eq!(seer.measure([70, 45], null()).kind, RZ_MEDIA_VECTOR);
    assert!(off(&medium.rows(), &case["vector"]) < 1e-6);
    let tokens: Vec<u32> = numbers(&data["texts"][0]["tokens"]).iter().map(|id| *id as u32).collect();
    let (mut out, mut n) = ([0f32; 24], 0);
    expect(RZ_OK, |e| unsafe {
        let (start, length) = (tokens.as_ptr(), tokens.len());
        rz_embed_into(seer.model, null(), &start, &length, 1, out.as_mut_ptr(), 24, &mut n, null(), e)
    });
    assert!(n == 24 && off(&out, &data["texts"][0]["vector"]) < 1e-6);
    let mut prompt = null_mut();
    let message =
        expect(RZ_ERR_UNSUPPORTED, |e| unsafe { rz_prompt_new(seer.model, &medium.part(), 1, 0, &mut prompt, e) });
    assert!(message.contains("the vector of a picture"), "{message}");
}

/// The first `n` tokens of the models of pictures as a folder has them.
fn tokenizer(n: usize) -> String {
    let vocabulary: Vec<String> = serde_json::from_value(vision::data("vocabulary")).expect("a list");
    let ids: BTreeMap<&str, usize> = vocabulary[..n].iter().enumerate().map(|(id, t)| (t.as_str(), id)).collect();
    let is_special = |token: &&str| token.len() > 2 && token.starts_with('<');
    let special = ids.iter().filter(|(token, _)| is_special(token));
    let special: Vec<Json> = special.map(|(t, id)| json!({"id": id, "content": t, "special": true})).collect();
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true});
    let model = json!({"type": "BPE", "vocab": ids, "merges": []});
    json!({"added_tokens": special, "pre_tokenizer": bytes, "decoder": bytes, "model": model}).to_string()
}

#[test]
fn prompts_with_pictures_have_the_vectors_of_the_makers() {
    let data = vision::data("qwen3");
    let folder = vision::folder(&data, true);
    folder.put("tokenizer.json", tokenizer(293));
    let seer = Seer::at(folder.0);
    let medium = see(&seer, &data["pictures"][0]["size"]);
    let prompt = Prompt::new(seer.model, &[text(&[9, 8, 20]), medium.part(), text(&[7, 2, 11])]);
    let params = rz_embed_params {
        struct_size: size_of::<rz_embed_params>() as u32,
        pooling: RZ_POOLING_LAST,
        flags: 0,
        reserved: 0,
    };
    let (mut out, mut n) = ([0f32; 64], 0);
    expect(RZ_OK, |e| unsafe {
        rz_embed_prompts_into(seer.model, &params, &prompt.0, 1, out.as_mut_ptr(), 64, &mut n, null(), e)
    });
    let error = off(&out, &vision::data("qwen3_embedding")["vector"]);
    println!("{error:.1e}");
    assert!(error < 1e-6, "{error:.1e}");
}
