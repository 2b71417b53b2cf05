//! Helpers for defining media encoders, in addition to those of `Builder`; except within layers, tensors are named in
//! full. Ops before `project_blocks` are the encoder program, with a row per patch; ops after it are the projector
//! program, with a row per block of patches, which is the same memory reshaped.

mod feed_forward;
mod patches;
mod projector;
mod sound;

use self::feed_forward::feed_forward;
use super::facts::{Facts, Pieces, Places, Queries, Video};
use super::sound::SoundFacts;
use crate::error::{Error, Result, try_filled};
use crate::format::{Passed, Source};
use crate::graph::op::{Activation, Mask, NormKind, Op, Projection, RopeChoice, TensorId, Vector, Weight};
use crate::graph::program::Program;
use crate::graph::weights::{MatrixSource, Rope, RopePairs, Weights};
use crate::media::{Filter, Sizing};
use crate::model::builder::{Attention, Builder};
use crate::model::hyper::{HeadShape, Hyper, Traits};
use crate::model::keys::Keys;
use crate::model::tensors::FileMatrix;
use crate::tensor::DType;

/// Bound of a file's widths, far above any real network.
const MAX_WIDTH: usize = 1 << 20;

/// Keys without effect, after `clip.vision.`.
const NO_EFFECT: &[&str] = &[
    // The tensors of the projector determine the width.
    "projection_dim",
    "projector_type",
];

/// Keys without effect, after `clip.`.
const NO_EFFECT_TOP: &[&str] = &[
    "projector_type",
    "has_text_encoder",
    "has_vision_encoder",
    "has_audio_encoder",
    "has_llava_projector",
    "has_minicpmv_projector",
];

/// A vision or audio encoder with its projector, and its weights in a file, of which only vectors have been read.
pub struct EncoderNetwork<'a> {
    pub facts: Facts,
    /// Convolutions that compute the encoder's input from a chunk of a spectrogram.
    pub convolutions: Vec<Convolution>,
    /// The encoder: from patches of a tile or frames of audio, and position embeddings, to hidden states.
    pub encoder: Program,
    pub patches: TensorId,
    pub places: Option<TensorId>,
    pub queries: Option<TensorId>,
    pub states: Vec<TensorId>,
    /// The projector: from blocks of hidden states to rows. It has the KV layers and weight handles of the encoder, so
    /// that one sequence serves both.
    pub projector: Program,
    pub blocks: Vec<TensorId>,
    pub rows: TensorId,
    /// Keys and tensors that the network does not use.
    pub passed: Passed,
    matrices: Vec<FileMatrix<'a>>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
}

/// The matrix of a convolution, and its bias.
#[derive(Clone, Copy)]
pub struct Kernel {
    pub weight: Weight,
    pub bias: Option<Vector>,
}

/// A convolution over a grid as a matrix product; the host gathers its columns (im2col).
pub struct Convolution {
    pub program: Program,
    pub columns: TensorId,
    pub out: TensorId,
}

impl EncoderNetwork<'_> {
    pub fn weights(&self) -> Weights<'_> {
        Weights {
            matrices: self.matrices.iter().map(|m| m as &dyn MatrixSource).collect(),
            vectors: self.vectors.clone(),
            ropes: self.ropes.clone(),
        }
    }
}

pub struct EncoderBuilder<'a> {
    pub b: Builder<'a>,
    /// Keys without an encoder's prefix.
    clip: Keys<'a>,
    projector: String,
    /// Width of the model's embeddings.
    hidden: usize,
    patch: usize,
    merge: usize,
    /// Number of frames per kernel.
    frames: usize,
    pub mean: [f32; 3],
    pub std: [f32; 3],
    /// True if pixels are rounded to BF16.
    pub is_half: bool,
    /// Row and column of the first patch.
    pub first_rope_position: u32,
    /// True if the class token's position embedding follows those of the patches.
    pub class_is_last: bool,
    /// True if the kernel's columns are in the order row, column, channel.
    pub colors_last: bool,
    patches: Option<TensorId>,
    places_input: Option<TensorId>,
    places: Option<Places>,
    queries_input: Option<TensorId>,
    queries: Option<Queries>,
    /// Properties of an audio encoder.
    sound: Option<SoundFacts>,
    /// The encoder program and its results, and the projector's inputs; set when the projector begins.
    encoder: Option<Program>,
    states: Vec<TensorId>,
    blocks: Vec<TensorId>,
    pub convolutions: Vec<Convolution>,
    /// Properties set by families.
    pub is_grid: bool,
    pub video: Option<Video>,
    pub window: usize,
    pub newline: Option<Vec<f32>>,
    pub overview_first: bool,
    pub is_pooled: bool,
}

