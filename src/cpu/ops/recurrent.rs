//! Recurrent ops on the CPU: each sequence of a step separately, divided among threads by channels or columns, which
//! are independent.
#![allow(unsafe_code)]

use crate::cpu::kernels::recurrent::{
    self, Columns, ColumnsMut, ConvChannels, DeltaColumns, ScanChannels, TILE, WkvColumns,
};
use crate::cpu::kernels::{Isa, PANEL_ROWS};
use crate::cpu::sequence::CpuSequence;
use crate::cpu::tensors::StepTensors;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::error::{Error, Result};
use crate::graph::op::{Conv, DeltaRule, Pool, RecurrentId, Scan, Wkv};
use crate::graph::step::{SequencesMut, StepInputs};

/// Number of channels of a convolution per thread at a time: whole cache lines of each row.
const CHANNELS: usize = 64;

/// Number of values that are convolved before another thread could have started.
const SMALL_CONV: usize = 2048;

/// Number of state elements that are processed before another thread could have started.
const SMALL_STATE: usize = 8192;

/// Calls `advance` with the rows of each sequence, its state before them, and the buffer for its state after them.
pub fn each_sequence(
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
    recurrent: RecurrentId,
    mut advance: impl FnMut(std::ops::Range<usize>, &[f32], &mut [f32]),
) -> Result<()> {
    for (i, rows) in inputs.runs() {
        let (from, to) = sequences.recurrent_buffers(i as usize, inputs.positions[rows.start] as usize)?;
        let Some(sequence) = sequences.get_mut(i as usize) else {
            return Err(Error::invalid(format!("sequence {i} does not exist; the step has {}", inputs.ids.len())));
        };
        let (from, to) = sequence.recurrent.step(recurrent, from, to)?;
        advance(rows, from, to);
    }
    Ok(())
}

/// Calls `item` for all items, only on the caller's thread if they are `small`.
fn for_each(team: &Team, small: bool, n: usize, item: impl Fn(usize) + Sync) {
    if small { (0..n).for_each(item) } else { team.for_each(n, item) }
}

pub fn conv(
    team: &Team,
    isa: Isa,
    op: &Conv,
    kernel: &[f32],
    bias: Option<&[f32]>,
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let (x, width) = tensors.get(op.x);
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let (x, to) = (&mut x[rows.start * width..rows.end * width], DisjointSlice::new(to));
        let (n, small) = (rows.len(), x.len() <= SMALL_CONV);
        let x = DisjointSlice::new(x);
        for_each(team, small, width.div_ceil(CHANNELS), |i| {
            let channels = i * CHANNELS..width.min((i + 1) * CHANNELS);
            let (to, x) = (&to, &x);
            let (taps, silu) = (op.taps, op.silu);
            let part = ConvChannels { n, taps, channels, width, kernel, bias, silu, from, to, x };
            // SAFETY: channels belong to one item.
            unsafe { recurrent::conv(isa, &part) };
        });
    })
}

/// Returns columns of some rows of an activation.
fn columns<'a>(values: &'a [f32], width: usize, rows: &std::ops::Range<usize>, first: usize) -> Columns<'a> {
    Columns { values: &values[rows.start * width..rows.end * width], width, first }
}

