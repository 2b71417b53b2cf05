//! Encoders of pictures in the tests' data: files, a model for them, pictures, and the distance of rows from those of
//! an implementation in 64-bit floats (`data/README.md`). Weights and pictures follow from names and sizes.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use realizar::engine::{Encoder, EncoderParams, Model};
use realizar::error::Error;
use realizar::media::{Picture, PixelFormat, Pixels, WHITE};
use realizar::quant;
use serde_json::Value;

use super::gguf::Gguf;
use super::models;
use super::published::{Tensor, numbers, put_weights, weights, with_key};
use super::safetensors::Folder;

/// A template that knows pictures, as Qwen's does.
pub const TEMPLATE: &str = "{% for m in messages %}<|im_start|>{{ m.role }}{% if m.content is string %}{{ m.content }}\
    {% else %}{% for p in m.content %}{% if p.type == 'image' %}<|vision_start|><|image_pad|><|vision_end|>\
    {% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}";

pub const FAMILIES: &[&str] = &[
    "idefics3",
    "gemma3",
    "llava",
    "llava_siglip",
    "internvl",
    "qwen2",
    "qwen25",
    "qwen3",
    "qwen35",
    "pixtral",
    "mistral3",
    "gemma4",
    "gemma4-31b",
    "gemma4-12b",
    "lfm2",
    "lightonocr",
    "glm4v",
    "paddleocr",
    "llava16",
    "llama4",
    "minicpm",
    "kimi_vl",
    "kimi_k25",
    "dots",
    "glm5_next",
];
/// Width of the embeddings of the tests' model.
pub const HIDDEN: u64 = 64;

/// Width of the embeddings of a family's model: the heads of MiniCPM-V's queries have 128 numbers.
pub fn hidden(family: &str) -> u64 {
    if family == "minicpm" { 128 } else { HIDDEN }
}

