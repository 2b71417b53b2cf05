//! Element-wise and row-wise ops.

use super::{Lowering, activation_code, words};
use crate::error::{Error, Result};
use crate::graph::op::{Mix, Norm, NormKind, Op, RopeChoice, RopeTable, TensorId};
use crate::graph::weights::RopePairs;
use crate::wgpu::kernels::{Kernel, NONE};

/// Threads per workgroup of `map`, `move` and `rope`.
const THREADS: usize = 64;

/// The modes of `map.wgsl`.
#[derive(Clone, Copy)]
enum Mode {
    Add = 0,
    Scale = 1,
    ScaleColumns = 2,
    ScaleByPosition = 3,
    Clamp = 4,
    Xielu = 5,
    Gate = 6,
    GateSigmoid = 7,
    Glu = 8,
    Activate = 9,
    SetMedia = 10,
    AddMedia = 11,
    Softcap = 12,
}

/// The modes of `move.wgsl`.
#[derive(Clone, Copy)]
enum Move {
    Slice = 0,
    JoinHeads = 1,
    Gather = 2,
    KeepRows = 3,
    Mean = 4,
}

/// Arguments of `move.wgsl` in addition to the rows.
#[derive(Clone, Copy)]
struct Copied {
    mode: Move,
    tail: Option<TensorId>,
    /// Number of values per head of `x`, or index of the first value.
    first: usize,
    /// Number of values per head of the result, or number of groups.
    each: usize,
    vector: u32,
}

impl Copied {
    fn of(mode: Move) -> Copied {
        Copied { mode, tail: None, first: 0, each: 1, vector: NONE }
    }
}

/// Arguments of `map.wgsl` in addition to the rows.
#[derive(Clone, Copy, Default)]
struct Map {
    /// Offset of the second activation; `y_row` is its row stride.
    y: u32,
    y_row: usize,
    vector: u32,
    each: usize,
    numbers: [f32; 4],
    tokens: u32,
    activation: u32,
    length: u32,
    offset: u32,
}

/// Rows of values: offset, row stride, width and number of rows.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub at: u32,
    pub row: usize,
    pub width: usize,
    pub n: usize,
}

