//! Images in conversations: tokens compared with the reference processors, with the published templates
//! (`data/README.md`).

use std::fs;
use std::sync::Arc;

use realizar::engine::{MEDIA_ROW, Media, MediaWork, PictureBounds, Prompt};
use realizar::text::Chat;
use serde_json::{Value, json};

use crate::support::published::numbers;
use crate::vision::{data, gguf, load, model_with, picture, set, sides};

const OMNI: &str = "qwen2.5o";

/// What templates write for a picture. Kimi's, Qwen's and that of dots.ocr are in `chats.json`.
const WRITTEN: [(&str, &str); 14] = [
    ("idefics3", "<image>"),
    ("gemma3", "<start_of_image>"),
    ("llava", "<image>"),
    ("internvl", "<IMG_CONTEXT>"),
    ("qwen3", "<|vision_start|><|image_pad|><|vision_end|>"),
    ("pixtral", "[IMG]"),
    ("mistral3", "[IMG]"),
    ("gemma4", "<|image|>"),
    ("lfm2", "<image>"),
    ("lightonocr", "<|image_pad|>"),
    ("glm4v", "<|begin_of_image|><|image|><|end_of_image|>"),
    ("glm5_next", "<|begin_of_image|><|image|><|end_of_image|>"),
    ("paddleocr", "<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>"),
    ("llama4", "<|image|>"),
];

/// The tokens of conversations with pictures of some sizes, by a model of a family with a template.
fn tokens(family: &str, more: &[&str], template: &str, sizes: &[Value], chats: &[&Value]) -> Vec<Vec<u32>> {
    let at = tempfile::tempdir().unwrap();
    let model = model_with(at.path(), family, 64, more, template);
    let path = at.path().join("mmproj.gguf");
    // The encoder of Qwen2.5-Omni is that of Qwen2.5-VL.
    let mut file = gguf(&data(if family == OMNI { "qwen25" } else { family }));
    if family == OMNI {
        set(&mut file, "clip.projector_type", OMNI);
    }
    fs::write(&path, file.build().0).unwrap();
    let encoder = load(&model, &path).unwrap();
    let medium = |size: &Value| -> Arc<Media> {
        let mut work = MediaWork::picture(&encoder, picture(sides(size)), PictureBounds::default()).unwrap();
        work.advance(None, None, None).unwrap().unwrap()
    };
    let media: Vec<_> = sizes.iter().map(medium).collect();
    let tokens = |messages: &&Value| {
        let mut messages = (*messages).clone();
        let contents = messages.as_array_mut().unwrap().iter_mut().filter_map(|m| m["content"].as_array_mut());
        let pictures = contents.flatten().filter(|part| part["type"] == "image");
        let n = pictures.enumerate().map(|(i, part)| part["media"] = json!(i)).count();
        let chat = Chat::parse_with_media(&json!({"messages": messages}).to_string(), true, Some(n)).unwrap();
        Prompt::of_chat(&model, &chat, &media[..n], &[]).unwrap().tokens().to_vec()
    };
    chats.iter().map(tokens).collect()
}

#[test]
fn conversations_with_pictures_have_the_tokens_of_the_makers() {
    let all = data("chats");
    for (family, case) in all.as_object().unwrap() {
        let list = |name: &str| case[name].as_array().unwrap();
        let more: Vec<&str> = list("tokens").iter().map(|token| token.as_str().unwrap()).collect();
        let chats: Vec<&Value> = list("chats").iter().map(|chat| &chat["messages"]).collect();
        let made = tokens(family, &more, case["template"].as_str().unwrap(), list("sizes"), &chats);
        for (made, chat) in made.iter().zip(list("chats")) {
            let id = |id: &Value| id.as_i64().unwrap().try_into().unwrap_or(MEDIA_ROW);
            let expected: Vec<u32> = chat["tokens"].as_array().unwrap().iter().map(id).collect();
            assert_eq!(*made, expected, "{family} {}", chat["messages"]);
        }
    }
}

/// A template writes some or none of the tokens around rows, which stand there once.
#[test]
fn placeholders_of_all_templates_are_found() {
    for (family, written) in WRITTEN {
        let template = format!(
            "{{% for m in messages %}}{{% for p in m.content %}}{{% if p.type == 'image' %}}{written}{{% else %}}\
             {{{{ p.text }}}}{{% endif %}}{{% endfor %}}{{% endfor %}}"
        );
        let case = &data(family)["pictures"][0];
        let text = |text: &str| json!({"type": "text", "text": text});
        let content = json!([{"role": "user", "content": [text("a"), {"type": "image"}, text("b")]}]);
        let made = tokens(family, &[], &template, &[case["size"].clone()], &[&content]).remove(0);
        let runs = case["runs"].as_array().unwrap().iter().flat_map(|run| match run.as_u64() {
            Some(n) => vec![MEDIA_ROW; n as usize],
            None => numbers(run).iter().map(|id| *id as u32).collect(),
        });
        let expected: Vec<u32> = runs.collect();
        assert_eq!(made[1..made.len() - 1], expected, "{family}");
    }
}