impl<'a> EncoderBuilder<'a> {
    /// Maximum side of a tile or image in pixels, and maximum number of pixels.
    pub const MAX_SIDE: usize = 8192;
    pub const MAX_PIXELS: usize = 1 << 26;
    /// Maximum side of a patch, and of a block of patches.
    const MAX_GRAIN: usize = 65_535;

    pub fn new(source: &'a Source, projector: &str, hidden: usize, quantize: Option<DType>) -> Result<Self> {
        let mut e = Self::of(source, false, projector, hidden, quantize)?;
        e.patch = e.require("patch_size", Self::MAX_GRAIN)?;
        let keys = &e.b.keys;
        // Unset for images of any size. Networks of one size require it.
        if keys.get("image_size").is_some() {
            e.declared("image_size", Self::MAX_SIDE)?;
        }
        let numbers = e.patch.checked_mul(e.patch).and_then(|n| n.checked_mul(3)).filter(|n| *n <= MAX_WIDTH);
        let Some(_) = numbers else { return Err(keys.unsupported("patch_size")) };
        // Gemma 4's colors range from 0 to 1, whether or not its files declare it.
        let default = |x: f32| projector.starts_with("gemma4").then_some([x; 3]);
        let (mean, std) = (three(keys, "image_mean", default(0.0))?, three(keys, "image_std", default(1.0))?);
        (e.mean, e.std) = (mean, std);
        if e.std.iter().any(|std| *std < 1e-6) {
            return Err(e.b.keys.unsupported("image_std"));
        }
        Ok(e)
    }

    /// Returns an audio encoder; families know their activation function.
    pub fn of_sound(source: &'a Source, projector: &str, hidden: usize, quantize: Option<DType>) -> Result<Self> {
        let e = Self::of(source, true, projector, hidden, quantize)?;
        e.clip.ignore("use_");
        Ok(e)
    }

    /// Reads the keys common to all encoders.
    fn of(
        source: &'a Source,
        is_of_sound: bool,
        projector: &str,
        hidden: usize,
        quantize: Option<DType>,
    ) -> Result<Self> {
        let metadata = &source.metadata;
        // Tensor names begin with `stack`.
        let (kind, stack) = if is_of_sound { ("clip.audio", "a.") } else { ("clip.vision", "v.") };
        let (keys, clip) = (Keys::new(metadata, kind), Keys::new(metadata, "clip"));
        let missing = |key: &str| metadata.missing(&keys.name(key));
        let require = |key: &str, most: usize| declared(&keys, key, most)?.ok_or_else(|| missing(key));
        let width = require("embedding_length", MAX_WIDTH)?;
        // Gemma 4 12B has no layers; its files declare 0 for these keys.
        let has_layers = projector != "gemma4uv";
        let of_layers = ["feed_forward_length", "block_count", "attention.head_count"];
        let [ffn, n_layers, n_heads] = if has_layers {
            let [ffn, n_layers, n_heads] = of_layers;
            [require(ffn, MAX_WIDTH)?, require(n_layers, 1024)?, require(n_heads, 4096)?]
        } else {
            of_layers.iter().for_each(|key| _ = keys.get(key));
            [1, 0, 1]
        };
        if !width.is_multiple_of(n_heads) || width / n_heads > 4096 {
            return Err(keys.unsupported("attention.head_count"));
        }
        for (key, n) in [("attention.head_count_kv", n_heads), ("attention.head_dim", width / n_heads)] {
            if declared(&keys, key, 4096)?.is_some_and(|declared| declared != n) {
                return Err(keys.unsupported(key));
            }
        }
        let head_dim = width / n_heads;
        let hyper = Hyper {
            architecture: "clip".to_owned(),
            traits: Traits::default(),
            name: metadata.str("general.name")?.unwrap_or_default().to_owned(),
            n_layers,
            n_predicting: 0,
            hidden: width,
            ffn,
            heads: HeadShape { n_heads, n_kv_heads: n_heads, head_dim, value_dim: head_dim },
            vocab: 1,
            context_length: 0,
        };
        let mut b = Builder::new(source, keys, hyper, quantize, false)?;
        b.stack = stack;
        Ok(EncoderBuilder {
            b,
            clip,
            projector: projector.to_owned(),
            hidden,
            patch: 1,
            merge: 1,
            frames: 1,
            mean: [0.0; 3],
            std: [1.0; 3],
            is_half: false,
            first_rope_position: 0,
            class_is_last: false,
            colors_last: false,
            patches: None,
            places_input: None,
            places: None,
            queries_input: None,
            queries: None,
            sound: None,
            encoder: None,
            states: Vec::new(),
            blocks: Vec::new(),
            convolutions: Vec::new(),
            is_grid: false,
            video: None,
            window: 0,
            newline: None,
            overview_first: false,
            is_pooled: false,
        })
    }

