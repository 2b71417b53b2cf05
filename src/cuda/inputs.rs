//! Inputs of a step: token ids, positions, sequences, outputs, attention tiles, KV caches, M-RoPE positions, spans, and
//! sampling rules.
//!
//! They are written into pinned memory and copied to a fixed location on the device before the step, so that a CUDA
//! graph serves every token, position and cache.

use super::args::{DeviceKv, DeviceTile, SMALL_BATCH_ROWS, StepArgs};
use super::launch::{Current, DeviceBuffer, PinnedBuffer, Stream};
use super::rules::{self, StepRules};
use super::scratch::ExecutorDims;
use super::sequence::KvView;
use crate::error::{Result, try_vec};
use crate::gpu::Address;
use crate::gpu::writer::{ALIGN, Writer};
use crate::graph::step::{StepInputs, StepLimits};

/// Maximum number of tokens of a sequence in a step that count as few, such as a token and its draft.
pub const SHORT_RUN: usize = 8;

/// The tiles of a step, with a limited number of tokens per tile; last the tiles of sequences with at most `SHORT_RUN`
/// tokens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tiling {
    pub address: Address,
    pub n: u32,
    /// Number of tiles of short sequences.
    pub n_short: u32,
}

impl Tiling {
    /// Returns the tiles of long sequences, and of short ones.
    pub fn split(self) -> [Tiling; 2] {
        let n_long = self.n - self.n_short;
        let short = self.address + Address::from(n_long) * size_of::<DeviceTile>() as Address;
        [Tiling { n: n_long, n_short: 0, ..self }, Tiling { address: short, n: self.n_short, n_short: self.n_short }]
    }
}

/// Number of tilings: one per tile size of attention, one for prompts, one with a tile per sequence.
pub const TILINGS: usize = 9;
pub type Tilings = [Tiling; TILINGS];

/// Arguments and tiles for a subset of a step's tokens.
#[derive(Clone, Copy, Default)]
pub struct SentTokens {
    pub args: StepArgs,
    pub tilings: Tilings,
    /// Number of tokens of short sequences.
    pub n_short: usize,
}

/// Returns the number of tokens of short sequences.
fn short_tokens(slots: &[u32]) -> usize {
    slots.chunk_by(|a, b| a == b).map(<[u32]>::len).filter(|n| *n <= SHORT_RUN).sum()
}

/// The inputs of a step on the device: all tokens, only the outputs, and rules.
#[derive(Clone, Copy, Default)]
pub struct Sent {
    pub all: SentTokens,
    pub kept: SentTokens,
    pub rules: StepRules,
}

/// Memory for the inputs of steps: pinned memory per slot, and one copy on the device.
pub struct InputStaging {
    staging: PinnedBuffer,
    device: DeviceBuffer,
    vocab: usize,
    /// Maximum number of tokens per tile in each tiling.
    tile_tokens: Vec<usize>,
    /// Scratch for the sequences of the outputs.
    kept_slots: Vec<u32>,
    /// Offset of the KV caches that were sent last.
    caches_at: usize,
}

impl InputStaging {
    /// Returns the size of the inputs of one step in bytes: eleven arrays, two per tiling, and rules.
    pub fn bytes(dims: &ExecutorDims, vocab: usize) -> usize {
        let (StepLimits { max_tokens, max_outputs }, tilings) = (dims.limits, dims.tilings.len());
        let tiles = tilings * size_of::<DeviceTile>();
        let (token, output) = (8 * 4 + tiles + size_of::<DeviceKv>(), 8 * 4 + tiles);
        let arrays = max_tokens * token + max_outputs * output + (11 + 2 * tilings) * ALIGN;
        arrays + rules::bytes(max_outputs, vocab)
    }

