//! Vision and audio encoders: tiles or audio parts pass an encoder and a projector (mmproj), whose rows replace token
//! embeddings. Both are on one device. The result of a tile depends only on that tile, not on threads or pauses.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::bounds::extent;
use super::convolutions::{Convolving, places};
use super::item::MediaKind;
use super::make::row_dim;
use super::stage::{Stage, StageExecutor, StageInputs, StageState};
use super::working::{Borrowed, Kept, Working};
use crate::cpu::kv::CpuKv;
use crate::cpu::nan::all_finite;
use crate::device::{Backend, CPU_DEVICE, StepBudget, Undivided, Workload};
use crate::engine::cache::{CacheParams, state_spec};
use crate::engine::cancel::Cancel;
use crate::engine::embed::vectors::normalize;
use crate::engine::model::{Model, WAY_OUT, in_file};
use crate::engine::plan::Bytes;
use crate::engine::runtime::{LogLevel, Reservation, Runtime};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::format::{Access, ByteSource, Source};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::media::{Layout, Picture};
use crate::model::vision::{self, AudioPart, EncoderChoice, Facts, Piece, SoundPart, TileInputs};
use crate::tensor::DType;

/// Load options of an encoder.
#[derive(Default)]
pub struct EncoderParams<'a> {
    /// Which encoder to load from a file with several.
    pub choice: EncoderChoice,
    /// Number of a device in `devices()`, from 1; 0: the first GPU of the model if the encoder fits there next to the
    /// model's session, otherwise the CPU.
    pub device: u32,
    /// Maximum number of rows of an image or audio, for the choice of the device; 0: the default bound.
    pub max_rows: usize,
    /// Type to quantize float matrices to; `None`: unchanged.
    pub quantize: Option<DType>,
    /// True to ignore unknown keys and tensors.
    pub allow_unknown: bool,
    /// True to read only metadata.
    pub plan: bool,
    pub cancel: Option<&'a Cancel>,
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
}

/// A part of the token sequence of an image.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Run {
    Tokens(Vec<u32>),
    /// Number of rows.
    Rows(usize),
}

/// A vision or audio encoder with its projector. Immutable and usable by any number of concurrent calls.
pub struct Encoder {
    model: Arc<Model>,
    /// Path of its file or folder.
    path: PathBuf,
    facts: Facts,
    backend: Backend,
    /// Convolutions that compute the audio encoder's input, chunk by chunk.
    convolutions: Vec<Stage>,
    encoder: Stage,
    projector: Stage,
    /// Bytes of its weights.
    weight_bytes: u64,
    /// Working memory between calls; `None` on the CPU.
    kept: Option<Arc<Kept>>,
    _memory: Reservation,
}

impl Encoder {
    /// Loads the encoder for a model: a GGUF file with a projector (mmproj), or a folder.
    ///
    /// # Errors
    /// `Mismatch` if rows, or the tokens around them, do not fit the model.
    pub fn load(model: &Arc<Model>, path: &Path, params: EncoderParams) -> Result<Arc<Encoder>> {
        Encoder::open(model, Source::open_encoder(path, Access::Read)?, params)
    }

    /// Like `load`, for files in the caller's memory, which is read only during the call.
    pub fn load_from(model: &Arc<Model>, sources: &[ByteSource], params: EncoderParams) -> Result<Arc<Encoder>> {
        Encoder::open(model, Source::open_encoder_from(sources, Access::Read)?, params)
    }

