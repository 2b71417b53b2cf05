//! A program on several devices: the first layers on the CPU or a GPU, the others on GPUs in a row.
//!
//! Owns what passes from part to part. Each part is a program of its own with its own memory of a sequence; the activations
//! that ops on both sides of a cut name, for most networks the residual stream, cross once a step. Between two GPUs they are
//! queued behind the work that makes them, so that the host waits for no part but the last. `place` says which layers go
//! where.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::{Batch, StepLimits};
use super::cpu::CpuBackend;
use super::cpu::kernels::Isa;
use super::cpu::pool::Pool;
use super::cuda::{Crossing, CudaExecutor};
use super::op::{Act, Index, Op};
use super::pace::Pace;
use super::place::{self, Division};
use super::program::Program;
use super::self_test;
use super::state::StateMemory;
use super::state_spec::StateSpec;
use super::weights::{Progress, Weights};
use super::{Backend, DeviceExecutor, Times, of_device};
use crate::error::{Error, Result, try_filled, try_vec};

/// A model in parts, in the order of the layers.
pub struct Split {
    devices: Vec<Backend>,
    parts: Vec<Part>,
}

struct Part {
    program: Arc<Program>,
    /// Ops of the whole program.
    ops: Range<usize>,
    layers: usize,
    /// Activations that come from the part before.
    crossing: Vec<Act>,
}

impl Split {
    /// Loads the parts of a division, of which there are at least two.
    pub fn load(
        division: &Division,
        isa: Isa,
        program: &Program,
        weights: &Weights,
        pool: &Arc<Pool>,
        host_bytes: u64,
        progress: &mut Progress,
    ) -> Result<Split> {
        let Division { cpu_layers, gpus } = division;
        let of_cpu = (*cpu_layers > 0).then_some((None, 0..*cpu_layers));
        let of_gpus = gpus.iter().map(|(device, layers)| (Some(device), layers.clone()));
        let (mut cut, mut parts) = (Vec::new(), Vec::new());
        for (device, layers) in of_cpu.into_iter().chain(of_gpus) {
            let ops = place::ops(program, &layers);
            let (part, part_weights) = place::part(program, ops.clone(), weights)?;
            let bytes = device.map_or(Ok(0), |device| {
                self_test::check(device, &part, &part_weights)?;
                device.weight_bytes(&part_weights)
            })?;
            let crossing = if ops.start == 0 { Vec::new() } else { program.live(ops.start) };
            cut.push((device, part_weights, bytes));
            parts.push(Part { program: part, ops, layers: layers.len(), crossing });
        }
        let follow = !gpus.iter().any(|(device, _)| device.plans());
        let mut behind: u64 = cut.iter().map(|(_, _, bytes)| bytes).sum();
        let (mut before, mut devices) = (0u64, Vec::new());
        for ((device, weights, bytes), part) in cut.iter().zip(&parts) {
            behind -= bytes;
            let mut own = 0;
            let mut report = |done: u64, total: u64| {
                own = total;
                progress(before.saturating_add(done), before.saturating_add(total).saturating_add(behind))
            };
            devices.push(match device {
                Some(device) => Backend::Cuda(Arc::new(device.load(&part.program, weights, &mut report)?)),
                None => {
                    let programs = [&*part.program];
                    let cpu = CpuBackend::load(pool, isa, &programs, weights, None, host_bytes, follow, &mut report)?;
                    Backend::Cpu(Arc::new(cpu))
                }
            });
            before = before.saturating_add(own);
        }
        Ok(Split { devices, parts })
    }

    /// The parts as models of their own.
    pub fn devices(&self) -> &[Backend] {
        &self.devices
    }

    /// Number of layers of each part.
    pub fn layers(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().map(|part| part.layers)
    }