    // ---- what the file tells

    /// Returns an optional number from 1 to `most`; 0 is an error, not absent.
    pub fn declared(&self, key: &str, most: usize) -> Result<Option<usize>> {
        declared(&self.b.keys, key, most)
    }

    pub fn require(&self, key: &str, most: usize) -> Result<usize> {
        self.declared(key, most)?.ok_or_else(|| self.b.keys.metadata.missing(&self.b.keys.name(key)))
    }

    /// Returns the side of the block that becomes a row, in patches.
    pub fn merge(&mut self, key: &str, default: Option<usize>) -> Result<usize> {
        let merge = match default {
            Some(default) => self.declared(key, Self::MAX_GRAIN)?.unwrap_or(default),
            None => self.require(key, Self::MAX_GRAIN)?,
        };
        let width = merge.checked_mul(merge).and_then(|n| n.checked_mul(self.width()));
        let side = merge * self.patch;
        if width.is_none_or(|width| width > MAX_WIDTH) || side > Self::MAX_SIDE {
            return Err(self.b.keys.unsupported(key));
        }
        self.merge = merge;
        Ok(merge)
    }

    /// Makes blocks of `side` by `side` patches the patches of the network.
    pub fn enlarge_patches(&mut self, side: usize) -> Result<()> {
        self.patch *= side;
        self.merge = 1;
        let numbers = self.patch.checked_mul(self.patch).and_then(|n| n.checked_mul(3));
        numbers.filter(|n| *n <= MAX_WIDTH).map(|_| ()).ok_or_else(|| self.b.keys.unsupported("patch_size"))
    }

    /// Returns the side of tiles that have all one size.
    pub fn square(&self, merge: usize) -> Result<usize> {
        match self.require("image_size", Self::MAX_SIDE)? {
            side if side.is_multiple_of(self.patch * merge) => Ok(side),
            _ => Err(self.b.keys.unsupported("image_size")),
        }
    }

    /// Returns an optional number without an encoder's prefix; 0 means absent.
    pub fn declared_by_file(&self, key: &str) -> Result<Option<usize>> {
        Ok(self.clip.size(key)?.filter(|n| *n > 0))
    }

    pub fn unsupported_of_file(&self, key: &str) -> Error {
        self.clip.unsupported(key)
    }

    /// Returns the filter for resizing images. 0 is a filter.
    pub fn filter(&self, default: Filter) -> Result<Filter> {
        let (key, keys) = ("resample", &self.b.keys);
        keys.get(key);
        match keys.metadata.u32s(&keys.name(key))?.as_deref() {
            None => Ok(default),
            Some([0]) => Ok(Filter::Nearest),
            Some([1]) => Ok(Filter::Lanczos),
            Some([2]) => Ok(Filter::Bilinear),
            Some([3]) => Ok(Filter::Bicubic),
            Some([4]) => Ok(Filter::Box),
            Some([5]) => Ok(Filter::Hamming),
            Some(_) => Err(keys.unsupported(key)),
        }
    }