    fn open(model: &Arc<Model>, source: Source, params: EncoderParams) -> Result<Arc<Encoder>> {
        let EncoderParams { choice, device, max_rows, quantize, allow_unknown, plan, cancel, mut progress } = params;
        let (runtime, path) = (model.runtime().clone(), source.path());
        let hidden = model.info().hidden_dim as usize;
        let mut network = vision::network(&source, choice, hidden, quantize).map_err(|e| in_file(path, e))?;
        let (made, architecture) = (network.facts.row_dim, &model.info().architecture);
        if network.facts.is_pooled && *architecture != format!("{}-text", network.facts.projector) {
            let what = format!(
                "the encoder makes vectors of {:?}, which a model of {architecture:?} does not have",
                network.facts.projector
            );
            return Err(Error::Mismatch(format!("{}: {what}", path.display())));
        }
        let taken = row_dim(model, kind_of(&network.facts))?;
        // Audio rows have zeros for deepstack layers.
        if network.facts.sound.is_some() && made == hidden && taken > hidden && taken.is_multiple_of(hidden) {
            network.facts.row_dim = taken;
        } else if made != taken {
            let what = if network.facts.is_pooled { "a vector has" } else { "rows have" };
            let what = format!("{what} {made} numbers; the model needs {taken}");
            return Err(Error::Mismatch(format!("{}: {what}", path.display())));
        }
        for passed in [source.passed(), &network.passed] {
            if !allow_unknown {
                passed.check(WAY_OUT).map_err(|e| in_file(path, e))?;
            }
            for what in passed.notes.iter().chain(&passed.unknown) {
                runtime.log(LogLevel::Warning, &format!("{what}: {}", path.display()));
            }
        }
        check_tokens(model, &network.facts)?;
        let mut report = |done: u64, total: u64| {
            Cancel::check(&[cancel])?;
            match progress.as_mut().is_none_or(|p| p(done, total)) {
                true => Ok(()),
                false => Err(Error::Cancelled),
            }
        };
        let stage = |program: &Program, inputs: Vec<TensorId>, results: Vec<TensorId>| Stage {
            program: Arc::new(program.clone()),
            inputs,
            results,
        };
        let inputs = [network.patches].into_iter().chain(network.places).chain(network.queries).collect();
        let encoder = stage(&network.encoder, inputs, network.states.clone());
        let projector = stage(&network.projector, network.blocks.clone(), vec![network.rows]);
        let convolutions = network.convolutions.iter().map(|of| stage(&of.program, vec![of.columns], vec![of.out]));
        let convolutions: Vec<Stage> = convolutions.collect();
        let (device, leave) = match device {
            0 => preferred(model)?,
            device => (device, None),
        };
        // The size of a step matters only for the choice of a GPU.
        let [n, blocks] = if leave.is_some() { extent(&network.facts, max_rows)?.tile } else { [1; 2] };
        let chunk = places(&convolutions, chunk_size(&network.facts));
        let sizes = [(&encoder, n), (&projector, blocks)].into_iter().chain(convolutions.iter().zip(chunk));
        let work = |(i, (stage, n)): (usize, (&Stage, usize))| {
            let mut cache = stage.cache(n, false);
            // Encoder and projector share one cache.
            cache.layers.truncate(if i == 1 { 0 } else { usize::MAX });
            Workload { program: stage.program.clone(), limits: Stage::limits(n), cache }
        };
        let load = Undivided {
            work: &sizes.enumerate().map(work).collect::<Vec<_>>(),
            options: &LoadOptions { device, plan, tested_path: model.tested_path(), ..LoadOptions::default() },
            host_bytes: if plan { u64::MAX } else { runtime.memory_left() },
            leave,
        };
        let weights = network.weights();
        let (backend, kept_off) =
            Backend::load_undivided(&load, &weights, &runtime.pool, &mut report).map_err(|e| runtime.with_limit(e))?;
        let weight_bytes: u64 = backend.weight_bytes().map(|(_, bytes)| bytes).sum();
        drop((load, weights));
        if !plan {
            log_place(&runtime, &backend, kept_off, path);
        }
        let is_counted = backend.is_on_cpu() && !plan;
        Ok(Arc::new(Encoder {
            _memory: runtime.reserve("the encoder's weights", if is_counted { weight_bytes } else { 0 })?,
            model: model.clone(),
            path: path.to_owned(),
            kept: (!backend.is_on_cpu()).then(Arc::default),
            backend,
            weight_bytes,
            convolutions,
            encoder,
            projector,
            facts: network.facts,
        }))
    }

