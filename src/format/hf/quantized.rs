//! Quantized folders: their formats, and matrices whose codes, scales and offsets are separate tensors. Each format is
//! a file that replaces the tensors of a matrix by the assembled matrix, under the name of its weight. Remaining
//! tensors keep their names, and fail by them.

mod awq;
mod bitnet;
mod bitsandbytes;
mod compressed;
mod fp8;
mod gptq;
mod hqq;
mod mlx;
mod modelopt;
mod mxfp4;
mod quark;
mod set;
mod torchao;

use std::path::Path;

use self::set::Set;
use super::folder::{MAX_CONFIG, read};
use crate::error::{Error, Result, try_vec};
use crate::format::file::{Files, InputFile};
use crate::format::json::Json;
use crate::format::safetensors::Entry;

/// A format of quantized folders.
pub(super) struct Format {
    /// `quant_method` of a configuration.
    methods: &'static [&'static str],
    /// Replaces the tensors of matrices in a set by the matrices.
    gather: fn(&mut Set) -> Result<()>,
}

/// Each with its supported variants, for the page of supported models.
const FORMATS: &[(Format, &str)] = &[
    // "quantization" instead of a method.
    (Format { methods: &["mlx"], gather: mlx::gather }, "1 to 6 and 8 bits with offsets; mxfp4, nvfp4, mxfp8"),
    (Format { methods: &["fp8", "fbgemm_fp8"], gather: fp8::gather }, "E4M3 by blocks, rows or tensors; 4-bit experts"),
    (Format { methods: &["awq"], gather: awq::gather }, "4 bits, versions gemm and gemv"),
    (Format { methods: &["gptq"], gather: gptq::gather }, "2 to 8 bits with inputs in any order, gptq and gptq_v2"),
    (
        Format { methods: &["compressed-tensors"], gather: compressed::gather },
        "integers of 2 to 8 bits with inputs in any order; E4M3; nvfp4, mxfp4, mxfp8",
    ),
    (Format { methods: &["bitsandbytes"], gather: bitsandbytes::gather }, "nf4, fp4, int8"),
    (Format { methods: &["modelopt"], gather: modelopt::gather }, "NVFP4, FP8"),
    (Format { methods: &["mxfp4"], gather: mxfp4::gather }, "experts of gpt-oss"),
    (Format { methods: &["torchao"], gather: torchao::gather }, "int8, intx, float8, int4 in plain order"),
    (Format { methods: &["hqq"], gather: hqq::gather }, "1, 2, 3, 4 and 8 bits, axis 1, and axis 0 as F32"),
    (Format { methods: &["quark"], gather: quark::gather }, "fp8, int8, int4, uint4, mxfp4"),
    (Format { methods: &["bitnet"], gather: bitnet::gather }, "ternary, packed by four"),
];

/// Members of a configuration that describe a format.
pub(super) const KEYS: &[&str] = &["quantization", "quantization_config", "compression_config", "expert_dtype"];

/// The format of a folder, with its configuration.
pub(super) struct Quantization<'a> {
    format: &'static Format,
    /// The name of the method, for messages.
    method: &'static str,
    config: &'a Json<'a>,
}

impl<'a> Quantization<'a> {
    /// Returns the format declared by the configuration, or by one of the files of `config_files`.
    pub fn find(
        path: &Path,
        config: &'a Json<'a>,
        config_files: &'a ConfigFiles<'a>,
    ) -> Result<Option<Quantization<'a>>> {
        let text_config = config.get("text_config").unwrap_or(&Json::Null);
        let of = |key: &str| config.get(key).or_else(|| text_config.get(key));
        let is_mlx = |json: &&Json| json.get("group_size").is_some() && json.get("bits").is_some();
        let declared = match (of("quantization").filter(is_mlx), of("quantization_config"), of("compression_config")) {
            (Some(mlx), ..) => Some((mlx, "mlx")),
            (_, Some(config), _) => {
                let method = config.get("quant_method").and_then(Json::as_str);
                Some((config, method.unwrap_or(if is_mlx(&config) { "mlx" } else { "" })))
            }
            (.., Some(config)) => Some((config, "compressed-tensors")),
            _ => of("quantization").map(|config| (config, "")),
        };
        let (config, method) = match (declared, config_files) {
            (Some(declared), _) => declared,
            (None, ConfigFiles { modelopt: true, .. }) => (&Json::Null, "modelopt"),
            (None, ConfigFiles { older: Json::Null, .. }) => return Ok(None),
            (None, ConfigFiles { older, .. }) => {
                (older, older.get("quant_method").and_then(Json::as_str).unwrap_or("gptq"))
            }
        };
        let found =
            FORMATS.iter().find_map(|(format, _)| Some((format, *format.methods.iter().find(|m| **m == method)?)));
        let (format, method) = found.ok_or_else(|| {
            Error::unsupported(format!("{}: the quantization method {method:?} is not supported", path.display()))
        })?;
        Ok(Some(Quantization { format, method, config }))
    }

    /// Returns the tensors of a folder with assembled matrices. `plain`: true for names of matrices that must be
    /// floats.
    pub fn gather(
        &self,
        path: &Path,
        files: &[InputFile],
        entries: Vec<Entry>,
        plain: fn(&str) -> bool,
    ) -> Result<Vec<Entry>> {
        let tensors = entries.into_iter().map(|entry| (entry.name.clone(), entry)).collect();
        let Quantization { format, method, config } = *self;
        let mut set = Set { path, config, method, files, plain, tensors };
        (format.gather)(&mut set)?;
        let mut entries = try_vec("tensors", set.tensors.len())?;
        entries.extend(set.tensors.into_values());
        Ok(entries)
    }
}

/// Facts from files next to the configuration.
pub(super) struct ConfigFiles<'a> {
    /// True if ModelOpt has written a file.
    modelopt: bool,
    /// The file of older AutoGPTQ and AutoAWQ versions.
    older: Json<'a>,
}

/// Returns the text of the configuration of older quantizers.
pub(super) fn older_text(files: Files, folder: &Path) -> Result<Vec<u8>> {
    let text = read(files, &folder.join("quantize_config.json"), MAX_CONFIG)?;
    Ok(text.unwrap_or_else(|| b"null".to_vec()))
}

impl<'a> ConfigFiles<'a> {
    pub fn new(files: Files, folder: &Path, older: &'a [u8]) -> Result<ConfigFiles<'a>> {
        let older = Json::parse_python(&folder.join("quantize_config.json"), older)?;
        Ok(ConfigFiles { modelopt: files.exists(&folder.join("hf_quant_config.json")), older })
    }
}
