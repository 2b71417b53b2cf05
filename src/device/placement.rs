//! Expert offload (`n-cpu-moe`): which layers on GPUs have their experts on the CPU, and the programs of both sides.
//!
//! A layer is divided at its MoE block. The device sends the experts' input and the router's scores to the host,
//! continues with work that does not need their result, such as a shared expert, and receives their sum.

use std::ops::Range;
use std::sync::Arc;

use super::load::Load;
use super::partition::{self, Division};
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::gpu::pieces::piece_bytes;
use crate::graph::load_options::{Copied, Placement};
use crate::graph::op::{Experts, OnHost, Op, TensorId, Weight};
use crate::graph::program::{Program, ProgramBuilder};
use crate::graph::weights::Weights;

/// Fails if a placement names layers that a network does not have.
pub fn check(placement: Placement, program: &Program) -> Result<()> {
    let Placement::Host { first, n } = placement else { return Ok(()) };
    let (layers, there) = (program.layers.len(), mixtures(program).iter().filter(|layer| **layer >= first).count());
    match n {
        // A placement that names no layer is valid for a network without experts.
        None if first == 0 => Ok(()),
        _ if first >= layers => Err(Error::invalid(format!(
            "the first layer of a placement is {first}; it must be below the number of layers, {layers}"
        ))),
        _ if there == 0 || n.is_some_and(|n| n > there) => Err(Error::invalid(format!(
            "cannot place experts of {} layers from layer {first} on: {there} layers have experts there",
            n.unwrap_or(1)
        ))),
        _ => Ok(()),
    }
}

/// Returns the layers with experts.
fn mixtures(program: &Program) -> Vec<usize> {
    let has_experts = |layer: &usize| experts_of(program, *layer).next().is_some();
    (0..program.layers.len()).filter(has_experts).collect()
}

fn experts_of(program: &Program, layer: usize) -> impl Iterator<Item = &Experts> {
    program.ops[program.layers[layer].clone()].iter().filter_map(|op| match op {
        Op::Experts(experts) => Some(experts),
        _ => None,
    })
}

/// Returns the expert matrices of a layer.
pub fn expert_weights<'a>(program: &Program, layer: usize, weights: &Weights<'a>) -> Weights<'a> {
    let mut used: Vec<Weight> =
        experts_of(program, layer).flat_map(|e| e.gate.into_iter().chain([e.up, e.down])).collect();
    used.sort_unstable();
    used.dedup();
    let matrices = used.iter().map(|weight| weights.matrices[weight.0 as usize]).collect();
    Weights { matrices, ..Weights::default() }
}

/// A program with some experts on the host.
pub struct Placed {
    /// The program of the devices.
    pub program: Program,
    /// The host's experts, one op each; the other program refers to them by index.
    pub experts: Program,
    /// Layers with experts on the host, from the first to the last.
    pub layers: Range<usize>,
}

/// Divides a program among the CPU and GPUs, and places the experts of layers on GPUs.
pub fn divide(
    devices: &[Arc<dyn GpuDevice>],
    program: &Program,
    weights: &Weights,
    load: &Load,
) -> Result<(Division, Option<Placed>)> {
    let options = load.options;
    let (mixtures, wanted) = (mixtures(program), options.n_gpu_layers());
    let place = |host: Range<usize>| {
        let piece = match devices.first() {
            Some(device) if options.copied != Copied::Never => {
                piece(&**device, &place(program, host.clone(), 0).experts, weights)?
            }
            _ => 0,
        };
        Ok::<_, Error>(place(program, host, piece))
    };
    let divide = |host: &Range<usize>, gpu_layers: Option<usize>| match host.is_empty() {
        true => partition::divide(devices, program, weights, load, gpu_layers),
        false => partition::divide(devices, &place(host.clone())?.program, weights, load, gpu_layers),
    };
    // The layers from `first` up to the `n`th one with experts.
    let from = |first: usize, n: Option<usize>| {
        let there = mixtures.iter().filter(|layer| **layer >= first);
        first..there.take(n.unwrap_or(usize::MAX)).last().map_or(first, |last| last + 1)
    };
    let first = |n: usize| from(0, Some(n));
    let host = match (options.placement, devices.first()) {
        (Placement::WithLayers, _) | (_, None) => 0..0,
        (Placement::Host { first, n }, _) => from(first, n),
        (Placement::Bytes(bytes), Some(device)) => {
            let (mut n, mut left) = (mixtures.len(), bytes);
            while let Some(before) = n.checked_sub(1) {
                let own = device.weight_bytes(&expert_weights(program, mixtures[before], weights))?;
                let Some(rest) = left.checked_sub(own) else { break };
                (n, left) = (before, rest);
            }
            first(n)
        }
        (Placement::Auto, _) => {
            // Binary search for the fewest layers with which the requested GPU layers fit.
            let gpu_layers = wanted.or(Some(program.layers.len()));
            let mut range = 0..mixtures.len();
            while !range.is_empty() {
                let middle = range.start.midpoint(range.end);
                match divide(&first(middle), gpu_layers)?.fits {
                    true => range.end = middle,
                    false => range.start = middle + 1,
                }
            }
            first(range.start)
        }
    };
    let division = divide(&host, wanted)?;
    // Layers on the CPU have their experts there anyway.
    let on_gpus = mixtures.iter().filter(|layer| host.contains(layer) && **layer >= division.cpu_layers);
    let placed = on_gpus.min().filter(|_| !division.gpus.is_empty()).map(|first| place(*first..host.end));
    Ok((division, placed.transpose()?))
}