pub fn data(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/vision/{name}.json"));
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// A model with a vocabulary of control tokens, bytes, and two line breaks, for a family: of two layers, after which
/// rows enter again, for Qwen 3.
pub fn model(folder: &Path, family: &str, hidden: u64) -> Arc<Model> {
    model_with(folder, family, hidden, &[], TEMPLATE)
}

/// `model` with more control tokens after its vocabulary, and another template.
pub fn model_with(folder: &Path, family: &str, hidden: u64, more: &[&str], template: &str) -> Arc<Model> {
    let vocabulary: Vec<String> = serde_json::from_value(data("vocabulary")).unwrap();
    let is_control = |i: usize| {
        let is_named = |token: &String| token.len() > 2 && token.starts_with(['<', '[']);
        vocabulary.get(i).is_none_or(is_named)
    };
    let tokens: Vec<&str> = vocabulary.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let kinds: Vec<i32> = (0..tokens.len()).map(|i| if is_control(i) { 3 } else { 1 }).collect();
    let n = tokens.len() as u64;
    let (arch, layers) = if family == "qwen3" { ("qwen3vl", 2) } else { ("llama", 1) };
    let key = |name: &str| format!("{arch}.{name}");
    let mut file = Gguf::new()
        .key("general.architecture", arch)
        .key(&key("context_length"), 64u32)
        .key(&key("embedding_length"), hidden as u32)
        .key(&key("block_count"), layers as u32)
        .key(&key("feed_forward_length"), 32u32)
        .key(&key("attention.head_count"), 4u32)
        .key(&key("attention.layer_norm_rms_epsilon"), 1e-5f32)
        .key("tokenizer.ggml.model", "gpt2")
        .key("tokenizer.ggml.pre", "smollm")
        .key("tokenizer.ggml.tokens", tokens)
        .key("tokenizer.ggml.token_type", kinds)
        .key("tokenizer.ggml.merges", vec!["\u{10a} \u{10a}"])
        .key("tokenizer.chat_template", template);
    let mut shapes = vec![("token_embd".to_owned(), vec![n, hidden]), ("output_norm".to_owned(), vec![hidden])];
    for layer in 0..layers {
        let parts = [("attn_q", hidden), ("attn_k", hidden), ("attn_v", hidden), ("attn_output", hidden)];
        shapes.extend(parts.map(|(part, rows)| (format!("blk.{layer}.{part}"), vec![rows, hidden])));
        shapes.extend(["attn_norm", "ffn_norm"].map(|part| (format!("blk.{layer}.{part}"), vec![hidden])));
        shapes.extend(["ffn_gate", "ffn_up"].map(|part| (format!("blk.{layer}.{part}"), vec![32, hidden])));
        shapes.push((format!("blk.{layer}.ffn_down"), vec![hidden, 32]));
        if arch == "qwen3vl" {
            shapes.extend(["attn_q_norm", "attn_k_norm"].map(|part| (format!("blk.{layer}.{part}"), vec![hidden / 4])));
        }
    }
    if arch == "qwen3vl" {
        file = file.key(&key("n_deepstack_layers"), 2u32).key(&key("rope.dimension_sections"), vec![4u32, 2, 2, 0]);
    }
    for (name, shape) in shapes {
        let name = format!("{name}.weight");
        file = file.tensor(&name, quant::F32.0, &shape, &bytes(&weights(&name, &shape)));
    }
    let path = folder.join("model.gguf");
    fs::write(&path, file.build().0).unwrap();
    models::load(&path)
}

pub fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// The values of a tensor that both forms of a family are made of.
fn base(data: &Value, name: &str) -> Vec<f32> {
    let row = data["base"].as_array().unwrap().iter().find(|row| row[0] == name).unwrap();
    let (scale, offset) = (row[2].as_f64().unwrap(), row[3].as_f64().unwrap());
    weights(name, &numbers(&row[1])).into_iter().map(|x| (offset + scale * f64::from(x)) as f32).collect()
}

/// Name, shape and values of each tensor of a form, by the way from those that it is made of.
pub fn tensors(data: &Value, form: &str) -> Vec<(String, Vec<u64>, Vec<f32>)> {
    let made = |row: &Value| {
        let (name, from) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let (values, shape) = (base(data, from), numbers(&row[3]));
        let (op, n) = row[2].as_str().unwrap().split_once(' ').unwrap_or((row[2].as_str().unwrap(), "0"));
        let values = match op {
            "" => values,
            "less" => values.into_iter().map(|x| x - 1.0).collect(),
            "part" => {
                let (n, part): (usize, usize) = (values.len() / 3, n.parse().unwrap());
                values[part * n..][..n].to_vec()
            }
            // Channels after the pixels of a patch.
            "last" => {
                let rows = if shape.len() == 1 { 1 } else { shape[0] as usize };
                let spots = values.len() / rows / 3;
                let place = |i: usize| (i / spots / 3, i / 3 % spots, i % 3);
                let from = |i: usize| place(i).0 * 3 * spots + place(i).2 * spots + place(i).1;
                (0..values.len()).map(|i| values[from(i)]).collect()
            }
            // Two tables whose vectors alternate.
            "axes" => {
                let (side, width) = (shape[0] as usize, shape[2] as usize);
                let from = |i: usize| (i % 2 * side + i / 2) * width;
                (0..2 * side).flat_map(|i| values[from(i)..][..width].to_vec()).collect()
            }
            // Rows of a head from halves to pairs of neighbors.
            "pairs" => {
                let cols = shape[1] as usize;
                let (rows, head) = (shape[0] as usize, shape[0] as usize / n.parse::<usize>().unwrap());
                let from = |row: usize| row / head * head + row % head / 2 + row % 2 * (head / 2);
                (0..rows).flat_map(|row| values[from(row) * cols..][..cols].to_vec()).collect()
            }
            // Rows of queries and of keys, of whose pairs those that turn by the column stand before the others.
            "apart" => {
                let (rows, cols) = (shape[0] as usize, shape.get(1).map_or(1, |cols| *cols as usize));
                let head = rows / 3 / n.parse::<usize>().unwrap();
                let from = |row: usize| match row % head {
                    _ if row >= rows / 3 * 2 => row,
                    i => row - i + i % (head / 2) / 2 * 4 + i / (head / 2) * 2 + i % 2,
                };
                (0..rows).flat_map(|row| values[from(row) * cols..][..cols].to_vec()).collect()
            }
            // Rows of queries, of keys and of values in one tensor.
            "qkv" => {
                ["q", "k", "v"].iter().flat_map(|part| base(data, &from.replace(".q.", &format!(".{part}.")))).collect()
            }
            "turned" => {
                let side = shape[0] as usize;
                (0..values.len()).map(|i| values[i % side * side + i / side]).collect()
            }
            "frames" => {
                let (second, patch) = (base(data, "v.patch_embd.weight.1"), (shape[3] * shape[4]) as usize);
                let both = values.chunks(patch).zip(second.chunks(patch));
                both.flat_map(|(first, second)| [first, second].concat()).collect()
            }
            other => panic!("{other}"),
        };
        (name.to_owned(), shape, values)
    };
    data[form].as_array().unwrap().iter().map(made).collect()
}

pub fn gguf(data: &Value) -> Gguf {
    let keys = data["keys"].as_object().unwrap();
    let file = keys.iter().fold(Gguf::new(), |file, (name, value)| with_key(file, name, value));
    tensors(data, "gguf")
        .iter()
        .fold(file, |file, (name, shape, values)| file.tensor(name, quant::F32.0, shape, &bytes(values)))
}

/// The folder of CLIP or SigLIP, with the tensors whose names pass.
pub fn tower(data: &Value, has: impl Fn(&str) -> bool) -> Folder {
    let folder = Folder::new(&data["config"].to_string());
    folder.put("preprocessor_config.json", data["pixels"].to_string());
    let made = |row: &Value| {
        let (name, shape) = (row[0].as_str().unwrap().to_owned(), numbers(&row[1]));
        let values = bytes(&weights(&name, &shape));
        (name, "F32", shape, values)
    };
    let all = data["tensors"].as_array().unwrap().iter().map(made);
    let tensors: Vec<Tensor> = all.filter(|tensor| has(&tensor.0)).collect();
    put_weights(&folder.0.path().join("model.safetensors"), &tensors);
    folder
}

/// Width and height of a picture of the data.
pub fn sides(size: &Value) -> [usize; 2] {
    [0, 1].map(|i| size[i].as_u64().unwrap() as usize)
}

/// A picture that follows from its size.
pub fn picture([width, height]: [usize; 2]) -> Picture {
    let mut rgb = Vec::new();
    for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
        for c in 0..3 {
            let spot = if (x / 9 + y / 7) % 5 == 0 { 90 * (c + 1) } else { 0 };
            rgb.push((x * (3 + c) + y * (5 - c) + x * y / (7 + c) % 41 + spot) as u8);
        }
    }
    let pixels = Pixels { format: PixelFormat::Rgb8, width, height, stride: 0, data: &rgb };
    Picture::from_pixels(pixels, WHITE).unwrap()
}