    pub fn model(&self) -> &Arc<Model> {
        &self.model
    }

    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// Returns the kind of its media.
    pub fn kind(&self) -> MediaKind {
        kind_of(&self.facts)
    }

    pub fn weight_bytes(&self) -> u64 {
        self.weight_bytes
    }

    /// Returns the number of its device in `devices()`, from 1.
    pub fn device(&self) -> u32 {
        self.backend.device_number()
    }

    /// Returns text that identifies the weights and, on a GPU, the driver, because a GPU rounds differently.
    pub fn identity(&self) -> String {
        let on = self.backend.driver().map_or_else(String::new, |driver| format!(" on {driver}"));
        format!("{:016x}{on}", self.backend.digest())
    }

    /// Returns the number of host scratch bytes for tiles of `n` patches and `blocks` rows, or for audio parts of `n`
    /// hidden states.
    pub fn scratch_bytes(&self, [n, blocks]: [usize; 2]) -> Result<u64> {
        let bytes = |stage: &Stage, n| self.backend.executor_bytes(&stage.program, Stage::limits(n));
        // Patches and positions, also held by the host, and hidden states.
        let program = &self.encoder.program;
        let held: usize = self.encoder.inputs.iter().chain(&self.encoder.results).map(|id| program.width(*id)).sum();
        let stages = bytes(&self.encoder, n)
            + bytes(&self.projector, blocks)
            + Convolving::bytes(&self.backend, &self.convolutions, chunk_size(&self.facts));
        let kv = match self.backend.is_on_cpu() {
            true => CpuKv::bytes_of(&self.encoder.cache(n, true))?,
            false => 0,
        };
        Ok(stages.saturating_add(4 * n.saturating_mul(held) as u64).saturating_add(kv))
    }

    /// Returns the bytes of weights, and of scratch memory for tiles of this size. The encoder must be a plan, because
    /// this creates the working memory of a tile.
    pub fn planned(&self, tile: [usize; 2]) -> Result<[Bytes; 2]> {
        let scratch = Bytes { host: self.scratch_bytes(tile)?, device: 0 };
        if self.backend.is_on_cpu() {
            return Ok([Bytes { host: self.weight_bytes, device: 0 }, scratch]);
        }
        let taken = || self.backend.taken().first().copied().unwrap_or_default();
        let [weights, pinned] = taken();
        let working = self.new_working(tile)?;
        let [all, all_pinned] = taken();
        drop(working);
        let scratch = Bytes {
            host: scratch.host.saturating_add(all_pinned.saturating_sub(pinned)),
            device: all.saturating_sub(weights),
        };
        Ok([Bytes { host: 0, device: weights }, scratch])
    }

    /// Allocates the working memory of tiles of up to this size.
    fn new_working(&self, tile: [usize; 2]) -> Result<Working> {
        let ([n, blocks], backend) = (tile, &self.backend);
        Ok(Working {
            tile,
            convolving: Convolving::new(backend, &self.convolutions, chunk_size(&self.facts))?,
            executors: [
                StageExecutor::new(backend, &self.encoder, n)?,
                StageExecutor::new(backend, &self.projector, blocks)?,
            ],
            sequence: backend.new_sequence(&self.encoder.cache(n, backend.is_on_cpu()))?,
        })
    }

    /// Returns the kept working memory if tiles of this size fit, otherwise allocates it.
    fn working(&self, tile: [usize; 2]) -> Result<Borrowed> {
        let kept = self.kept.as_ref().and_then(|kept| kept.take(tile));
        let working = kept.map_or_else(|| self.new_working(tile), Ok)?;
        Ok(Borrowed::new(working, self.kept.as_ref()))
    }

    /// Returns the number of values of each result for a tile of `n` patches and `blocks` blocks, which may extend past
    /// the last patch.
    fn state_len(&self, n: usize, blocks: usize) -> usize {
        let width = |stage: &Stage, ids: &[TensorId]| ids.first().map_or(0, |id| stage.program.width(*id));
        let [patch, block] =
            [width(&self.encoder, &self.encoder.results), width(&self.projector, &self.projector.inputs)];
        n.saturating_mul(patch).max(blocks.saturating_mul(block))
    }