    pub fn new_memory(&self, spec: &StateSpec) -> Result<StateMemory> {
        let (mut layers, mut memories) = (&spec.layers[..], &spec.memories[..]);
        let mut memory = StateMemory::default();
        for (device, part) in self.devices.iter().zip(&self.parts) {
            let too_few = || Error::Mismatch(format!("a cache of another model: {spec:?}"));
            let (own, behind) = layers.split_at_checked(part.program.states.len()).ok_or_else(too_few)?;
            let (own_memories, rest) = memories.split_at_checked(part.program.memories.len()).ok_or_else(too_few)?;
            (layers, memories) = (behind, rest);
            let own = StateSpec { layers: own.to_vec(), memories: own_memories.to_vec(), ..spec.clone() };
            let StateMemory { cpu, cuda } = device.new_memory(&own)?;
            memory.cpu = memory.cpu.or(cpu);
            memory.cuda.extend(cuda);
        }
        Ok(memory)
    }
}

pub struct SplitExecutor {
    split: Arc<Split>,
    parts: Vec<DeviceExecutor>,
    /// The way to each part from the one before, where both are GPUs.
    ways: Vec<Option<Crossing>>,
    /// Ways of a token that was chosen to the parts that look it up, where the host need not know it.
    token_ways: Vec<(usize, Crossing)>,
    /// The part that executes, and the first of those behind it that have nothing to do.
    at: usize,
    end: usize,
    begun: Instant,
    first_share: Duration,
    /// `[max_tokens, width]` of the widest activation that crosses by way of the host.
    room: Vec<f32>,
}

/// The executor of a GPU.
fn cuda(part: &mut DeviceExecutor) -> Option<&mut CudaExecutor> {
    match part {
        DeviceExecutor::Cuda(cuda) => Some(cuda),
        _ => None,
    }
}

fn no_gpu() -> Error {
    Error::unsupported("steps ahead")
}

impl SplitExecutor {
    pub fn new(split: &Arc<Split>, limits: StepLimits) -> Result<SplitExecutor> {
        let n = split.parts.len();
        let (mut parts, mut ways) = (try_vec("parts", n)?, try_vec("parts", n)?);
        let (mut token_ways, mut widest) = (try_vec("parts", n)?, 0);
        for (device, part) in split.devices.iter().zip(&split.parts) {
            let mut executor = device.device_executor(&part.program, limits)?;
            let widths = part.crossing.iter().map(|act| part.program.width(*act));
            let way = match (parts.last_mut().and_then(cuda), cuda(&mut executor)) {
                (Some(before), Some(executor)) => {
                    let bytes = widths.sum::<usize>().saturating_mul(limits.max_tokens).saturating_mul(4);
                    Some(Crossing::new(before, executor, bytes)?)
                }
                _ => {
                    widest = widths.fold(widest, usize::max);
                    None
                }
            };
            parts.push(executor);
            ways.push(way);
        }
        if parts.iter_mut().all(|part| cuda(part).is_some())
            && let Some((last, others)) = parts.split_last_mut()
            && let Some(last) = cuda(last)
        {
            let looks_up = |op: &Op| matches!(op, Op::Embed { index: Index::Id, .. });
            for (i, other) in others.iter_mut().enumerate() {
                if split.parts[i].program.ops.iter().any(looks_up)
                    && let Some(other) = cuda(other)
                {
                    token_ways.push((i, Crossing::new(last, other, 4)?));
                }
            }
        }
        let room = try_filled("activations", limits.max_tokens.saturating_mul(widest), 0f32)?;
        let (begun, first_share) = (Instant::now(), Duration::ZERO);
        Ok(SplitExecutor { parts, ways, token_ways, at: 0, end: 0, begun, first_share, room, split: split.clone() })
    }

    pub fn begin(&mut self, batch: &Batch, ops: Range<usize>) -> Result<()> {
        self.begun = Instant::now();
        let parts = &self.split.parts;
        self.at = parts.iter().position(|part| ops.start < part.ops.end).unwrap_or(parts.len() - 1);
        self.end = parts.iter().rposition(|part| ops.end > part.ops.start).map_or(1, |last| last + 1);
        for (executor, part) in self.parts.iter_mut().zip(parts) {
            let within = |op: usize| op.clamp(part.ops.start, part.ops.end) - part.ops.start;
            let ops = within(ops.start)..within(ops.end);
            of_device!(executor, e => e.begin(batch, ops))?;
        }
        Ok(())
    }