/// The rows of a picture.
pub fn rows(encoder: &Encoder, picture: &Picture) -> Vec<f32> {
    let sizing = encoder.facts().sizing;
    let layout = sizing.layout(picture.width, picture.height).unwrap();
    encoder.encode(sizing.tiles(picture, &layout).unwrap(), &layout, None).unwrap()
}

pub fn load(model: &Arc<Model>, path: &Path) -> Result<Arc<Encoder>, Error> {
    Encoder::load(model, path, EncoderParams::default())
}

/// Root of the mean square difference over the spread of what is expected.
pub fn off(got: &[f32], expected: &[f64]) -> f64 {
    assert_eq!(got.len(), expected.len());
    let n = got.len() as f64;
    let mean = expected.iter().sum::<f64>() / n;
    let spread = expected.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>();
    let differences = got.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b) * (f64::from(*a) - b)).sum::<f64>();
    (differences / spread).sqrt()
}

/// The difference of some rows from those of a case.
pub fn off_case(encoder: &Encoder, rows: &[f32], case: &Value) -> f64 {
    let width = encoder.facts().row_dim;
    assert_eq!(rows.len(), case["n_rows"].as_u64().unwrap() as usize * width);
    let got: Vec<f32> =
        numbers(&case["at"]).into_iter().flat_map(|row| rows[row as usize * width..][..width].to_vec()).collect();
    let expected = case["rows"].as_array().unwrap().iter().flat_map(|row| row.as_array().unwrap());
    off(&got, &expected.map(|x| x.as_f64().unwrap()).collect::<Vec<f64>>())
}