    /// Returns the tokens around and between the rows of an image.
    pub fn runs(&self, layout: &Layout) -> Result<Vec<Run>> {
        self.runs_of(self.facts.pieces(layout))
    }

    /// Tokenizes pieces of text, with rows between them.
    pub fn runs_of(&self, pieces: Vec<Piece>) -> Result<Vec<Run>> {
        let run = |piece: Piece| match piece {
            Piece::Rows(n) => Ok(Run::Rows(n)),
            Piece::Text(text) => {
                let mut tokens = Vec::new();
                self.model.tokenizer()?.encode(&text, false, true, &mut tokens)?;
                Ok(Run::Tokens(tokens))
            }
        };
        pieces.into_iter().map(run).collect()
    }

    /// Returns the rows of an image, `[n][row_dim]`, tile by tile.
    pub fn encode(&self, tiles: Vec<Picture>, layout: &Layout, cancel: Option<&Cancel>) -> Result<Vec<f32>> {
        let cancels = &[cancel];
        let stop = || Cancel::check(cancels).is_err();
        let mut encoding = Encoding::new(self, tiles, layout)?;
        match encoding.advance(self, &StepBudget::new(&stop))? {
            true => Ok(encoding.rows),
            false => Err(Cancel::reason(cancels)),
        }
    }
}

/// Returns the device of an encoder whose caller names none, and the bytes to leave free there for a session and a step
/// of the model.
fn preferred(model: &Model) -> Result<(u32, Option<u64>)> {
    let network = model.network()?;
    let device = network.backend.device_number();
    if device == CPU_DEVICE {
        return Ok((CPU_DEVICE, None));
    }
    let (program, limits) = (&network.program, network.limits);
    let cache = state_spec(program, network.context_length, &CacheParams::default(), limits);
    Ok((device, Some(network.backend.working_bytes(program, &cache, limits).unwrap_or(u64::MAX))))
}

/// Logs the GPU that an encoder is on, or why it is not on the GPU that was named or chosen.
fn log_place(runtime: &Runtime, backend: &Backend, kept_off: Option<Error>, path: &Path) {
    if let Some(why) = kept_off {
        runtime.log(LogLevel::Warning, &format!("the encoder stays on the CPU: {why}: {}", path.display()));
    } else if !backend.is_on_cpu() {
        let what = format!("the encoder is on {}: {}", backend.device_names(), path.display());
        runtime.log(LogLevel::Info, &what);
    }
}

/// Frames and bins of a chunk; zero for images.
fn chunk_size(facts: &Facts) -> [usize; 2] {
    facts.sound.as_ref().and_then(|sound| sound.chunk_size()).unwrap_or_default()
}

fn kind_of(facts: &Facts) -> MediaKind {
    match &facts.sound {
        Some(_) => MediaKind::Audio,
        None if facts.is_pooled => MediaKind::Vector,
        None => MediaKind::Image,
    }
}

/// Fails if the model's vocabulary lacks a token that surrounds images or audio.
fn check_tokens(model: &Model, facts: &Facts) -> Result<()> {
    let Ok(tokenizer) = model.tokenizer() else { return Ok(()) };
    let pieces = match &facts.sound {
        Some(sound) => sound.pieces(1),
        None => facts.pieces(&facts.sizing.layout(1, 1)?),
    };
    for piece in pieces {
        let Piece::Text(text) = piece else { continue };
        for name in text.split_inclusive(['>', ']']).filter_map(|part| part.get(part.rfind(['<', '['])?..)) {
            let mut tokens = Vec::new();
            tokenizer.encode(name, false, true, &mut tokens)?;
            if tokens.len() != 1 {
                let kind = if facts.sound.is_some() { "sounds" } else { "pictures" };
                let what = format!("{name:?}, which stands beside {kind}, is no token of the model's vocabulary");
                return Err(Error::Mismatch(what));
            }
        }
    }
    Ok(())
}

