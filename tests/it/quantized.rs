//! Quantized folders: the values of matrices in each format, compared with the format's reference reader
//! (`data/quantized/make.py`), and scales and tables that do not fit.

use std::fs;
use std::path::Path;

use realizar::error::Error;
use realizar::format::{Access, Source};
use realizar::quant;
use serde_json::{Value, json};

/// Forms whose owners divide, or multiply a scale by another one first: their values are not bits.
const ROUNDED: &[&str] = &["bnb-int8", "bnb-nf4", "ct-nvfp4", "modelopt-nvfp4", "bitnet-bitlinear", "hqq"];

fn forms() -> serde_json::Map<String, Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/quantized/folders.json");
    serde_json::from_slice::<Value>(&fs::read(path).unwrap()).unwrap().as_object().unwrap().clone()
}

fn base64(text: &str) -> Vec<u8> {
    let digit = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let text = text.trim_end_matches('=').as_bytes();
    let word =
        |four: &[u8]| four.iter().fold(0u32, |word, c| word << 6 | u32::from(digit(*c))) << (6 * (4 - four.len()));
    text.chunks(4).flat_map(|four| word(four).to_be_bytes()[1..four.len()].to_vec()).collect()
}

/// Writes the files of a form, the configuration as `edit` leaves it.
fn write(folder: &Path, form: &Value, edit: impl Fn(&mut Value)) {
    for (name, text) in form["files"].as_object().unwrap() {
        let mut bytes = base64(text.as_str().unwrap());
        if name == "config.json" {
            let mut config = serde_json::from_slice(&bytes).unwrap();
            edit(&mut config);
            bytes = config.to_string().into_bytes();
        }
        fs::write(folder.join(name), bytes).unwrap();
    }
}

/// The values of a tensor in the order of its inputs, times the factor on its products where there is one.
fn values(source: &Source, name: &str) -> Vec<f32> {
    let tensor = source.tensor(name).unwrap_or_else(|| panic!("no {name}"));
    let mut bytes = vec![0; tensor.bytes as usize];
    source.read(tensor, 0, &mut bytes).unwrap();
    let mut values = vec![0.0; tensor.shape.n_elements() as usize];
    quant::dequantize(tensor.dtype, &bytes, &mut values).unwrap();
    if let Some(order) = tensor.order().unwrap() {
        let cols = tensor.shape.cols() as usize;
        let each = values.len() / (order.len() / cols);
        for (rows, order) in values.chunks_mut(each).zip(order.chunks(cols)) {
            for row in rows.chunks_mut(cols) {
                let sorted = row.to_vec();
                order.iter().zip(sorted).for_each(|(input, value)| row[*input as usize] = value);
            }
        }
    }
    if let Some(scale) = source.tensor(&name.replace(".weight", ".scale")) {
        let mut factors = vec![0; scale.bytes as usize];
        source.read(scale, 0, &mut factors).unwrap();
        let n = values.len() / (factors.len() / 4);
        for (values, factor) in values.chunks_mut(n).zip(factors.as_chunks().0) {
            values.iter_mut().for_each(|value| *value *= f32::from_le_bytes(*factor));
        }
    }
    values
}