pub fn delta_rule(
    team: &Team,
    isa: Isa,
    op: &DeltaRule,
    rate: &[f32],
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let all = tensors.disjoint([op.q, op.k, op.v, op.dt, op.beta, op.out]);
    let [(q, _), (k, keys), (v, values), (dt, decays), (beta, heads), (out, _)] = all;
    let (q, k, v, dt, beta) = (&*q, &*k, &*v, &*dt, &*beta);
    let (key_heads, value_dim, blocks) = (keys / op.key_dim, values / heads, values / heads / PANEL_ROWS);
    let (tiles, block) = (blocks.div_ceil(TILE), op.key_dim * PANEL_ROWS);
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let small = rows.len() * from.len() <= SMALL_STATE;
        let (to, out) = (DisjointSlice::new(to), DisjointSlice::new(&mut out[rows.start * values..rows.end * values]));
        for_each(team, small, heads * tiles, |i| {
            let (head, tile) = (i / tiles, i % tiles);
            let key_head = if op.tiled { head % key_heads } else { head * key_heads / heads };
            let first = head * blocks + tile * TILE;
            let place = first * block..(head * blocks + blocks.min((tile + 1) * TILE)) * block;
            let per_row = decays > heads;
            let column = head * value_dim + tile * TILE * PANEL_ROWS;
            let mut part = DeltaColumns {
                n: rows.len(),
                key_dim: op.key_dim,
                q: columns(q, keys, &rows, key_head * op.key_dim),
                k: columns(k, keys, &rows, key_head * op.key_dim),
                v: columns(v, values, &rows, column),
                dt: columns(dt, decays, &rows, if per_row { head * op.key_dim } else { head }),
                per_row,
                beta: columns(beta, heads, &rows, head),
                rate: rate[head],
                from: &from[place.clone()],
                // SAFETY: a tile of a head belongs to one item.
                to: unsafe { to.slice_mut(place) },
                out: ColumnsMut { values: &out, width: values, first: column },
            };
            // SAFETY: as above.
            unsafe { recurrent::delta_rule(isa, &mut part) };
        });
    })
}

pub fn scan(
    team: &Team,
    isa: Isa,
    op: &Scan,
    rate: &[f32],
    skip: &[f32],
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let [(x, width), (dt, heads), (b, grouped), (c, _), (out, _)] = tensors.disjoint([op.x, op.dt, op.b, op.c, op.out]);
    let (x, dt, b, c) = (&*x, &*dt, &*b, &*c);
    let (groups, head_dim, block) = (grouped / op.state, width / heads, op.state * PANEL_ROWS);
    let blocks = width / groups / PANEL_ROWS;
    let tiles = blocks.div_ceil(TILE);
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let small = rows.len() * from.len() <= SMALL_STATE;
        let (to, out) = (DisjointSlice::new(to), DisjointSlice::new(&mut out[rows.start * width..rows.end * width]));
        for_each(team, small, groups * tiles, |i| {
            let (group, tile) = (i / tiles, i % tiles);
            let first = group * blocks + tile * TILE;
            let place = first * block..(group * blocks + blocks.min((tile + 1) * TILE)) * block;
            let mut part = ScanChannels {
                n: rows.len(),
                state: op.state,
                head_dim,
                x: columns(x, width, &rows, first * PANEL_ROWS),
                dt: columns(dt, heads, &rows, 0),
                b: columns(b, grouped, &rows, group * op.state),
                c: columns(c, grouped, &rows, group * op.state),
                rate,
                per_state: rate.len() > heads,
                skip,
                from: &from[place.clone()],
                // SAFETY: a tile of a group belongs to one item.
                to: unsafe { to.slice_mut(place) },
                out: ColumnsMut { values: &out, width, first: first * PANEL_ROWS },
            };
            // SAFETY: as above.
            unsafe { recurrent::scan(isa, &mut part) };
        });
    })
}

