//! The division of a program's layers among devices.
//!
//! Owns which layers go where: the first ones on the CPU, as few as the GPUs cannot execute or have no room for, the
//! others on GPUs in a row. The last GPU has the head, because logits and their arg-max are then where they are wanted,
//! while the first part only looks a few rows of the embedding up.

use std::ops::Range;
use std::sync::Arc;

use super::load::Load;
use crate::error::{Error, Result};
use crate::gpu::GpuDevice;
use crate::graph::op::Weight;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::weights::Weights;

/// Memory that a driver takes for itself beside what it is asked for: kernels, streams, recorded steps.
const RESERVE: u64 = 256 << 20;

/// GPUs of one model, at most.
pub const MAX_GPUS: usize = 16;

/// Layers of each device.
pub struct Division {
    /// Number of layers on the CPU, the first ones.
    pub cpu_layers: usize,
    /// GPUs that have layers, in the order of these.
    pub gpus: Vec<(Arc<dyn GpuDevice>, Range<usize>)>,
    /// These have room for them.
    pub fits: bool,
}

/// The ops of some layers: with the first layer what stands ahead of it, with the last one the head.
pub fn ops(program: &Program, layers: &Range<usize>) -> Range<usize> {
    let start = |layer: usize| program.layers.get(layer).map_or(program.ops.len(), |ops| ops.start);
    if layers.start == 0 { 0..start(layers.end) } else { start(layers.start)..start(layers.end) }
}

/// Some ops of a program, and the weights that they need.
pub fn part<'a>(program: &Program, ops: Range<usize>, weights: &Weights<'a>) -> Result<(Arc<Program>, Weights<'a>)> {
    let (part, needed) = program.part(ops)?;
    Ok((Arc::new(part), weights.with(&needed)))
}

/// The matrices that some programs need beside those of another one.
pub fn beside(own: &[Weight], programs: &[Arc<Program>]) -> Result<Vec<Weight>> {
    let mut further = Vec::new();
    for program in programs {
        let (_, needed) = program.part(0..program.ops.len())?;
        further.extend(needed.into_iter().filter(|weight| !own.contains(weight)));
    }
    further.sort_unstable();
    further.dedup();
    Ok(further)
}

/// Divides a program among the CPU and some GPUs, so that the fullest of these is as empty as can be. `gpu_layers`:
/// maximum number of layers on GPUs, which are not asked whether they have room for them; `None`: as many as fit.
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
    let further = beside(&own, &load.beside)?;
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
                    needed.extend(beside(&needed, &load.beside)?);
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

/// Free memory of a device for each of its places in a list.
fn room(device: &dyn GpuDevice, devices: &[Arc<dyn GpuDevice>]) -> u64 {
    let place = |device: &dyn GpuDevice| (device.driver(), device.ordinal());
    let places = devices.iter().filter(|other| place(&***other) == place(device)).count();
    device.info().memory_free.saturating_sub(RESERVE) / places.max(1) as u64
}

/// The layers of a program as what is divided.
struct Layers {
    /// Bytes of the weights and the cache of each, with the ops that `ops` adds to it.
    bytes: Vec<u64>,
    /// A sequence remembers something of the layer.
    remembers: Vec<bool>,
    /// Layers ahead of which no cut can be, because one before them shares keys and values with one after.
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
            // A state lies where it is named first.
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

    /// Tells whether some layers can be a part: each part has a cache of its own.
    fn can_be(&self, part: Range<usize>) -> bool {
        let is_shared = |cut: usize| self.shared.get(cut).copied().unwrap_or(false);
        let is_whole = part.len() == self.bytes.len();
        is_whole || (!is_shared(part.start) && !is_shared(part.end) && self.remembers[part].contains(&true))
    }

    /// Divides the layers from `first` on in parts, so that the largest in relation to its size is as small as can be.
    /// `may_be_empty`: parts may have no layer. `None`: there is no such division.
    fn balance(&self, first: usize, sizes: &[f64], may_be_empty: bool) -> Option<Vec<Range<usize>>> {
        let n = self.bytes.len();
        // Of each number of parts and each end of the last of them: the largest part, and where the last one begins.
        let mut best: Vec<Vec<Option<(f64, usize)>>> = vec![vec![None; n + 1]];
        best[0][first] = Some((0.0, first));
        for (i, size) in sizes.iter().enumerate() {
            let mut ends = vec![None; n + 1];
            for (end, best_end) in ends.iter_mut().enumerate().skip(first) {
                let mut bytes = 0u64;
                // From the shortest on, so that earlier devices are filled first.
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