    /// Returns the activation function of feed-forward blocks; `gelu`: meaning of `clip.use_gelu` in the family's GGUF
    /// files.
    pub fn activation(&self, gelu: Activation) -> Result<Activation> {
        let flags = [self.clip.flag("use_gelu")?, self.clip.flag("use_silu")?].map(|flag| flag == Some(true));
        match (self.b.keys.str("hidden_act")?, flags) {
            (Some("gelu_pytorch_tanh"), _) => Ok(Activation::Gelu),
            (Some("gelu"), _) => Ok(Activation::GeluErf),
            (Some("silu"), _) | (None, [false, true]) => Ok(Activation::Silu),
            (Some("quick_gelu"), _) | (None, [false, false]) => Ok(Activation::QuickGelu),
            (None, [true, false]) => Ok(gelu),
            (Some(_), _) => Err(self.b.keys.unsupported("hidden_act")),
            (None, [true, true]) => Err(self.clip.unsupported("use_silu")),
        }
    }

    /// True if the file also has an audio encoder.
    pub fn has_audio(&self) -> Result<bool> {
        Ok(self.clip.flag("has_audio_encoder")? == Some(true))
    }

    pub fn projector(&self) -> &str {
        &self.projector
    }

    pub fn width(&self) -> usize {
        self.b.hyper.hidden
    }

    pub fn patch(&self) -> usize {
        self.patch
    }

    /// LayerNorm if the norm has a bias, otherwise RMS norm.
    pub fn norm_kind(&self, part: &str) -> NormKind {
        if self.b.has(&format!("{part}.bias")) { NormKind::Layer } else { NormKind::Rms }
    }

    // ---- the encoder

    /// Returns the width of a head with 2D RoPE.
    pub fn rotary_dim(&self) -> Result<usize> {
        match self.b.hyper.heads.head_dim {
            dim if dim.is_multiple_of(4) => Ok(dim),
            _ => Err(self.b.keys.unsupported("attention.head_count")),
        }
    }

    /// 2D RoPE: the first pairs by row, the others by column.
    pub fn rope(&mut self, pairs: RopePairs, by_row: Vec<f64>, by_column: Vec<f64>) -> RopeChoice {
        let axes = [vec![1; by_row.len()], vec![2; by_column.len()]].concat();
        self.rope_along(pairs, axes, [by_row, by_column].concat())
    }

    /// 2D RoPE: each pair by row (1) or column (2).
    pub fn rope_along(&mut self, pairs: RopePairs, axes: Vec<u8>, inv_freq: Vec<f64>) -> RopeChoice {
        self.b.add_rope(Rope { pairs, inv_freq, axes, magnitude: 1.0, position_offset: 0 })
    }

