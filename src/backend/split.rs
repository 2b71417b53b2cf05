//! A program on two devices: the first layers on the CPU, the others on a GPU.
//!
//! Owns which layers go where. The GPU takes the last layers and the head, because logits and their arg-max are then where
//! they are wanted, while the CPU only looks a few rows of the embedding up. Each part is a program of its own; the
//! activations that both name, for most networks the residual stream, cross once a step.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, StepLimits};
use super::cpu::CpuBackend;
use super::cpu::executor::CpuExecutor;
use super::cpu::kernels::Isa;
use super::cpu::kv::CpuKv;
use super::cpu::pool::Pool;
use super::cuda::{CudaDevice, CudaExecutor, CudaModel};
use super::op::{Act, Op, Weight};
use super::pace::Pace;
use super::program::Program;
use super::self_test;
use super::state::StateMemory;
use super::state_spec::StateSpec;
use super::weights::{Progress, Weights};
use crate::error::{Error, Result, try_filled};

/// Memory that a driver takes for itself beside what it is asked for: kernels, streams, recorded steps.
const RESERVE: u64 = 256 << 20;

/// A model whose first layers are on the CPU.
pub struct Split {
    cpu: Arc<CpuBackend>,
    cuda: Arc<CudaModel>,
    programs: [Arc<Program>; 2],
    /// Number of ops, layers, states and recurrent memories of the first part.
    cut: usize,
    cpu_layers: usize,
    cpu_states: usize,
    cpu_memories: usize,
    /// Activations that cross.
    crossing: Vec<Act>,
}

/// Some ops of a program and the weights that they need.
fn part<'a>(program: &Program, ops: Range<usize>, weights: &Weights<'a>) -> Result<(Arc<Program>, Weights<'a>)> {
    let (part, needed) = program.part(ops)?;
    let matrices = needed.iter().map(|&Weight(i)| weights.matrices[i as usize]).collect();
    Ok((Arc::new(part), Weights { matrices, vectors: weights.vectors.clone(), ropes: weights.ropes.clone() }))
}

/// The fewest layers of the CPU with which the GPU can execute the others and has room for them, beside a cache and an
/// executor. Where `gpu_layers` were asked for, these are the most, and room does not count.
pub fn cpu_layers(
    device: &CudaDevice,
    program: &Program,
    weights: &Weights,
    gpu_layers: Option<usize>,
    cache: &StateSpec,
    limits: StepLimits,
) -> Result<usize> {
    let n = program.layers.len();
    let fewest = n - gpu_layers.unwrap_or(n).min(n);
    let free = device.info().memory_free.saturating_sub(RESERVE);
    for cpu_layers in fewest..n {
        let cut = if cpu_layers == 0 { 0 } else { program.layers[cpu_layers].start };
        let ops = cut..program.ops.len();
        // Each part has a cache of its own.
        if cut > 0 && !(program.remembers(0..cut) && program.remembers(ops.clone())) {
            continue;
        }
        let supported = device.supports(program, weights, ops.clone()).and_then(|()| part(program, ops, weights));
        let Ok((part, weights)) = supported else { continue };
        let fits = || {
            let (layers, memories) = (part.states.clone(), part.memories.clone());
            let cache = StateSpec { layers, memories, ..cache.clone() };
            let working = device.working_bytes(&part, &cache, limits)?;
            Ok::<_, Error>(device.weight_bytes(&weights)?.saturating_add(working) <= free)
        };
        if gpu_layers.is_some() || fits()? {
            return Ok(cpu_layers);
        }
    }
    Ok(n)
}

impl Split {
    /// Loads the first `cpu_layers` on the CPU, of which there are some, and the others on a GPU.
    pub fn load(
        device: Arc<CudaDevice>,
        isa: Isa,
        cpu_layers: usize,
        program: &Program,
        weights: &Weights,
        pool: &Arc<Pool>,
        host_bytes: u64,
        progress: &mut Progress,
    ) -> Result<Split> {
        let cut = program.layers[cpu_layers].start;
        let (front, front_weights) = part(program, 0..cut, weights)?;
        let (back, back_weights) = part(program, cut..program.ops.len(), weights)?;
        // The GPU's bytes are counted behind the CPU's.
        self_test::check(&device, &back, &back_weights)?;
        let follow = !device.plans();
        let behind = device.weight_bytes(&back_weights)?;
        let mut before = 0;
        let mut report = |done: u64, total: u64| {
            before = total;
            progress(done, total.saturating_add(behind))
        };
        let cpu =
            Arc::new(CpuBackend::load(pool, isa, &[&*front], &front_weights, None, host_bytes, follow, &mut report)?);
        let mut report = |done: u64, total: u64| progress(before.saturating_add(done), before.saturating_add(total));
        let cuda = Arc::new(device.load(&back, &back_weights, &mut report)?);
        let (crossing, cpu_states, cpu_memories) = (program.live(cut), front.states.len(), front.memories.len());
        Ok(Split { cpu, cuda, programs: [front, back], cut, cpu_layers, cpu_states, cpu_memories, crossing })
    }