impl Lowering<'_> {
    fn rows_of(&self, tensor: TensorId) -> Rows {
        let width = self.width(tensor);
        Rows { at: self.tensor(tensor), row: width, width, n: self.n() }
    }

    fn map(&mut self, mode: Mode, x: Rows, m: Map) -> Result<()> {
        let [a, b, c, d] = m.numbers;
        let words: &[u32] = words![
            mode as u32,
            x.width,
            x.at,
            x.row,
            m.y,
            m.y_row,
            m.vector,
            m.each,
            a,
            b,
            c,
            d,
            m.tokens,
            m.activation,
            m.length,
            m.offset,
            0u32
        ];
        let kernel = Kernel::new("map", &["functions"]);
        self.launch(&kernel, 0, [x.width.div_ceil(THREADS), x.n, 1], words)
    }

    /// Appends the launches of an op that a mode of `map` or `move` computes.
    pub(super) fn rows(&mut self, op: &Op) -> Result<()> {
        match op {
            Op::Add { x, delta, scale } => {
                let numbers = [*scale, 0.0, 0.0, 0.0];
                let m = Map { y: self.tensor(*delta), y_row: self.width(*delta), numbers, ..Map::default() };
                self.map(Mode::Add, self.rows_of(*x), m)
            }
            Op::Scale { x, factor } => {
                self.map(Mode::Scale, self.rows_of(*x), Map { numbers: [*factor, 0.0, 0.0, 0.0], ..Map::default() })
            }
            Op::ScaleColumns { x, by } => {
                let vector = self.weights.vector(Some(*by));
                self.map(Mode::ScaleColumns, self.rows_of(*x), Map { vector, ..Map::default() })
            }
            Op::ScaleByPosition { x, slope, length, offset } => {
                let tokens = self.tokens().positions;
                let numbers = [*slope, 0.0, 0.0, 0.0];
                let m = Map { numbers, tokens, length: *length, offset: *offset, ..Map::default() };
                self.map(Mode::ScaleByPosition, self.rows_of(*x), m)
            }
            Op::Clamp { x, low, high } => {
                self.map(Mode::Clamp, self.rows_of(*x), Map { numbers: [*low, *high, 0.0, 0.0], ..Map::default() })
            }
            Op::Xielu { x, curve } => {
                let numbers = [curve.rise, curve.fall, curve.slope, curve.eps];
                self.map(Mode::Xielu, self.rows_of(*x), Map { numbers, ..Map::default() })
            }
            Op::AddMedia { x, part } if self.placed.has_media => {
                let offset = part * self.width(*x);
                self.map(Mode::AddMedia, self.rows_of(*x), self.of_media(offset))
            }
            Op::AddMedia { .. } => Ok(()),
            Op::Gate { x, gate, sigmoid } => {
                let (x, y_row) = (self.rows_of(*x), self.width(*gate));
                let m = Map { y: self.tensor(*gate), y_row, each: x.width / y_row, ..Map::default() };
                self.map(if *sigmoid { Mode::GateSigmoid } else { Mode::Gate }, x, m)
            }
            Op::Glu { gate, up, activation } => {
                let (activation, [a, b]) = activation_code(*activation);
                let m = Map { activation, numbers: [a, b, 0.0, 0.0], ..Map::default() };
                let x = self.rows_of(*gate);
                match up {
                    Some(up) => self.map(Mode::Glu, x, Map { y: self.tensor(*up), y_row: self.width(*up), ..m }),
                    None => self.map(Mode::Activate, x, m),
                }
            }
            Op::Slice { x, first, out } => self.copy([*x, *out], Copied { first: *first, ..Copied::of(Move::Slice) }),
            Op::Gather { x, by, out } => {
                let by = self.weights.vector(Some(*by));
                self.copy([*x, *out], Copied { vector: by, ..Copied::of(Move::Gather) })
            }
            Op::JoinHeads { x, tail, heads, out } => {
                let (first, each) = (self.width(*x) / heads, self.width(*out) / heads);
                self.copy([*x, *out], Copied { tail: Some(*tail), first, each, ..Copied::of(Move::JoinHeads) })
            }
            Op::Mean { x, groups, out } => self.copy([*x, *out], Copied { each: *groups, ..Copied::of(Move::Mean) }),
            Op::Dot { x, y, out } => self.dot([*x, *y, *out]),
            Op::Mix(mix) => self.mix(mix),
            Op::MixByScore { x, by, eps, out } => {
                let (width, n) = (self.width(*out), self.n());
                let (streams, by) = (self.width(*x) / width, self.weights.vector(Some(*by)));
                let words: &[u32] = words![self.tensor(*x), by, self.tensor(*out), width, streams, *eps, 0u32];
                self.launch(&Kernel::new("mix_by_score", &["functions"]), 0, [n, 1, 1], words)
            }
            Op::Sinkhorn { x, eps, rounds } => {
                let (size, n) = (self.width(*x).isqrt(), self.n());
                let words: &[u32] = words![self.tensor(*x), size, *rounds, *eps, 0u32];
                self.launch(&Kernel::new("sinkhorn", &["functions"]), 0, [n, 1, 1], words)
            }
            Op::Rescale { x, like } => self.rescale(*x, Some(*like), 0.0),
            Op::Threshold { x, deviations } => self.rescale(*x, None, *deviations),
            op => Err(Error::unsupported(format!("{op:?} is not supported on this GPU"))),
        }
    }

    /// Computes `gate = activation(gate) * up` for rows that are not tensors of the program.
    pub(super) fn glu(
        &mut self,
        gate: Rows,
        up: Option<u32>,
        up_row: usize,
        activation: (u32, [f32; 2]),
    ) -> Result<()> {
        let (activation, [a, b]) = activation;
        let m = Map { activation, numbers: [a, b, 0.0, 0.0], y: up.unwrap_or(0), y_row: up_row, ..Map::default() };
        self.map(if up.is_some() { Mode::Glu } else { Mode::Activate }, gate, m)
    }

    /// Scales the logits, and applies the softcap.
    pub(super) fn shape_logits(&mut self, scale: f32, softcap: f32) -> Result<()> {
        let vocab = self.program.vocab;
        let rows = Rows { at: self.scratch.logits, row: vocab, width: vocab, n: self.n() };
        let numbers = [scale, softcap, 0.0, 0.0];
        match (softcap != 0.0, scale != 1.0) {
            (true, _) => self.map(Mode::Softcap, rows, Map { numbers, ..Map::default() }),
            (false, true) => self.map(Mode::Scale, rows, Map { numbers, ..Map::default() }),
            (false, false) => Ok(()),
        }
    }

    fn of_media(&self, offset: usize) -> Map {
        let y_row = self.program.media_width();
        Map { y: self.placed.media, y_row, tokens: self.placed.media_of, offset: offset as u32, ..Map::default() }
    }

    /// Replaces the embeddings of media tokens by media rows.
    pub(super) fn set_media(&mut self, x: TensorId) -> Result<()> {
        self.map(Mode::SetMedia, self.rows_of(x), self.of_media(0))
    }

    fn copy(&mut self, [x, out]: [TensorId; 2], of: Copied) -> Result<()> {
        let Copied { mode, tail, first, each, vector } = of;
        let (width, n) = (self.width(out), self.n());
        let (y, y_row) = tail.map_or((0, 0), |tail| (self.tensor(tail), self.width(tail)));
        let scale = 1.0 / each as f32;
        let words: &[u32] = words![
            mode as u32,
            width,
            self.tensor(x),
            self.width(x),
            y,
            y_row,
            self.tensor(out),
            width,
            first,
            each,
            vector,
            NONE,
            scale
        ];
        self.launch(&Kernel::new("move", &[]), 0, [width.div_ceil(THREADS), n, 1], words)
    }

    /// Copies the rows of the outputs.
    pub(super) fn keep(&mut self, from: TensorId, to: TensorId) -> Result<()> {
        let (width, n) = (self.width(from), self.placed.kept.n);
        let (x, out, rows) = (self.tensor(from), self.tensor(to), self.placed.outputs);
        let words: &[u32] =
            words![Move::KeepRows as u32, width, x, width, 0u32, 0u32, out, width, 0u32, 1u32, NONE, rows, 1f32];
        self.launch(&Kernel::new("move", &[]), 0, [width.div_ceil(THREADS), n, 1], words)
    }

    pub(super) fn norm(&mut self, norm: &Norm, x: TensorId, out: TensorId) -> Result<()> {
        let width = self.width(x);
        let (weight, weight_step) = self.grouped(norm.weight, norm.group);
        let (bias, bias_step) = self.grouped(norm.bias, norm.group);
        let kind = match norm.kind {
            NormKind::Rms => 0u32,
            NormKind::Layer => 1,
        };
        let words: &[u32] = words![
            self.tensor(x),
            width,
            self.tensor(out),
            width,
            norm.group,
            weight,
            weight_step,
            bias,
            bias_step,
            kind,
            norm.eps
        ];
        let n = self.n();
        self.launch(&Kernel::new("norm", &[]), 0, [width / norm.group, n, 1], words)
    }

    /// Returns the RoPE table to use with the capacity of the step's sequences.
    pub(super) fn table(&self, rope: RopeChoice) -> RopeTable {
        rope.long.filter(|(above, _)| self.capacity > *above).map_or(rope.table, |(_, table)| table)
    }

    pub(super) fn rotate(&mut self, table: RopeTable, x: TensorId, dim: usize, first: usize) -> Result<()> {
        let rope = self.weights.rope(table);
        let (pairs, is_adjacent) = (rope.inv_freq.len(), rope.pairs == RopePairs::Adjacent);
        let (width, angles) = (self.width(x), self.tokens().angles[table.0 as usize]);
        let heads = width / dim;
        let words: &[u32] = words![self.tensor(x), width, heads, dim, first, pairs, is_adjacent, angles];
        let n = self.n();
        self.launch(&Kernel::new("rope", &[]), 0, [(heads * pairs).div_ceil(THREADS), n, 1], words)
    }

    /// Computes weighted sums of streams.
    fn mix(&mut self, op: &Mix) -> Result<()> {
        let [from, to] = [op.x, op.out].map(|tensor| self.width(tensor));
        let (values, n) = (to - op.first, self.n());
        let (by, by_row) = op.by.map_or((NONE, 0), |by| (self.tensor(by), self.width(by)));
        let (x, out) = (self.tensor(op.x), self.tensor(op.out) + op.first as u32);
        let words: &[u32] = words![x, from, by, by_row, out, to, op.width, from / op.width, values, op.adds];
        self.launch(&Kernel::new("mix", &[]), 0, [values.div_ceil(THREADS), n, 1], words)
    }

    /// Scales each part of `x` to the mean square of `like`, or thresholds rows.
    fn rescale(&mut self, x: TensorId, like: Option<TensorId>, deviations: f32) -> Result<()> {
        let (width, part, n) = (self.width(x), self.width(like.unwrap_or(x)), self.n());
        let like = like.map_or(NONE, |like| self.tensor(like));
        let words: &[u32] = words![self.tensor(x), width, part, like, deviations, 0u32];
        self.launch(&Kernel::new("rescale", &["functions"]), 0, [width / part, n, 1], words)
    }

    fn dot(&mut self, [x, y, out]: [TensorId; 3]) -> Result<()> {
        let (heads, width) = (self.width(out), self.width(x));
        let words: &[u32] =
            words![self.tensor(x), width, self.tensor(y), self.width(y), self.tensor(out), heads, heads, width / heads];
        let n = self.n();
        self.launch(&Kernel::new("dot_heads", &[]), 0, [heads, n, 1], words)
    }
}