/// The input of one run of encoder and projector.
enum Tile {
    Picture(Picture),
    Frames([Picture; 2]),
    Sound(AudioPart),
}

/// The encoding of an image's tiles or of audio parts, which may be paused.
pub struct Encoding {
    tiles: Vec<Tile>,
    /// The layout of an image; `None` for audio.
    layout: Option<Layout>,
    /// `[n][row_dim]`, of the finished tiles.
    pub rows: Vec<f32>,
    /// Number of finished tiles.
    done: usize,
    /// Inputs of the current tile; `None` before they are computed.
    inputs: Option<TileInputs>,
    working: Borrowed,
    /// Hidden states of its patches, for each result of the encoder in turn.
    states: Vec<f32>,
    _memory: Reservation,
}

impl Encoding {
    /// Allocates memory for the tiles of `layout`: two frames per tile for video.
    pub fn new(encoder: &Encoder, tiles: Vec<Picture>, layout: &Layout) -> Result<Encoding> {
        let (facts, frames) = (encoder.facts(), if layout.pairs > 0 { 2 } else { 1 });
        let is_tile = |(i, tile): (usize, &Picture)| [tile.width, tile.height] == layout.tile(i / frames);
        if tiles.len() != layout.n_tiles() * frames || !tiles.iter().enumerate().all(is_tile) {
            return Err(Error::invalid(format!("an image has {} tiles; they do not fit {layout:?}", tiles.len())));
        }
        let (n, blocks) = (facts.n_patches(layout), facts.most_rows(layout));
        let mut list = try_vec("tiles", layout.n_tiles())?;
        let mut tiles = tiles.into_iter();
        while let Some(tile) = tiles.next() {
            let second = if frames == 2 { tiles.next() } else { None };
            list.push(match second {
                Some(second) => Tile::Frames([tile, second]),
                None => Tile::Picture(tile),
            });
        }
        let encoding = Encoding::with(encoder, list, n, blocks, facts.n_rows(layout))?;
        Ok(Encoding { layout: Some(*layout), ..encoding })
    }

    /// Allocates memory for the parts of audio.
    pub fn of_sound(encoder: &Encoder, parts: Vec<AudioPart>) -> Result<Encoding> {
        let most = |of: fn(&SoundPart) -> usize| parts.iter().map(|audio| of(&audio.part)).max().unwrap_or(0);
        let (n, blocks) = (most(|part| part.n), most(|part| part.rows));
        let rows = parts.iter().map(|audio| audio.part.rows).sum();
        let mut list = try_vec("parts of a sound", parts.len())?;
        list.extend(parts.into_iter().map(Tile::Sound));
        Encoding::with(encoder, list, n, blocks, rows)
    }

    /// `n` and `blocks`: maximum patches and blocks of a tile.
    fn with(encoder: &Encoder, tiles: Vec<Tile>, n: usize, blocks: usize, rows: usize) -> Result<Encoding> {
        let facts = encoder.facts();
        let memory = encoder.model.runtime().reserve("scratch memory", encoder.scratch_bytes([n, blocks])?)?;
        let each = encoder.state_len(n, blocks).saturating_mul(encoder.encoder.results.len());
        Ok(Encoding {
            working: encoder.working([n, blocks])?,
            states: try_filled("hidden states", each, 0f32)?,
            rows: try_vec("the rows of a media item", rows.saturating_mul(facts.row_dim))?,
            tiles,
            layout: None,
            done: 0,
            inputs: None,
            _memory: memory,
        })
    }

    /// Returns the number of finished tiles, and of all.
    pub fn progress(&self) -> (usize, usize) {
        (self.done, self.tiles.len())
    }

