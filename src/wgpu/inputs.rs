//! Inputs of a step: token ids, positions, outputs, the positions that each token attends to, angles of RoPE, and media
//! rows. The executor writes all inputs to one buffer before the step.

use std::ops::Range;

use super::draws::{self, Draw};
use super::kernels::NONE;
use super::weights::DeviceWeights;
use crate::error::{Result, try_vec};
use crate::graph::op::{Mask, Op, RopeTable};
use crate::graph::program::Program;
use crate::graph::step::{MEDIA_ROW, StepInputs, StepLimits};

/// Word offsets of the input arrays of a set of tokens.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    pub n: usize,
    /// Token ids, 0 for media rows.
    pub ids: u32,
    pub positions: u32,
    /// `[n, 2]` for each mask of `Masks`: first position that a token attends to, and end of the range (exclusive).
    pub ranges: Vec<u32>,
    /// `[n, pairs, 2]`, indexed by `RopeTable`: cosine and sine; `NONE` for tables that the step does not use.
    pub angles: Vec<u32>,
    /// The runs of tokens of one sequence.
    pub runs: Vec<Run>,
}

/// Consecutive tokens of one sequence.
#[derive(Clone, Debug)]
pub struct Run {
    /// Index of the sequence.
    pub sequence: usize,
    pub tokens: Range<usize>,
    /// Number of positions that the sequence has at the end of the step.
    pub length: usize,
}

/// Word offsets of a step's inputs.
#[derive(Clone, Debug, Default)]
pub struct Placed {
    pub all: Tokens,
    /// Tokens with outputs only.
    pub kept: Tokens,
    /// Zeros.
    pub zeros: u32,
    /// Index of each token's media row, or `NONE`.
    pub media_of: u32,
    pub media: u32,
    pub has_media: bool,
    pub outputs: u32,
    /// For each output: offsets of the tokens that its sampling rule changes, and of its mask of allowed tokens.
    pub draws: Vec<[u32; 2]>,
}

/// The distinct attention masks of a program.
pub struct Masks(Vec<Mask>);

impl Masks {
    pub fn new(program: &Program) -> Masks {
        let mut masks = Vec::new();
        for op in &program.ops {
            if let Op::Attend(attend) = op
                && !masks.contains(&attend.mask)
            {
                masks.push(attend.mask);
            }
        }
        Masks(masks)
    }

    pub fn index(&self, mask: Mask) -> usize {
        self.0.iter().position(|known| *known == mask).unwrap_or_default()
    }
}

/// Returns the maximum size of a step's inputs, in words.
pub fn words(program: &Program, masks: &Masks, limits: StepLimits) -> usize {
    let StepLimits { max_tokens: n, max_outputs: m } = limits;
    let angles: usize = ropes(program).into_iter().map(|(_, pairs)| 2 * pairs).sum();
    let tokens = 2 + 2 * masks.0.len() + angles;
    (n + m) * tokens + 2 * n + m + n * program.media_width() + m * draws::input_words(program) + 64
}

/// Returns the RoPE tables of a program, each with the maximum number of its pairs.
fn ropes(program: &Program) -> Vec<(RopeTable, usize)> {
    let mut tables: Vec<(RopeTable, usize)> = Vec::new();
    for op in &program.ops {
        let Op::Rope { rope, head_dim, .. } = op else { continue };
        for table in [Some(rope.table), rope.long.map(|(_, table)| table)].into_iter().flatten() {
            match tables.iter_mut().find(|(known, _)| *known == table) {
                Some((_, pairs)) => *pairs = (*pairs).max(head_dim / 2),
                None => tables.push((table, head_dim / 2)),
            }
        }
    }
    tables
}

/// Returns the range of positions that a token attends to.
fn range(mask: Mask, position: u32, span: [u32; 2], length: u32) -> [u32; 2] {
    let has_span = span[0] < span[1];
    let end = if has_span { span[1].max(position + 1) } else { position + 1 };
    match mask {
        Mask::Causal => [0, end],
        Mask::Past => [0, position + 1],
        Mask::Window(n) => [(position + 1).saturating_sub(n), end],
        Mask::Chunk(n) => [position / n * n, position + 1],
        Mask::All => [0, length],
        Mask::Around(n) => [position.saturating_sub(n), position.saturating_add(n + 1).min(length)],
        Mask::Spans if has_span => span,
        Mask::Spans => [0, length],
        Mask::Source if has_span => span,
        Mask::Source => [0, position + 1],
        Mask::AfterSpan => [if has_span { span[1].min(position) } else { 0 }, position + 1],
    }
}