    pub fn advance(&mut self, batch: &mut Batch, pace: &Pace) -> Result<bool> {
        loop {
            if !of_device!(&mut self.parts[self.at], e => e.advance(batch, pace))? {
                return Ok(false);
            }
            if self.at + 1 >= self.end {
                return Ok(true);
            }
            self.cross()?;
        }
    }

    /// Hands what a part computes to the next one.
    fn cross(&mut self) -> Result<()> {
        let (before, behind) = self.parts.split_at_mut(self.at + 1);
        let (Some(from), Some(to)) = (before.last_mut(), behind.first_mut()) else { return Ok(()) };
        let part = &self.split.parts[self.at + 1];
        self.at += 1;
        if let (Some(way), Some(from), Some(to)) = (&mut self.ways[self.at], cuda(from), cuda(to)) {
            return way.hand_on(from, to, &part.crossing);
        }
        let DeviceExecutor::Cpu(front) = from else { return Err(no_gpu()) };
        for &act in &part.crossing {
            let values = &mut self.room[..front.rows() * part.program.width(act)];
            front.read(act, values)?;
            of_device!(to, e => e.write(act, values))?;
        }
        // Gives its threads back to others.
        front.end()?;
        self.first_share = self.begun.elapsed();
        Ok(())
    }

    pub fn fits_threads(&self) -> bool {
        self.parts.iter().all(DeviceExecutor::fits_threads)
    }

    /// The part with the results, once the work of those before it has ended well: results of a fault would look like others.
    pub(super) fn head(&mut self) -> Result<&mut DeviceExecutor> {
        let Some((head, before)) = self.parts.split_last_mut() else { return Err(no_gpu()) };
        before.iter_mut().filter_map(cuda).try_for_each(CudaExecutor::finish)?;
        Ok(head)
    }

    /// Time of the CPU.
    pub fn first_share(&self) -> Duration {
        self.first_share
    }

    pub fn times(&mut self) -> Times {
        let mut sum = Times::default();
        for executor in self.parts.iter_mut().filter_map(cuda) {
            let add = |(sum, (count, time)): (&mut (u64, Duration), (u64, Duration))| {
                (sum.0, sum.1) = (sum.0 + count, sum.1 + time);
            };
            sum.iter_mut().zip(executor.times()).for_each(add);
        }
        sum
    }

    /// Sets an activation of the part that executes now.
    pub fn write(&mut self, act: Act, values: &[f32]) -> Result<()> {
        of_device!(&mut self.parts[self.at], e => e.write(act, values))
    }

    /// Reads an activation of the part that executed last.
    pub fn read(&mut self, act: Act, out: &mut [f32]) -> Result<()> {
        self.parts[..self.at].iter_mut().filter_map(cuda).try_for_each(CudaExecutor::finish)?;
        of_device!(&mut self.parts[self.at], e => e.read(act, out))
    }

    /// Ends all parts; the first error counts, because what follows a lost part is lost with it.
    pub fn end(&mut self) -> Result<()> {
        self.parts.iter_mut().fold(Ok(()), |result, part| result.and(of_device!(part, e => e.end())))
    }

    /// Number of steps that may be submitted ahead: none where the CPU has to know the token.
    pub fn ahead(&self) -> usize {
        self.parts.iter().map(DeviceExecutor::ahead).min().unwrap_or(0)
    }

    pub fn follows(&self) -> bool {
        self.parts.first().is_some_and(DeviceExecutor::follows)
    }

    pub fn submit(&mut self) -> Result<()> {
        let Some((last, others)) = self.parts.split_last_mut() else { return Err(no_gpu()) };
        let last = cuda(last).ok_or_else(no_gpu)?;
        for (i, way) in &mut self.token_ways {
            way.hand_token(last, cuda(&mut others[*i]).ok_or_else(no_gpu)?)?;
        }
        others.iter_mut().filter_map(cuda).try_for_each(CudaExecutor::submit)?;
        last.submit()
    }

    /// Waits for the parts in order, so that a fault of one is told ahead of what came of it.
    pub fn collect(&mut self) -> Result<u32> {
        let parts = self.parts.iter_mut().filter_map(cuda);
        parts.map(CudaExecutor::collect).try_fold(0, |_, token| token)
    }
}