    /// Works until all tiles are done or `budget` pauses; returns true if done. `encoder` must be the one of `new`.
    pub fn advance(&mut self, encoder: &Encoder, budget: &StepBudget) -> Result<bool> {
        encoder.model.runtime().pool.check_not_within_share()?;
        while let Some(tile) = self.tiles.get(self.done) {
            let mut inputs = match (self.inputs.take(), tile, &encoder.facts.sound) {
                (Some(inputs), ..) => inputs,
                (None, Tile::Picture(picture), _) => encoder.facts.inputs([picture; 2])?,
                (None, Tile::Frames(frames), _) => encoder.facts.inputs(frames.each_ref())?,
                (None, Tile::Sound(part), Some(sound)) => sound.inputs(part)?,
                (None, Tile::Sound(_), None) => {
                    return Err(Error::unsupported("audio is not supported by a vision encoder"));
                }
            };
            match self.advance_tile(encoder, &mut inputs, budget) {
                Ok(true) => {}
                Ok(false) => {
                    self.inputs = Some(inputs);
                    return Ok(false);
                }
                Err(e) => {
                    // The steps are abandoned and start again.
                    return self.working.get().reset().and(Err(e));
                }
            }
            self.working.get().executors.iter_mut().for_each(|stage| stage.state = StageState::Fresh);
            self.done += 1;
            if let Some(layout) = self.layout.filter(|_| self.done == self.tiles.len()) {
                self.rows = encoder.facts.arranged(&layout, std::mem::take(&mut self.rows))?;
            }
        }
        Ok(true)
    }

    fn advance_tile(&mut self, encoder: &Encoder, inputs: &mut TileInputs, budget: &StepBudget) -> Result<bool> {
        let Encoding { working, states, rows, .. } = self;
        let Working { convolving, executors: [first, second], sequence, .. } = working.get();
        if let Some(sound) = &encoder.facts.sound
            && !convolving.advance(&encoder.convolutions, sound, inputs, budget)?
        {
            return Ok(false);
        }
        let blocks = inputs.rows.len();
        let each = encoder.state_len(inputs.n, blocks);
        if first.state != StageState::Done {
            let written = [&inputs.patches[..], &inputs.places[..], &inputs.queries[..]];
            let of_step = StageInputs {
                n: inputs.n,
                written: &written,
                rope_positions: &inputs.rope_positions,
                spans: &inputs.spans,
            };
            if !first.advance(&encoder.encoder, sequence, of_step, budget)? {
                return Ok(false);
            }
            for (result, state) in encoder.encoder.results.iter().zip(states.chunks_exact_mut(each)) {
                let (made, beyond) = state.split_at_mut(inputs.n * encoder.encoder.program.width(*result));
                first.executor.read(*result, made)?;
                beyond.fill(0.0);
            }
        }
        // Drops the class token and query patches; blocks are views of the remaining hidden states.
        let results = encoder.encoder.results.iter().zip(&encoder.projector.inputs).zip(states.chunks_exact(each));
        let written: Vec<&[f32]> = results
            .map(|((result, block), state)| {
                let from = inputs.first * encoder.encoder.program.width(*result);
                &state[from..from + blocks * encoder.projector.program.width(*block)]
            })
            .collect();
        let of_step = StageInputs { n: blocks, written: &written, ..StageInputs::default() };
        if !second.advance(&encoder.projector, sequence, of_step, budget)? {
            return Ok(false);
        }
        let [width, row_dim] = [encoder.projector.program.width(encoder.projector.results[0]), encoder.facts.row_dim];
        let mut made = try_filled("the rows of a tile", blocks * width, 0f32)?;
        second.executor.read(encoder.projector.results[0], &mut made)?;
        if let Some(row) = made.chunks_exact(width).position(|row| !all_finite(row)) {
            let row = rows.len() / row_dim + row;
            return Err(Error::format(&encoder.path, format!("row {row} of the encoded media is NaN or infinite")));
        }
        let start = rows.len();
        rows.resize(start + blocks * row_dim, 0.0);
        if encoder.facts.is_pooled {
            normalize(&mut made);
        }
        for (row, values) in inputs.rows.iter().zip(made.chunks_exact(width)) {
            rows[start + row * row_dim..][..width].copy_from_slice(values);
        }
        Ok(true)
    }
}
