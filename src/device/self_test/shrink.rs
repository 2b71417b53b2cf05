//! The small program of a self-test: ops of a model with few rows, experts and heads, and with synthetic weights.

use std::collections::BTreeMap;

use super::made_up::Made;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::graph::op::{Groups, Op, TensorId, Weight};
use crate::graph::plain_op;
use crate::graph::program::{Program, ProgramBuilder};
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::Weights;
use crate::quant;

/// Rows of a matrix: more than a tile, and odd.
const ROWS: usize = 131;
/// Rows of an embedding table.
pub const TABLE: usize = 107;
/// Number of selected positions: fewer than keys precede the tested ones, even if a few positions share a key.
const CHOSEN: usize = 40;
/// Width of experts whose types have no blocks.
const EXPERT: [usize; 2] = [52, 44];

/// Returns the maximum block length of some matrices; 1 without blocks.
fn widest_block(device: &dyn GpuDevice, weights: &Weights, matrices: &[Weight]) -> Result<usize> {
    let mut widest = 1;
    for weight in matrices {
        let dtype = weights.matrices[weight.0 as usize].dtype();
        widest = widest.max(quant::format(device.stored_type(dtype)?)?.block_len);
    }
    Ok(widest)
}

/// Shrinks matrices, experts and tables of some ops; returns the widths of their activations.
pub fn shrink(
    program: &Program,
    device: &dyn GpuDevice,
    weights: &Weights,
    ops: &mut [Op],
) -> Result<BTreeMap<TensorId, usize>> {
    let mut widths = BTreeMap::new();
    for op in ops.iter() {
        op.for_each_tensor(|tensor| {
            widths.insert(tensor, program.width(tensor));
        });
    }
    let cols = |matrices: &[Weight], otherwise: usize| {
        let widest = widest_block(device, weights, matrices)?;
        Ok::<_, Error>(if widest == 1 { otherwise } else { widest })
    };
    for op in &mut *ops {
        match op {
            Op::Embed { rows, .. } => *rows = (*rows).min(TABLE),
            Op::Project { projections, .. } => {
                widths.extend(projections.iter().map(|p| (p.out, program.width(p.out).min(ROWS))));
            }
            Op::Add { x, delta, .. } => {
                let both = widths[x].min(widths[delta]);
                widths.extend([(*x, both), (*delta, both)]);
            }
            Op::ProjectHeads { x, heads, out, .. } => {
                let few = (*heads).min(3);
                widths.extend([*x, *out].map(|tensor| (tensor, program.width(tensor) / *heads * few)));
                *heads = few;
            }
            Op::Experts(e) => {
                let r = &e.routing;
                let in_group = (r.n_used.div_ceil(r.groups_used) + 2).next_multiple_of(r.sharing);
                let in_group = in_group.min(e.n_experts / r.groups);
                e.n_experts = r.groups * in_group;
                // Scores select the experts, because a table by token id would bound the ids.
                e.routing.by_id = None;
                let hidden = cols(&[e.gate.unwrap_or(e.up), e.up], EXPERT[0])?.min(program.width(e.x));
                e.ffn = cols(&[e.down], EXPERT[1])?.min(e.ffn);
                widths.extend([(e.x, hidden), (e.out, hidden), (e.scores, e.n_experts)]);
            }
            Op::EmbedNgrams(e) => {
                for (head, first) in e.heads.iter_mut().zip((0..).step_by(TABLE)) {
                    (head.first, head.rows) = (first, head.rows.min(TABLE as u64));
                }
            }
            Op::Select(s) => {
                let (top, size) = (program.width(s.out), s.groups.size());
                let (least, tail) = match s.groups {
                    Groups::One => (1, 0),
                    Groups::Pools(_) => (1, size - 1),
                    Groups::Blocks { local, .. } => (local as usize, 0),
                };
                widths.insert(s.out, (CHOSEN / size).max(least).min(top / size) * size + tail);
            }
            Op::Attend(a) => widths.extend(a.among.map(|among| (among, program.width(among).min(CHOSEN / 4)))),
            plain_op!()
            | Op::StoreKv { .. }
            | Op::Conv(_)
            | Op::Pool(_)
            | Op::DeltaRule(_)
            | Op::Scan(_)
            | Op::Wkv(_)
            | Op::OnHost(_)
            | Op::Logits { .. } => {}
        }
    }
    // A norm that is fused into the other ops' input has the width of its result.
    if let [Op::Norm { norm, x, out }, _, ..] = ops
        && x != out
    {
        norm.group = widths[out];
        widths.insert(*x, norm.group);
    }
    Ok(widths)
}

/// Returns the ops of a test. Attention is tested with all rows.
pub fn tested(program: &Program, at: &[usize]) -> Vec<Op> {
    let mut ops: Vec<Op> = at.iter().map(|i| program.ops[*i].clone()).collect();
    if let Some(i) = ops.iter().position(|op| matches!(op, Op::KeepOutputs { .. })).filter(|_| ops.len() > 1)
        && let Op::KeepOutputs { moves } = ops.remove(i)
    {
        let moved = |tensor| moves.iter().find(|[_, to]| *to == tensor).map_or(tensor, |[from, _]| *from);
        ops[i..].iter_mut().for_each(|op| op.map_tensors(moved));
    }
    ops
}

/// Gives ops synthetic weights, and activations, KV caches and states of `b`. `tensor` returns the activation that
/// replaces another one, and its width.
pub fn rename(
    ops: &mut [Op],
    program: &Program,
    made: &mut Made,
    b: &mut ProgramBuilder,
    tensor: &dyn Fn(TensorId) -> (TensorId, usize),
) -> Result<()> {
    let (mut layers, mut recurrent) = (BTreeMap::new(), BTreeMap::new());
    for op in ops {
        made.weights_of(op, &|x| tensor(x).1)?;
        if let Op::Attend(a) = op {
            // Otherwise synthetic keys would leave attention on a single position.
            a.scale = a.scale.min(1.0 / (program.kv_layers[a.layer.0 as usize].head_dim as f32).sqrt());
        }
        op.map_tensors(|x| tensor(x).0);
        if let Some(layer) = op.layer_mut() {
            let shape = program.kv_layers[layer.0 as usize];
            *layer = *layers.entry(*layer).or_insert_with(|| b.kv_layer(shape));
        }
        if let Some(state) = op.recurrent_mut() {
            let values = program.recurrent[state.0 as usize];
            *state = *recurrent.entry(*state).or_insert_with(|| b.recurrent(values));
        }
    }
    if layers.is_empty() {
        b.kv_layer(KvLayer::new(1, 32, 0));
    }
    Ok(())
}