/// Everything from which the inputs of a step are computed.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    pub inputs: &'a StepInputs<'a>,
    pub masks: &'a Masks,
    pub weights: &'a DeviceWeights,
    /// The RoPE tables that the step uses.
    pub tables: &'a [RopeTable],
    pub media_width: usize,
    /// Sampling rules of the outputs.
    pub draws: &'a [Option<Draw>],
}

struct Writer {
    words: Vec<u32>,
}

impl Writer {
    fn array(&mut self, words: impl IntoIterator<Item = u32>) -> u32 {
        let start = self.words.len() as u32;
        self.words.extend(words);
        start
    }
}

impl Sources<'_> {
    /// Lays out the inputs of a step, in at most `capacity` words.
    pub fn place(&self, capacity: usize) -> Result<(Placed, Vec<u32>)> {
        let inputs = self.inputs;
        let n = inputs.ids.len();
        let mut writer = Writer { words: try_vec("a step's inputs", capacity)? };
        let mut next = 0;
        let mut media_of = |id: &u32| {
            let row = if *id == MEDIA_ROW && !inputs.media.is_empty() { next } else { NONE };
            next += u32::from(row != NONE);
            row
        };
        let mut placed = Placed {
            zeros: writer.array((0..n).map(|_| 0)),
            media_of: writer.array(inputs.ids.iter().map(&mut media_of)),
            outputs: writer.array(inputs.outputs.iter().copied()),
            has_media: !inputs.media.is_empty(),
            ..Placed::default()
        };
        let media = inputs.media.iter().flat_map(|row| row[..self.media_width].iter().map(|value| value.to_bits()));
        placed.media = writer.array(media);
        for draw in self.draws {
            let Some(draw) = draw else {
                placed.draws.push([NONE; 2]);
                continue;
            };
            let changed = writer.array(draw.changed.iter().copied());
            let allowed = draw.allowed.as_ref().map_or(NONE, |bits| writer.array(bits.iter().copied()));
            placed.draws.push([changed, allowed]);
        }
        placed.all = self.tokens(&mut writer, &|i| i, n);
        placed.kept = self.tokens(&mut writer, &|i| inputs.outputs[i] as usize, inputs.outputs.len());
        Ok((placed, writer.words))
    }

    /// Writes the arrays of `n` tokens; `at` returns the index of a token in the step.
    fn tokens(&self, writer: &mut Writer, at: &dyn Fn(usize) -> usize, n: usize) -> Tokens {
        let Sources { inputs, masks, weights, tables, .. } = *self;
        let length = |t: usize| {
            let end = inputs.sequences.partition_point(|&s| s <= inputs.sequences[t]);
            inputs.positions[end - 1] + 1
        };
        let id = |i: usize| Some(inputs.ids[at(i)]).filter(|id| *id != MEDIA_ROW).unwrap_or(0);
        let mut of = Tokens {
            n,
            ids: writer.array((0..n).map(id)),
            positions: writer.array((0..n).map(|i| inputs.positions[at(i)])),
            ..Tokens::default()
        };
        for mask in &masks.0 {
            let range_of = |i: usize| {
                let t = at(i);
                range(*mask, inputs.positions[t], inputs.spans.get(t).copied().unwrap_or_default(), length(t))
            };
            of.ranges.push(writer.array((0..n).flat_map(range_of)));
        }
        of.angles = vec![NONE; weights.ropes().len()];
        for table in tables {
            let rope = weights.rope(*table);
            let start = writer.words.len() as u32;
            for i in 0..n {
                let t = at(i);
                let rotary = inputs.rope_positions.get(t).copied().unwrap_or([inputs.positions[t]; 3]);
                for (pair, &inv_freq) in rope.inv_freq.iter().enumerate() {
                    let axis = rope.axes.get(pair).map_or(0, |axis| usize::from(*axis).min(2));
                    let position = f64::from(rotary[axis].saturating_sub(rope.position_offset));
                    let (sin, cos) = libm::sincos(position * inv_freq);
                    let magnitude = f64::from(rope.magnitude);
                    writer.words.extend([cos, sin].map(|value| ((value * magnitude) as f32).to_bits()));
                }
            }
            of.angles[table.0 as usize] = start;
        }
        let mut start = 0;
        let sequences: Vec<u32> = (0..n).map(|i| inputs.sequences[at(i)]).collect();
        for run in sequences.chunk_by(|a, b| a == b) {
            let (tokens, length) = (start..start + run.len(), length(at(start)) as usize);
            of.runs.push(Run { sequence: run[0] as usize, tokens, length });
            start += run.len();
        }
        of
    }
}