/// Returns the size in bytes of the pieces in which steps copy experts to a device. Returns 0 if no step may copy: for
/// experts with a column order, or in deterministic mode, because host and device results differ and rows would depend
/// on the batch.
fn piece(device: &dyn GpuDevice, experts: &Program, weights: &Weights) -> Result<usize> {
    if device.is_deterministic() || device.supports(experts, weights, 0..experts.ops.len()).is_err() {
        return Ok(0);
    }
    let mut piece = 0;
    for op in &experts.ops {
        let Op::Experts(e) = op else { continue };
        if e.orders != [None; 3] {
            return Ok(0);
        }
        for weight in e.gate.into_iter().chain([e.up, e.down]) {
            piece = piece.max(piece_bytes(weights.matrices[weight.0 as usize], e.stack())?);
        }
    }
    Ok(piece)
}

/// Returns the device and host programs with the experts of layers `host` on the host. `piece`: `OnHost::piece`, 0 if
/// no step copies.
pub fn place(program: &Program, host: Range<usize>, piece: usize) -> Placed {
    let writes = |op: &Op, tensors: [TensorId; 2]| {
        let mut writes = false;
        op.for_each_written(|written| writes |= tensors.contains(&written));
        writes
    };
    // The new ops, with the index of the op before which each is inserted, in ascending order.
    let (mut experts, mut new) = (Vec::new(), Vec::new());
    let mut numbers = vec![None; program.ops.len()];
    for layer in &program.layers[host.clone()] {
        let mut free = layer.start;
        for i in layer.clone() {
            // The host does not have the token ids that select some experts.
            let Some(Op::Experts(e)) = program.ops.get(i).filter(|op| !op.is_by_token()) else { continue };
            let number = experts.len();
            let made = (free..i).rfind(|&at| writes(&program.ops[at], [e.x, e.scores]));
            let sent = made.map_or(free, |at| at + 1);
            let is_end = |op: &Op| matches!(op, Op::Experts(_)) || op.names(e.out);
            free = (i + 1..layer.end).find(|&at| is_end(&program.ops[at])).unwrap_or(layer.end);
            new.push((sent, Op::ToHost { x: e.x, scores: e.scores, experts: number }));
            new.push((free, Op::FromHost { out: e.out, experts: number }));
            experts.push(*e);
            numbers[i] = Some(number);
        }
    }
    let mut new = new.into_iter().peekable();
    let (mut ops, mut places) = (Vec::new(), Vec::new());
    for (i, op) in program.ops.iter().map(Some).chain([None]).enumerate() {
        // `FromHost` is the last op of its layer.
        ops.extend(new.next_if(|(at, new)| *at == i && matches!(new, Op::FromHost { .. })).map(|(_, op)| op));
        places.push(ops.len());
        ops.extend(new.next_if(|(at, _)| *at == i).map(|(_, op)| op));
        ops.extend(op.and_then(|op| match (op, numbers.get(i)) {
            (Op::Experts(e), Some(Some(number))) => {
                (piece > 0).then_some(Op::OnHost(OnHost { experts: *e, number: *number, piece }))
            }
            (op, _) => Some(op.clone()),
        }));
    }
    let layers = program.layers.iter().map(|layer| places[layer.start]..places[layer.end]).collect();
    let on_devices = Program { ops, layers, ..program.clone() };
    Placed { program: on_devices, experts: expert_program(program, &experts), layers: host }
}

/// Experts as a program; equal widths share activations.
fn expert_program(program: &Program, experts: &[Experts]) -> Program {
    let mut builder = ProgramBuilder::default();
    let mut known: Vec<([usize; 3], [TensorId; 3])> = Vec::new();
    for e in experts {
        let widths = [e.x, e.scores, e.out].map(|tensor| program.width(tensor));
        let place = known.iter().position(|(of, _)| *of == widths).unwrap_or_else(|| {
            known.push((widths, widths.map(|width| builder.tensor(width))));
            known.len() - 1
        });
        let [x, scores, out] = known[place].1;
        builder.push(Op::Experts(Experts { x, scores, out, ..*e }));
    }
    let kept: Vec<TensorId> = known.iter().flat_map(|(_, tensors)| *tensors).collect();
    builder.finish(0, &kept)
}