pub fn wkv(
    team: &Team,
    isa: Isa,
    op: &Wkv,
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let always = [op.r, op.k, op.v, op.dt, op.out];
    let ([(r, wide), (k, keys), (v, _), (dt, _), (out, _)], moved) = match op.moved {
        Some([a, b]) => {
            let [r, k, v, dt, out, a, b] = tensors.disjoint([op.r, op.k, op.v, op.dt, op.out, a, b]);
            ([r, k, v, dt, out], Some([a.0, b.0]))
        }
        None => (tensors.disjoint(always), None),
    };
    let (r, k, v, dt, dim) = (&*r, &*k, &*v, &*dt, op.dim);
    let moved = moved.as_ref().map(|[a, b]| [&**a, &**b]);
    let (heads, key_heads, blocks, block) = (wide / dim, keys / dim, dim / PANEL_ROWS, dim * PANEL_ROWS);
    let tiles = blocks.div_ceil(TILE);
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let small = rows.len() * from.len() <= SMALL_STATE;
        let (to, out) = (DisjointSlice::new(to), DisjointSlice::new(&mut out[rows.start * wide..rows.end * wide]));
        for_each(team, small, heads * tiles, |i| {
            let (head, tile) = (i / tiles, i % tiles);
            let key_head = head * key_heads / heads;
            let place = (head * blocks + tile * TILE) * block..(head * blocks + blocks.min((tile + 1) * TILE)) * block;
            let column = tile * TILE * PANEL_ROWS;
            let mut part = WkvColumns {
                n: rows.len(),
                dim,
                r: columns(r, wide, &rows, head * dim),
                k: columns(k, keys, &rows, key_head * dim),
                v: columns(v, keys, &rows, key_head * dim + column),
                dt: columns(dt, wide, &rows, head * dim),
                rate: op.rate,
                moved: moved.map(|ab| ab.map(|values| columns(values, wide, &rows, head * dim))),
                before: op.before,
                fades: op.fades,
                from: &from[place.clone()],
                // SAFETY: a tile of a head belongs to one item.
                to: unsafe { to.slice_mut(place) },
                out: ColumnsMut { values: &out, width: wide, first: head * dim + column },
            };
            // SAFETY: as above.
            unsafe { recurrent::wkv(isa, &mut part) };
        });
    })
}

pub fn pool(
    team: &Team,
    op: &Pool,
    bias: &[f32],
    tensors: &mut StepTensors,
    inputs: &StepInputs,
    sequences: &mut dyn SequencesMut<CpuSequence>,
) -> Result<()> {
    let [(gate, width), (x, _), (out, out_width)] = tensors.disjoint([op.gate, op.x, op.out]);
    // Number of terms of a sum: of the group, or of the group and the previous one.
    let members = op.size * (width / out_width);
    let (gate, x, kept) = (&*gate, &*x, members - 1);
    each_sequence(inputs, sequences, op.recurrent, |rows, from, to| {
        let n = rows.len();
        // Returns gate and value of a row of the sequence, counted from the first kept one.
        let member = |row: usize, channel: usize| match row.checked_sub(kept) {
            None => (from[row * 2 * width + channel], from[(row * 2 + 1) * width + channel]),
            Some(t) => {
                let at = (rows.start + t) * width + channel;
                (gate[at], x[at])
            }
        };
        let out = DisjointSlice::new(&mut out[rows.start * out_width..rows.end * out_width]);
        for_each(team, n * width <= SMALL_CONV, n, |t| {
            // SAFETY: a row belongs to one item.
            let out = unsafe { out.slice_mut(t * out_width..(t + 1) * out_width) };
            let so_far = inputs.positions[rows.start + t] as usize + 1;
            if !so_far.is_multiple_of(op.size) {
                return out.fill(0.0);
            }
            for (channel, out) in out.iter_mut().enumerate() {
                // Each group uses the next `out_width` channels.
                let scores = || {
                    (members.saturating_sub(so_far)..members).map(|i| {
                        let channel = i / op.size * out_width + channel;
                        (member(t + i, channel), bias[i % op.size * width + channel])
                    })
                };
                let peak = scores().map(|((gate, _), bias)| gate + bias).fold(f32::NEG_INFINITY, f32::max);
                let weights = scores().map(|((gate, x), bias)| (libm::expf(gate + bias - peak), x));
                let (total, sum) = weights.fold((0.0, 0.0), |(total, sum), (w, x)| (total + w, sum + w * x));
                *out = sum / total;
            }
        });
        for (row, to) in to.chunks_exact_mut(2 * width).enumerate() {
            let (gates, values) = to.split_at_mut(width);
            for (channel, (g, v)) in gates.iter_mut().zip(values).enumerate() {
                (*g, *v) = member(n + row, channel);
            }
        }
    })
}