fn fnv1a(values: &[f32]) -> u64 {
    let bytes = values.iter().flat_map(|v| v.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[test]
fn matrices_have_their_owners_values() {
    let mut exact = 0;
    for (form, data) in forms() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &data, |_| {});
        let source = Source::open(folder.path(), Access::Read).unwrap_or_else(|e| panic!("{form}: {e}"));
        for (name, expected) in data["values"].as_object().unwrap() {
            let (ours, expert) = match name.split('.').collect::<Vec<_>>()[..] {
                ["model", "layers", layer, "self_attn", ..] => (format!("blk.{layer}.attn_q.weight"), None),
                ["model", "layers", layer, _, _, expert, ..] => {
                    (format!("blk.{layer}.ffn_down_exps.weight"), Some(expert.parse::<usize>().unwrap()))
                }
                _ => panic!("{name}"),
            };
            let mut found = values(&source, &ours);
            if let Some(expert) = expert {
                let n = found.len() / 2;
                found = found[n * expert..n * (expert + 1)].to_vec();
            }
            if format!("{:016x}", fnv1a(&found)) == expected["hash"] {
                exact += 1;
                continue;
            }
            let samples = expected["samples"].as_array().unwrap().iter().map(|x| x.as_f64().unwrap());
            let largest = found.iter().fold(0f32, |max, v| max.max(v.abs()));
            for (found, expected) in found.iter().step_by(found.len() / 16).zip(samples) {
                let error = (f64::from(*found) - expected).abs() / f64::from(largest);
                assert!(error < 2e-7, "{form}, {name}: {found}, {expected} expected");
            }
            assert!(ROUNDED.iter().any(|rounded| form.starts_with(rounded)), "{form}, {name}: other bits");
        }
    }
    assert!(exact > 100, "{exact}");
}

/// A part of a matrix with other rows than its codes, of another type, left out, or without sense.
#[test]
fn companions_that_do_not_fit_are_refused_by_name() {
    let forms = forms();
    let parts = |form: &str| -> Vec<String> {
        let bytes = base64(forms[form]["files"]["model.safetensors"].as_str().unwrap());
        let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
        header.as_object().unwrap().keys().filter(|name| name.contains("q_proj")).cloned().collect()
    };
    let mut n = 0;
    for form in forms.keys() {
        let parts = parts(form);
        for part in parts.iter().filter(|_| parts.len() > 1) {
            // How another program rounds activations, what repeats the configuration or need not be there.
            let unused = ["input_", "activation_", "weight_format", "channel_wise", "packing", "dtype", "optimize"];
            let repeats = ["round_zero", "stores_", "encoded_", "offload", "zero_point"];
            let repeats = repeats.iter().chain(["g_idx"].iter().filter(|_| !form.contains("act")));
            if unused.iter().chain(repeats).any(|word| part.contains(word)) {
                continue;
            }
            for damage in ["missing", "type", "rows"] {
                let folder = tempfile::tempdir().unwrap();
                write(folder.path(), &forms[form], |_| {});
                // Bytes whose type and shape another tensor tells, single numbers, and lists.
                let is_free = part.ends_with(".weight") && form.starts_with("bnb-") && form != "bnb-int8";
                let is_list = ["quant_", "scale_2", "global_scale", "shape"].iter().any(|word| part.contains(word));
                let mut is_same = damage == "type" && (is_free || part.contains("quant_state"));
                edit_header(&folder.path().join("model.safetensors"), |header| {
                    let entry = header.get_mut(part).unwrap();
                    let shape = entry["shape"].as_array().unwrap().clone();
                    match damage {
                        // Under a name that no format has.
                        "missing" => {
                            let entry = header.remove(part).unwrap();
                            header.insert("model.norm.weight.of_another".into(), entry);
                        }
                        // One that takes as many bytes.
                        "type" => {
                            entry["dtype"] = json!(match entry["dtype"].as_str().unwrap() {
                                "F16" | "BF16" => "I16",
                                "F32" => "I32",
                                "I32" | "U32" => "F32",
                                "I64" => "F64",
                                _ => "F8_E5M2",
                            });
                        }
                        _ => {
                            // A stack of one under the one scale of all is a matrix.
                            is_same |= is_free || is_list || shape.is_empty() || form == "fp8-static";
                            entry["shape"] = json!([vec![json!(1)], shape].concat());
                        }
                    }
                });
                if is_same {
                    continue;
                }
                // A part that is left alone keeps its name, by which it is rejected where the network is made.
                let opened = Source::open(folder.path(), Access::Read).and_then(|source| {
                    source.passed().check("")?;
                    let left = source.tensors().find(|tensor| tensor.name.starts_with("model."));
                    left.map_or(Ok(()), |left| Err(Error::unsupported(left.name.clone())))
                });
                n += 1;
                match opened {
                    Err(e) if e.to_string().contains("q_proj") => {}
                    other => assert!(damage == "missing" && other.is_err(), "{form}, {part} {damage}: {other:?}"),
                }
            }
        }
    }
    assert!(n > 200, "{n}");
}