    pub fn new(current: &Current, slots: usize, dims: &ExecutorDims, vocab: usize) -> Result<InputStaging> {
        let bytes = InputStaging::bytes(dims, vocab);
        Ok(InputStaging {
            device: current.alloc("a step's inputs", bytes)?,
            staging: current.alloc_pinned(slots * bytes)?,
            vocab,
            tile_tokens: dims.tilings.clone(),
            kept_slots: try_vec("outputs", dims.limits.max_outputs)?,
            caches_at: 0,
        })
    }

    /// Writes checked inputs into the pinned memory of `slot`, whose last copy must have ended, and queues the copy to
    /// the device.
    pub fn send(
        &mut self,
        current: &Current,
        stream: &Stream,
        slot: usize,
        inputs: &StepInputs,
        caches: &[KvView],
    ) -> Result<Sent> {
        let first = slot * self.device.len();
        let bytes = &mut self.staging.bytes_mut()[first..][..self.device.len()];
        let mut writer = Writer::new(bytes, self.device.address());
        let tilings = writer.tilings(inputs.sequences, &self.tile_tokens);
        let args = StepArgs {
            ids: writer.words(inputs.ids),
            positions: writer.words(inputs.positions),
            slots: writer.words(inputs.sequences),
            outputs: writer.words(inputs.outputs),
            kvs: writer.kvs(caches),
            n: inputs.ids.len() as u32,
            n_outputs: inputs.outputs.len() as u32,
            ..StepArgs::default()
        };
        let mut all = SentTokens { args, tilings, n_short: short_tokens(inputs.sequences) };
        writer.rope_offsets_and_spans(inputs, 0..inputs.ids.len(), &mut all.args);
        let mut kept = all;
        if args.n_outputs < args.n {
            let outputs = inputs.outputs.iter().map(|&t| t as usize);
            self.kept_slots.clear();
            self.kept_slots.extend(outputs.clone().map(|t| inputs.sequences[t]));
            kept.args.positions = writer.array();
            outputs.clone().for_each(|t| writer.put(inputs.positions[t].to_le_bytes()));
            kept.args.slots = writer.words(&self.kept_slots);
            writer.rope_offsets_and_spans(inputs, outputs, &mut kept.args);
            kept.tilings = writer.tilings(&self.kept_slots, &self.tile_tokens);
            kept.n_short = short_tokens(&self.kept_slots);
            kept.args.n = args.n_outputs;
        }
        // Last, because their length differs in every step.
        let rules = rules::write(&mut writer, inputs.rules, inputs.outputs.len(), slot, self.vocab);
        let written = writer.written();
        self.caches_at = (args.kvs - self.device.address()) as usize;
        current.upload(stream, self.device.at(0), self.staging.at(first), written)?;
        Ok(Sent { all, kept, rules })
    }

    /// Replaces only the KV caches of the inputs that were sent last.
    pub fn send_caches(&mut self, current: &Current, stream: &Stream, slot: usize, caches: &[KvView]) -> Result<()> {
        let at = slot * self.device.len() + self.caches_at;
        let len = size_of::<DeviceKv>() * caches.len();
        let bytes = &mut self.staging.bytes_mut()[at..][..len];
        Writer::new(bytes, 0).kvs(caches);
        current.upload(stream, self.device.at(self.caches_at), self.staging.at(at), len)
    }
}

/// The inputs of a step with one token per sequence, followed by padding rows: each is the first token of a separate
/// sequence whose KV cache has capacity 0.
pub struct Padded {
    ids: [u32; SMALL_BATCH_ROWS],
    positions: [u32; SMALL_BATCH_ROWS],
    rope_positions: [[u32; 3]; SMALL_BATCH_ROWS],
    spans: [[u32; 2]; SMALL_BATCH_ROWS],
    /// Indices of the sequences, equal to the indices of the outputs.
    numbers: [u32; SMALL_BATCH_ROWS],
}