    /// Pre-norm layers; optional norms, gates and scales are used if present. `windowed`: true for layers with window
    /// attention. `after` is called after each layer.
    pub fn layers(
        &mut self,
        x: TensorId,
        activation: Activation,
        rope: Option<RopeChoice>,
        windowed: impl Fn(usize) -> bool,
        mut after: impl FnMut(&mut Builder<'a>, usize) -> Result<()>,
    ) -> Result<()> {
        let kind = self.norm_kind(&format!("{}blk.0.ln1", self.b.stack));
        let (heads, width) = (self.b.hyper.heads, self.width());
        self.b.layers(|b, i| {
            let h = b.normed(kind, x, "ln1")?;
            let [q, k, v] = b.qkv(h, heads)?;
            if b.has("attn_q_norm.weight") {
                // QK norm per head (GLM 5 Next), or over all heads (InternVL).
                let width = b.tensors.cols(&b.name("attn_q_norm.weight"))?;
                if width == heads.head_dim { b.head_norms(q, k)? } else { b.full_norms(q, k)? }
            }
            rope.iter().for_each(|rope| b.rotate(*rope, q, k));
            let mask = if windowed(i) { Mask::Spans } else { Mask::All };
            let a = b.attend([q, k, v], Attention { mask, ..Attention::new(heads) })?;
            let o = b.project(a, "attn_out", width)?;
            scale_columns(b, o, "ls1.weight")?;
            b.add(x, o);
            let h = b.normed(kind, x, "ln2")?;
            let o = feed_forward(b, h, activation)?;
            scale_columns(b, o, "ls2.weight")?;
            b.add(x, o);
            after(b, i)
        })
    }

    /// A host input as wide as the model's embeddings: sinusoidal positions of patches, then learned queries.
    pub fn queries(&mut self, name: &str) -> Result<TensorId> {
        let (n, width) = (self.b.tensors.rows(name)?, self.hidden);
        if !(1..=4096).contains(&n) || !width.is_multiple_of(4) {
            return Err(tensors_damaged(
                &self.b,
                format!("it has {n} queries of {width} numbers; it must have at most 4096 of a multiple of 4"),
            ));
        }
        let table = self.b.tensors.values(name, n, width)?;
        Ok(self.query_input(Queries { table, n, width, has_waves: true }))
    }

    /// Like `queries`, for one query as wide as a layer, without positions.
    pub fn single_query(&mut self, name: &str) -> Result<TensorId> {
        let width = self.width();
        let table = self.b.tensors.values(name, 1, width)?;
        Ok(self.query_input(Queries { table, n: 1, width, has_waves: false }))
    }

    fn query_input(&mut self, queries: Queries) -> TensorId {
        let x = self.b.program.tensor(queries.width);
        self.queries = Some(queries);
        self.b.program.input(x);
        self.queries_input = Some(x);
        x
    }

    /// Adds a host input as wide as a layer.
    pub fn add_input(&mut self, x: TensorId) {
        let delta = self.b.program.tensor(self.width());
        self.b.program.input(delta);
        self.b.program.push(Op::Add { x, delta, scale: 1.0 });
        self.places_input = Some(delta);
    }

    /// Returns the kernel of a convolution over `spots` spots, three per row, of `inputs` values each, and its bias: a
    /// matrix of concatenated spots.
    pub fn kernel(&mut self, part: &str, [outputs, inputs]: [usize; 2], spots: usize) -> Result<Kernel> {
        let (name, cols) = (format!("{part}.weight"), inputs * spots);
        let values = self.b.tensors.values(&name, outputs * cols / 3, 3)?;
        let mut transposed = try_filled("a matrix", values.len(), 0f32)?;
        for (values, transposed) in values.chunks_exact(cols).zip(transposed.chunks_exact_mut(cols)) {
            for (i, value) in values.iter().enumerate() {
                transposed[i % spots * inputs + i / spots] = *value;
            }
        }
        let matrix = self.b.tensors.made(&name, cols, &transposed)?;
        let bias = self.b.tensors.vector_if_present(&format!("{part}.bias"), outputs)?;
        Ok(Kernel { weight: self.b.add_matrix(matrix), bias: bias.map(|bias| self.b.vector(bias)) })
    }

    pub fn convolve(&mut self, x: TensorId, kernel: Kernel) -> TensorId {
        let out = self.b.program.tensor(self.width());
        let Kernel { weight, bias } = kernel;
        self.b.program.push(Op::Project { x, projections: [Projection { weight, bias, out }].into() });
        out
    }

    pub fn slice(&mut self, x: TensorId, first: usize, width: usize) -> TensorId {
        let out = self.b.program.tensor(width);
        self.b.program.push(Op::Slice { x, first, out });
        out
    }

    pub fn check_width(&self, rows: usize) -> Result<()> {
        if rows == self.hidden {
            return Ok(());
        }
        let (path, hidden) = (self.b.keys.metadata.path().display(), self.hidden);
        Err(Error::Mismatch(format!("{path}: rows have {rows} numbers; the model's embeddings have {hidden}")))
    }

    /// `finish` for an audio encoder.
    pub fn finish_sound(self, rows: TensorId) -> Result<EncoderNetwork<'a>> {
        self.finish(rows, Sizing::Square { side: 1, filter: Filter::Bilinear }, |_, _| Vec::new())
    }

