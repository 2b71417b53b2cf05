//! Division of a program's layers among devices.
//!
//! The CPU has the first layers: as few as possible, but enough that the GPUs support the other layers and have memory
//! for them. The other layers are on the GPUs, in the order of the GPUs. The last GPU has the output matrix, so the
//! device that computes the last layer also computes logits and samples tokens. The first device only looks up a few
//! rows of the embedding table.

use std::ops::Range;
use std::sync::Arc;

use super::load::Load;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::graph::op::Weight;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::weights::Weights;

/// Memory that a driver needs in addition to allocations: kernels, streams, captured graphs.
pub(super) const RESERVE: u64 = 256 << 20;

/// Maximum number of GPUs of a model.
pub const MAX_GPUS: usize = 16;

/// Layers of each device.
pub struct Division {
    /// Number of layers on the CPU, which are the first ones.
    pub cpu_layers: usize,
    /// GPUs with layers, in layer order.
    pub gpus: Vec<(Arc<dyn GpuDevice>, Range<usize>)>,
    /// True if the GPUs have enough memory.
    pub fits: bool,
}

/// Returns the ops of some layers. The first layer of a program includes the ops before it; the last layer includes the
/// ops of the output matrix.
pub fn ops(program: &Program, layers: &Range<usize>) -> Range<usize> {
    let start = |layer: usize| program.layers.get(layer).map_or(program.ops.len(), |ops| ops.start);
    if layers.start == 0 { 0..start(layers.end) } else { start(layers.start)..start(layers.end) }
}

/// Returns the program of some ops, and the weights that it needs.
pub fn part<'a>(program: &Program, ops: Range<usize>, weights: &Weights<'a>) -> Result<(Arc<Program>, Weights<'a>)> {
    let (part, needed) = program.part(ops)?;
    Ok((Arc::new(part), weights.with(&needed)))
}

/// Returns the matrices that `programs` need in addition to `own`.
pub fn companion_weights(own: &[Weight], programs: &[Arc<Program>]) -> Result<Vec<Weight>> {
    let mut further = Vec::new();
    for program in programs {
        let (_, needed) = program.part(0..program.ops.len())?;
        further.extend(needed.into_iter().filter(|weight| !own.contains(weight)));
    }
    further.sort_unstable();
    further.dedup();
    Ok(further)
}

/// Divides a program among the CPU and GPUs. Balances the GPUs: minimizes the largest ratio of a GPU's memory use to
/// its size, which is its usable memory (`room`) or its share (`load.options.shares`). `gpu_layers`: maximum number of
/// layers on GPUs, without a check of the GPUs' memory; `None`: as many layers as fit.
pub fn divide(
    devices: &[Arc<dyn GpuDevice>],
    program: &Program,
    weights: &Weights,
    load: &Load,
    gpu_layers: Option<usize>,
) -> Result<Division> {
    let n = program.layers.len();
    let Some(first) = devices.first() else { return Ok(Division { cpu_layers: n, gpus: Vec::new(), fits: true }) };
    if n == 0 {
        return Ok(Division { cpu_layers: 0, gpus: vec![(first.clone(), 0..0)], fits: true });
    }
    let (_, own) = program.part(0..program.ops.len())?;
    let further = companion_weights(&own, &load.companions)?;
    let further = first.weight_bytes(&Weights { matrices: weights.with(&further).matrices, ..Weights::default() })?;
    let rooms: Vec<u64> = devices.iter().map(|device| room(&**device, devices)).collect();
    let layers = Layers::new(&**first, program, weights, &load.cache)?;
    let fewest = n - gpu_layers.unwrap_or(n).min(n);
    let mut is_divisible = false;
    for cpu_layers in fewest..n {
        let is_cut = cpu_layers == 0 || layers.can_be(0..cpu_layers);
        if !is_cut || first.supports(program, weights, ops(program, &(cpu_layers..n))).is_err() {
            continue;
        }
        let sizes: Vec<f64> = match load.options.shares {
            [] => {
                let mut sizes = rooms.clone();
                if let Some(last) = sizes.last_mut() {
                    *last = last.saturating_sub(further);
                }
                sizes.into_iter().map(|size| size.max(1) as f64).collect()
            }
            shares => shares.iter().copied().map(f64::from).collect(),
        };
        let Some(parts) = layers.balance(cpu_layers, &sizes, load.options.shares.is_empty()) else { continue };
        is_divisible = true;
        let fits = || {
            let last = parts.iter().rposition(|part| !part.is_empty());
            for (i, part) in parts.iter().enumerate().filter(|(_, part)| !part.is_empty()) {
                let (part, mut needed) = program.part(ops(program, part))?;
                if Some(i) == last {
                    needed.extend(companion_weights(&needed, &load.companions)?);
                }
                let weights = weights.with(&needed);
                let (layers, recurrent) = (part.kv_layers.clone(), part.recurrent.clone());
                let cache = SequenceSpec { layers, recurrent, ..load.cache.clone() };
                let working = devices[i].working_bytes(&part, &cache, load.limits)?;
                if devices[i].weight_bytes(&weights)?.saturating_add(working) > rooms[i] {
                    return Ok(false);
                }
            }
            Ok::<_, Error>(true)
        };
        let fits = fits()?;
        if gpu_layers.is_some() || fits {
            let used = devices.iter().cloned().zip(parts).filter(|(_, part)| !part.is_empty());
            return Ok(Division { cpu_layers, gpus: used.collect(), fits });
        }
    }
    if !is_divisible && !load.options.shares.is_empty() {
        let why = if n - fewest < devices.len() { "there are fewer" } else { "they share keys and values" };
        let what = format!("{} layers in {} parts on GPUs: {why}", n - fewest, devices.len());
        return Err(Error::unsupported(what));
    }
    Ok(Division { cpu_layers: n, gpus: Vec::new(), fits: false })
}