impl Padded {
    pub fn new(inputs: &StepInputs) -> Padded {
        let numbers = std::array::from_fn(|i| i as u32);
        let (ids, positions) = ([0; SMALL_BATCH_ROWS], [0; SMALL_BATCH_ROWS]);
        let (rope_positions, spans) = ([[0; 3]; SMALL_BATCH_ROWS], [[0; 2]; SMALL_BATCH_ROWS]);
        let mut padded = Padded { ids, positions, rope_positions, spans, numbers };
        padded.ids[..inputs.ids.len()].copy_from_slice(inputs.ids);
        padded.positions[..inputs.positions.len()].copy_from_slice(inputs.positions);
        padded.rope_positions[..inputs.rope_positions.len()].copy_from_slice(inputs.rope_positions);
        padded.spans[..inputs.spans.len()].copy_from_slice(inputs.spans);
        padded
    }

    /// Returns the inputs of a step with `rows` rows.
    pub fn inputs<'a>(&'a self, rows: usize, inputs: &StepInputs<'a>) -> StepInputs<'a> {
        StepInputs {
            ids: &self.ids[..rows],
            positions: &self.positions[..rows],
            sequences: &self.numbers[..rows],
            outputs: &self.numbers[..rows],
            rope_positions: if inputs.rope_positions.is_empty() { &[] } else { &self.rope_positions[..rows] },
            spans: if inputs.spans.is_empty() { &[] } else { &self.spans[..rows] },
            ..*inputs
        }
    }
}

/// Returns a token's M-RoPE positions minus its position, which the device advances itself.
pub fn rope_offsets(inputs: &StepInputs, token: usize) -> [u32; 3] {
    inputs.rope_positions[token].map(|position| position.wrapping_sub(inputs.positions[token]))
}

impl Writer<'_> {
    /// Writes the M-RoPE positions and spans of some tokens if the step has them.
    fn rope_offsets_and_spans(
        &mut self,
        inputs: &StepInputs,
        tokens: impl Iterator<Item = usize> + Clone,
        to: &mut StepArgs,
    ) {
        if !inputs.rope_positions.is_empty() {
            to.rope_offsets = self.array();
            tokens.clone().flat_map(|t| rope_offsets(inputs, t)).for_each(|offset| self.put(offset.to_le_bytes()));
        }
        if !inputs.spans.is_empty() {
            to.spans = self.array();
            tokens.flat_map(|t| inputs.spans[t]).for_each(|position| self.put(position.to_le_bytes()));
        }
    }

    /// Writes tiles of up to `most` consecutive tokens of one sequence.
    fn tiles(&mut self, slots: &[u32], most: usize) -> Tiling {
        let mut tiling = Tiling { address: self.array(), ..Tiling::default() };
        for is_short in [false, true] {
            let mut first = 0;
            for run in slots.chunk_by(|a, b| a == b) {
                let last = first + run.len() as u32 - 1;
                if (run.len() <= SHORT_RUN) == is_short {
                    for (tile, at) in run.chunks(most).zip((first..=last).step_by(most.min(run.len()))) {
                        let words = [at, tile.len() as u32, tile[0], last];
                        words.iter().for_each(|w| self.put(w.to_le_bytes()));
                        tiling.n += 1;
                        tiling.n_short += u32::from(is_short);
                    }
                }
                first = last + 1;
            }
        }
        tiling
    }

    fn tilings(&mut self, slots: &[u32], tile_tokens: &[usize]) -> Tilings {
        let mut tilings = Tilings::default();
        tilings.iter_mut().zip(tile_tokens).for_each(|(tiling, most)| *tiling = self.tiles(slots, *most));
        tilings
    }

    fn kvs(&mut self, caches: &[KvView]) -> Address {
        let address = self.array();
        for view in caches.iter().map(KvView::device) {
            let addresses = [view.k, view.v, view.k_scales, view.v_scales, view.from, view.to];
            addresses.iter().for_each(|a| self.put(a.to_le_bytes()));
            [view.capacity, view.ring, view.k_type, view.v_type].iter().for_each(|w| self.put(w.to_le_bytes()));
        }
        address
    }
}