    pub fn cpu(&self) -> &Arc<CpuBackend> {
        &self.cpu
    }

    pub fn cuda(&self) -> &Arc<CudaModel> {
        &self.cuda
    }

    /// Number of layers on the CPU, the first ones.
    pub fn cpu_layers(&self) -> usize {
        self.cpu_layers
    }

    pub fn new_memory(&self, spec: &StateSpec) -> Result<StateMemory> {
        let (layers, back_layers) = spec.layers.split_at(self.cpu_states);
        let (memories, back_memories) = spec.memories.split_at(self.cpu_memories);
        let front = StateSpec { layers: layers.to_vec(), memories: memories.to_vec(), ..spec.clone() };
        let back = StateSpec { layers: back_layers.to_vec(), memories: back_memories.to_vec(), ..spec.clone() };
        Ok(StateMemory::Split(CpuKv::new(&front)?, self.cuda.new_kv(&back)?))
    }
}

pub struct SplitExecutor {
    split: Arc<Split>,
    front: CpuExecutor,
    back: CudaExecutor,
    /// The activations of the open step have crossed.
    crossed: bool,
    begun: Instant,
    first_share: Duration,
    /// `[max_tokens, width]` of the widest activation that crosses.
    room: Vec<f32>,
}

impl SplitExecutor {
    pub fn new(split: &Arc<Split>, limits: StepLimits) -> Result<SplitExecutor> {
        let [front, back] = &split.programs;
        let widest = split.crossing.iter().map(|act| front.width(*act)).max().unwrap_or(0);
        Ok(SplitExecutor {
            front: CpuExecutor::new(split.cpu.clone(), front, limits)?,
            back: CudaExecutor::new(split.cuda.clone(), back, limits)?,
            crossed: false,
            begun: Instant::now(),
            first_share: Duration::ZERO,
            room: try_filled("activations", limits.max_tokens.saturating_mul(widest), 0f32)?,
            split: split.clone(),
        })
    }

    pub fn begin(&mut self, batch: &Batch, ops: Range<usize>) -> Result<()> {
        (self.crossed, self.begun) = (false, Instant::now());
        let cut = self.split.cut;
        self.front.begin(batch, ops.start.min(cut)..ops.end.min(cut))?;
        self.back.begin(batch, ops.start.max(cut) - cut..ops.end.max(cut) - cut)
    }

    pub fn advance(&mut self, batch: &mut Batch, pace: &Pace) -> Result<bool> {
        if !self.crossed {
            if !self.front.advance(batch, pace)? {
                return Ok(false);
            }
            let keeps = |op: &Op| matches!(op, Op::KeepOutputs { .. });
            if batch.outputs.is_empty() && self.split.programs[0].ops.iter().any(keeps) {
                return Ok(true);
            }
            self.cross()?;
        }
        self.back.advance(batch, pace)
    }

    /// Hands what the first part computed to the second.
    fn cross(&mut self) -> Result<()> {
        for &act in &self.split.crossing {
            let values = &mut self.room[..self.front.rows() * self.split.programs[0].width(act)];
            self.front.read(act, values)?;
            self.back.write(act, values)?;
        }
        // Gives its threads back to others.
        self.front.end()?;
        self.crossed = true;
        self.first_share = self.begun.elapsed();
        Ok(())
    }

    pub fn fits_threads(&self) -> bool {
        self.front.fits_threads()
    }

    pub fn back(&mut self) -> &mut CudaExecutor {
        &mut self.back
    }

    pub fn first_share(&self) -> Duration {
        self.first_share
    }

    /// Sets an activation of the part that executes now.
    pub fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        if self.crossed { self.back.write(act, values) } else { self.front.write(act, values) }
    }

    /// Reads an activation of the part that executed last.
    pub fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        if self.crossed { self.back.read(act, out) } else { self.front.read(act, out) }
    }

    pub fn end(&mut self) -> Result<()> {
        self.front.end().and(self.back.end())
    }
}