/// Returns the usable memory of a device: its free memory minus `RESERVE`, divided by the number of times that the list
/// contains the device.
fn room(device: &dyn GpuDevice, devices: &[Arc<dyn GpuDevice>]) -> u64 {
    let place = |device: &dyn GpuDevice| (device.driver(), device.ordinal());
    let places = devices.iter().filter(|other| place(&***other) == place(device)).count();
    device.info().memory_free.saturating_sub(RESERVE) / places.max(1) as u64
}

/// Properties of the layers for their division.
struct Layers {
    /// Bytes of each layer's weights and cache, including the ops that `ops` adds.
    bytes: Vec<u64>,
    /// True for layers with a KV cache or recurrent state.
    remembers: Vec<bool>,
    /// True for layers before which no cut is possible, because an earlier layer shares its KV cache with this or a
    /// later one.
    shared: Vec<bool>,
}

impl Layers {
    fn new(device: &dyn GpuDevice, program: &Program, weights: &Weights, cache: &SequenceSpec) -> Result<Layers> {
        let n = program.layers.len();
        let mut layers = Layers { bytes: Vec::new(), remembers: Vec::new(), shared: vec![false; n] };
        let mut first_named: Vec<Option<usize>> = vec![None; program.kv_layers.len()];
        for layer in 0..n {
            let range = ops(program, &(layer..layer + 1));
            layers.remembers.push(program.remembers(range.clone()));
            let (mut used, mut states, mut recurrent) = (Vec::new(), Vec::new(), Vec::new());
            for mut op in program.ops[range].iter().cloned() {
                op.map_weights(|weight| {
                    used.push(weight.0);
                    weight
                });
                states.extend(op.layer_mut().map(|state| state.0 as usize));
                recurrent.extend(op.recurrent_mut().map(|recurrent| program.recurrent[recurrent.0 as usize]));
            }
            used.sort_unstable();
            used.dedup();
            states.sort_unstable();
            states.dedup();
            // A shared KV cache belongs to the first layer that names it.
            let mut own = Vec::new();
            for state in states {
                match first_named[state] {
                    Some(first) => layers.shared[first + 1..=layer].fill(true),
                    None => {
                        first_named[state] = Some(layer);
                        own.push(program.kv_layers[state]);
                    }
                }
            }
            let matrices = used.iter().map(|&i| weights.matrices[i as usize]).collect();
            let matrices = Weights { matrices, ..Weights::default() };
            let mut bytes = device.weight_bytes(&matrices)?;
            if !(own.is_empty() && recurrent.is_empty()) {
                bytes = bytes.saturating_add(device.cache_bytes(&SequenceSpec {
                    layers: own,
                    recurrent,
                    ..cache.clone()
                })?);
            }
            layers.bytes.push(bytes);
        }
        Ok(layers)
    }

    /// True if the layers can be a part: each part needs a cache of its own.
    fn can_be(&self, part: Range<usize>) -> bool {
        let is_shared = |cut: usize| self.shared.get(cut).copied().unwrap_or(false);
        let is_whole = part.len() == self.bytes.len();
        is_whole || (!is_shared(part.start) && !is_shared(part.end) && self.remembers[part].contains(&true))
    }

    /// Divides the layers from `first` on into one part per size, and minimizes the largest ratio of a part's bytes to
    /// its size. `may_be_empty`: true if parts may have no layers. Returns `None` if no division is possible.
    fn balance(&self, first: usize, sizes: &[f64], may_be_empty: bool) -> Option<Vec<Range<usize>>> {
        let n = self.bytes.len();
        // Dynamic programming: `best[parts][end]` has the largest ratio of the best division of `first..end` into
        // `parts` parts, and the start of the last part.
        let mut best: Vec<Vec<Option<(f64, usize)>>> = vec![vec![None; n + 1]];
        best[0][first] = Some((0.0, first));
        for (i, size) in sizes.iter().enumerate() {
            let mut ends = vec![None; n + 1];
            for (end, best_end) in ends.iter_mut().enumerate().skip(first) {
                let mut bytes = 0u64;
                // Shortest parts first, so that ties fill earlier devices.
                for start in (first..=end).rev() {
                    if start < end {
                        bytes = bytes.saturating_add(self.bytes[start]);
                    }
                    let is_possible = if start == end { may_be_empty } else { self.can_be(start..end) };
                    let Some((before, _)) = best[i][start].filter(|_| is_possible) else { continue };
                    let largest = before.max(bytes as f64 / size);
                    if best_end.is_none_or(|(least, _)| largest < least) {
                        *best_end = Some((largest, start));
                    }
                }
            }
            best.push(ends);
        }
        let (mut end, mut parts) = (n, Vec::new());
        for ends in best[1..].iter().rev() {
            let (_, start) = ends[end]?;
            parts.push(start..end);
            end = start;
        }
        parts.reverse();
        Some(parts)
    }
}