    /// Finishes the projector; records unused tensors and keys that could change its results.
    pub fn finish(self, rows: TensorId, sizing: Sizing, pieces: Pieces) -> Result<EncoderNetwork<'a>> {
        let EncoderBuilder { mut b, clip, projector, places, sound, places_input, patches, encoder, .. } = self;
        let (queries, queries_input) = (self.queries, self.queries_input);
        let (Some(encoder), Some(patches)) = (encoder, patches) else {
            return Err(Error::unsupported("the encoder has no end"));
        };
        let row_dim = b.program.width(rows);
        b.program.result(rows);
        let mut passed = Passed::default();
        // The same file may contain an encoder of the other kind.
        let begins = |name: &str, starts: [&str; 2]| starts.iter().any(|start| name.starts_with(start));
        let of_sound = |name: &str| begins(name, ["a.", "mm.a."]);
        let of_pictures =
            |name: &str| !of_sound(name) && (begins(name, ["v.", "mm."]) || name.starts_with("resampler."));
        let is_other = |name: &&str| if sound.is_some() { of_pictures(name) } else { of_sound(name) };
        for name in b.tensors.unused().filter(|name| !is_other(name)) {
            passed.unknown(format!("the tensor {name} has no place in an encoder of the kind {projector}"));
        }
        for (key, _) in b.keys.unread().into_iter().filter(|(key, _)| !NO_EFFECT.contains(key)) {
            passed.unknown(b.keys.refusal(key));
        }
        let is_of_one = |key: &str| begins(key, ["vision.", "audio."]);
        for (key, _) in clip.unread().into_iter().filter(|(key, _)| !is_of_one(key) && !NO_EFFECT_TOP.contains(key)) {
            passed.unknown(clip.refusal(key));
        }
        let facts = Facts {
            projector,
            n_layers: b.hyper.n_layers,
            sizing,
            patch: self.patch,
            merge: self.merge,
            frames: self.frames,
            mean: self.mean,
            std: self.std,
            is_half: self.is_half,
            first_rope_position: self.first_rope_position,
            row_dim,
            n_deep: self.blocks.len() - 1,
            is_grid: self.is_grid,
            video: self.video,
            pieces,
            places,
            newline: self.newline,
            queries,
            overview_first: self.overview_first,
            is_pooled: self.is_pooled,
            window: self.window,
            sound,
        };
        let program = std::mem::take(&mut b.program);
        Ok(EncoderNetwork {
            facts,
            convolutions: self.convolutions,
            encoder,
            patches,
            places: places_input,
            queries: queries_input,
            states: self.states,
            projector: program.finish(0, &[]),
            blocks: self.blocks,
            rows,
            passed,
            matrices: b.matrices,
            vectors: b.vectors,
            ropes: b.ropes,
        })
    }
}

fn declared(keys: &Keys, key: &str, most: usize) -> Result<Option<usize>> {
    keys.get(key);
    match keys.metadata.u64(&keys.name(key))? {
        None => Ok(None),
        Some(n) if (1..=most as u64).contains(&n) => Ok(Some(n as usize)),
        Some(n) => Err(Error::unsupported(format!("{} is {n}; it must be from 1 to {most}", keys.name(key)))),
    }
}

fn three(keys: &Keys, key: &str, default: Option<[f32; 3]>) -> Result<[f32; 3]> {
    keys.get(key);
    let declared = match (keys.metadata.f32s(&keys.name(key))?, default) {
        (Some(declared), _) => declared,
        (None, Some(default)) => return Ok(default),
        (None, None) => return Err(keys.metadata.missing(&keys.name(key))),
    };
    let three = <[f32; 3]>::try_from(&declared[..]).ok().filter(|three| three.iter().all(|x| x.abs() <= 1e6));
    three.ok_or_else(|| keys.unsupported(key))
}

fn tensors_damaged(b: &Builder, what: String) -> Error {
    b.keys.metadata.error(what)
}

fn scale_columns(b: &mut Builder, x: TensorId, part: &str) -> Result<()> {
    let (name, width) = (b.name(part), b.program.width(x));
    if let Some(scales) = b.tensors.vector_if_present(&name, width)? {
        let by = b.vector(scales);
        b.program.push(Op::ScaleColumns { x, by });
    }
    Ok(())
}