/// Changes the list of tensors of a file.
fn edit_header(path: &Path, edit: impl FnOnce(&mut serde_json::Map<String, Value>)) {
    let bytes = fs::read(path).unwrap();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let mut header: Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
    edit(header.as_object_mut().unwrap());
    let header = header.to_string();
    fs::write(path, [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &bytes[8 + n..]].concat()).unwrap();
}

/// Changes the bytes of a tensor of a file.
fn overwrite(path: &Path, name: &str, edit: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    let n = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let header: Value = serde_json::from_slice(&bytes[8..8 + n]).unwrap();
    let [from, to] = [0, 1].map(|i| 8 + n + header[name]["data_offsets"][i].as_u64().unwrap() as usize);
    edit(&mut bytes[from..to]);
    fs::write(path, bytes).unwrap();
}

/// Zeros of the second version in folders that name the first one: symmetric codes tell them apart.
#[test]
fn zeros_of_the_second_version_are_known_by_their_values() {
    let forms = forms();
    for (form, bits) in [("gptq-3", 3), ("gptq-4-desc-act", 4), ("gptq-4-channel", 4)] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &forms[form], |_| {});
        let path = folder.path().join("model.safetensors");
        let all = || {
            let source = Source::open(folder.path(), Access::Read).unwrap();
            values(&source, "blk.0.attn_q.weight")
        };
        let expected = all();
        overwrite(&path, "model.layers.0.self_attn.q_proj.qzeros", |bytes| {
            let middle = |bit: usize| u8::from(bit % bits == bits - 1);
            // Eight codes a group in a word or less, after which there may be others.
            for group in bytes.chunks_mut(4) {
                for (i, byte) in group.iter_mut().enumerate() {
                    *byte = (0..8).filter(|bit| 8 * i + bit < 8 * bits).map(|bit| middle(8 * i + bit) << bit).sum();
                }
            }
        });
        assert!(all() == expected, "{form}");
    }
}

/// Groups that there are not, and groups of unequal sizes.
#[test]
fn orders_that_are_none_are_refused_by_name() {
    let forms = forms();
    for (form, part) in [("gptq-4-desc-act", "g_idx"), ("ct-w4a16-asym-actorder", "weight_g_idx")] {
        for (at, value) in [(0, Some(6)), (5, Some(-1)), (191, Some(i32::MIN)), (7, None)] {
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), &forms[form], |_| {});
            let name = format!("model.layers.0.self_attn.q_proj.{part}");
            let mut other = 0;
            overwrite(&folder.path().join("model.safetensors"), &name, |bytes| {
                let group = &mut bytes.as_chunks_mut::<4>().0[at];
                other = (i32::from_le_bytes(*group) + 1) % 6;
                *group = value.unwrap_or(other).to_le_bytes();
            });
            let said = Source::open(folder.path(), Access::Read).map(|_| ()).unwrap_err().to_string();
            let expected = match value {
                Some(value) => format!("holds {value} at {at}, which is no group"),
                None => format!("puts more inputs than 32 into group {other}"),
            };
            assert!(said.contains(&name) && said.contains(&expected), "{form}: {said}");
        }
    }
}

#[test]
fn a_weight_beside_its_codes_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &forms()["gptq-4-asym"], |_| {});
    let prefix = "model.layers.0.self_attn.q_proj.";
    edit_header(&folder.path().join("model.safetensors"), |header| {
        let entry = header.remove(&format!("{prefix}g_idx")).unwrap();
        header.insert(format!("{prefix}weight"), entry);
    });
    let said = Source::open(folder.path(), Access::Read).map(|_| ()).unwrap_err().to_string();
    assert!(said.contains(&format!("{prefix}weight\" is there beside its codes")), "{said}");
}

#[test]
fn scales_that_are_no_numbers_are_refused_by_name() {
    let forms = forms();
    for (form, part, value) in [
        ("mlx-4bit", "q_proj.scales", [0xc0, 0x7f].as_slice()),
        ("mlx-4bit", "q_proj.biases", &[0x80, 0xff]),
        ("mlx-mxfp4", "q_proj.scales", &[255]),
        ("mlx-nvfp4", "q_proj.scales", &[0x7f]),
        ("awq-gemm", "q_proj.scales", &[0, 0x7c]),
        ("gptq-3", "q_proj.scales", &[0, 0xfe]),
        ("ct-mxfp8", "q_proj.weight_scale", &[255]),
        ("fp8-block", "q_proj.weight_scale_inv", &[0, 0, 0xc0, 0x7f]),
        ("bnb-nf4", "q_proj.weight.nested_absmax", &[0, 0, 0x80, 0x7f]),
        ("hqq-4", "q_proj.zero", &[0, 0x7e]),
        ("bitnet-bitlinear", "q_proj.weight_scale", &[0, 0]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &forms[form], |_| {});
        let name = format!("model.layers.0.self_attn.{part}");
        overwrite(&folder.path().join("model.safetensors"), &name, |bytes| bytes[..value.len()].copy_from_slice(value));
        let read = Source::open(folder.path(), Access::Read).and_then(|source| {
            let tensor = source.tensor("blk.0.attn_q.weight").unwrap();
            source.read(tensor, 0, &mut vec![0; tensor.bytes as usize])
        });
        let said = read.unwrap_err().to_string();
        assert!(said.contains(&name) && said.contains(" at 0"), "{form}: {said}");
    }
}

#[test]
fn configurations_that_contradict_their_tensors_are_refused() {
    let forms = forms();
    type Edit = fn(&mut Value);
    let cases: &[(&str, Edit, &str)] = &[
        ("mlx-4bit", |c| c["quantization"]["bits"] = json!(8), "q_proj.weight"),
        ("mlx-4bit", |c| c["quantization"]["group_size"] = json!(32), "q_proj.weight"),
        ("mlx-4bit", |c| c["quantization"]["model.layers.0.self_attn.q_proj"] = json!(false), "q_proj"),
        ("mlx-mxfp4", |c| c["quantization"]["mode"] = json!("mxfp9"), "mxfp9"),
        ("awq-gemm", |c| c["quantization_config"]["bits"] = json!(3), "\"bits\" with the value 3"),
        ("awq-gemm", |c| c["quantization_config"]["version"] = json!("gemv_fast"), "gemv_fast"),
        ("awq-gemm", |c| c["quantization_config"]["group_size"] = json!(64), "q_proj.scales"),
        ("gptq-3", |c| c["quantization_config"]["checkpoint_format"] = json!("gptq_p"), "gptq_p"),
        ("gptq-3", |c| c["quantization_config"]["bits"] = json!(4), "q_proj.qweight"),
        ("gptq-4-desc-act", |c| c["quantization_config"]["group_size"] = json!(64), "q_proj.scales"),
        (
            "ct-w4a16-asym",
            |c| c["quantization_config"]["config_groups"]["group_0"]["weights"]["num_bits"] = json!(8),
            "q_proj",
        ),
        ("ct-w4a16-asym", |c| c["quantization_config"]["transform_config"] = json!({"R1": {}}), "transform_config"),
        ("quark-int8", |c| c["quantization_config"]["global_quant_config"]["weight"]["dtype"] = json!("int2"), "quark"),
        ("bitnet", |c| c["quantization_config"]["linear_class"] = json!("other"), "linear_class"),
        ("bitnet", |c| c["quantization_config"]["quant_method"] = json!("vptq"), "vptq"),
    ];
    for (form, edit, words) in cases {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), &forms[*form], edit);
        let said = Source::open(folder.path(), Access::Read).map(|_| ()).unwrap_err().to_string();
        assert!(said.contains(words), "{form}: {said}");
    }
}
