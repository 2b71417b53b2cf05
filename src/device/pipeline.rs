//! A program on several devices: the first layers on the CPU or a GPU, the others on GPUs in a row.
//!
//! Owns what passes from part to part. Each part is a program of its own with its own memory of a sequence; the
//! activations that ops on both sides of a cut name, for most networks the residual stream, cross once a step. Between
//! two GPUs they are queued after the work that makes them, so that the host waits for no part but the last. `place`
//! says which layers go where.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::host_experts::{HostExecutor, HostExperts};
use super::placement::{self, Copied, Placed};
use super::sequence::{OnCpu, OnGpu, Sequence};
use crate::cpu::CpuBackend;
use crate::cpu::executor::CpuExecutor;
use crate::cpu::kernels::Isa;
use crate::cpu::sequence::CpuSequence;
use crate::cpu::threads::pool::Pool;
use crate::cuda::{self, CudaExecutor, CudaModel, Transfer};
use crate::device::partition::{self, Division};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::device_info::Times;
use crate::graph::op::{Index, Op, TensorId, Weight};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::{Beside, Progress, Weights};

/// A model in parts, in the order of the layers.
pub struct Pipeline {
    /// The first part, where it is on the CPU.
    cpu: Option<Arc<CpuBackend>>,
    /// The others, of which there are some.
    cuda: Vec<Arc<CudaModel>>,
    /// Experts of layers on GPUs, where the host has some.
    host: Option<HostExperts>,
    /// Bytes in which steps copy those to a GPU; 0 where none does.
    piece: usize,
    /// The program that was loaded, in parts.
    program: Arc<Program>,
    parts: Arc<Vec<Part>>,
}

struct Part {
    program: Arc<Program>,
    /// Ops of the whole program.
    ops: Range<usize>,
    layers: Range<usize>,
    /// The matrices of the part, as the whole program numbers them.
    matrices: Vec<Weight>,
    /// Activations that come from the part before.
    crossing: Vec<TensorId>,
}

impl Pipeline {
    /// Loads the parts of a division, the last of which is on a GPU. `placed`: the programs where experts of layers on
    /// GPUs are on the host; `copied`: the steps that copy them. `beside`: other programs of the same weights, where
    /// one GPU has all layers.
    pub fn load(
        (division, placed, copied): (&Division, Option<&Placed>, Copied),
        isa: Isa,
        (program, beside): (&Arc<Program>, &[Arc<Program>]),
        weights: &Weights,
        pool: &Arc<Pool>,
        host_bytes: u64,
        progress: &mut Progress,
    ) -> Result<Pipeline> {
        let Division { cpu_layers, gpus, .. } = division;
        let of_cpu = (*cpu_layers > 0).then_some((None, 0..*cpu_layers));
        let of_gpus = gpus.iter().map(|(device, layers)| (Some(device), layers.clone()));
        let (mut cut, mut parts, mut behind) = (Vec::new(), Vec::new(), 0);
        for (device, layers) in of_cpu.into_iter().chain(of_gpus) {
            let whole = placed.filter(|_| device.is_some()).map(|placed| &placed.program);
            let mut part = Part::new(program, whole, layers)?;
            part.matrices.extend(partition::beside(&part.matrices, beside)?);
            let matrices = part.matrices.iter().map(|&Weight(i)| weights.matrices[i as usize]).collect();
            let weights = Weights { matrices, vectors: weights.vectors.clone(), ropes: weights.ropes.clone() };
            if let Some(device) = device {
                behind += device.weight_bytes(&weights)?;
            }
            cut.push((device, weights));
            parts.push(part);
        }
        let follow = !gpus.iter().any(|(device, _)| device.plans());
        let (mut before, mut cpu, mut cuda) = (0u64, None, Vec::new());
        // Refuses what the host has no room for before anything is read.
        let plan = |placed| HostExperts::load(placed, isa, weights, pool, (host_bytes, false), &mut |_, _| Ok(()));
        let mut host = placed.map(plan).transpose()?;
        let of_experts = host.as_ref().map_or(0, |host| host.cpu.weight_bytes());
        behind += of_experts;
        let host_left = host_bytes.saturating_sub(of_experts);
        for ((device, weights), part) in cut.iter().zip(&parts) {
            behind -= device.map_or(Ok(0), |device| device.weight_bytes(weights))?;
            let mut own = 0;
            // The bytes of a part are counted after those of the parts before it.
            let mut report = |done: u64, total: u64| {
                own = total;
                progress(before.saturating_add(done), before.saturating_add(total).saturating_add(behind))
            };
            match device {
                Some(device) => cuda.push(Arc::new(device.load(&part.program, weights, &mut report)?)),
                None => {
                    let programs = [&*part.program];
                    let loaded = CpuBackend::load(pool, isa, &programs, weights, None, host_left, follow, &mut report)?;
                    cpu = Some(Arc::new(loaded));
                }
            }
            before = before.saturating_add(own);
        }
        if let Some(placed) = placed.filter(|_| follow) {
            let mut report = |done: u64, total: u64| progress(before + done, before.saturating_add(total));
            let mut loaded = HostExperts::load(placed, isa, weights, pool, (of_experts, true), &mut report)?;
            if let (Some(piece), Some(device)) = (cuda::piece_of(&placed.program), cuda.first()) {
                loaded.copy(device, piece, copied)?;
            }
            host = Some(loaded);
        }
        let piece = placed.and_then(|placed| cuda::piece_of(&placed.program)).unwrap_or(0);
        Ok(Pipeline { cpu, cuda, host, piece, program: program.clone(), parts: Arc::new(parts) })
    }

    /// The parts of a program of this model, with the layers of the one that was loaded.
    fn parts_of(&self, program: &Arc<Program>) -> Result<Arc<Vec<Part>>> {
        if Arc::ptr_eq(program, &self.program) {
            return Ok(self.parts.clone());
        }
        let place = |host: &HostExperts| placement::place(program, host.layers.clone(), self.piece).program;
        let placed = self.host.as_ref().map(place);
        let mut parts = try_vec("parts", self.parts.len())?;
        for (i, loaded) in self.parts.iter().enumerate() {
            let placed = placed.as_ref().filter(|_| i >= self.on_cpu());
            let part = Part::new(program, placed, loaded.layers.clone())?;
            if !loaded.matrices.starts_with(&part.matrices) {
                return Err(Error::unsupported("a network beside the model's own that is on several devices"));
            }
            parts.push(part);
        }
        Ok(Arc::new(parts))
    }

    pub fn cpu(&self) -> Option<&Arc<CpuBackend>> {
        self.cpu.as_ref()
    }

    /// Experts of layers on GPUs, where the host has some.
    pub fn host_experts(&self) -> Option<&HostExperts> {
        self.host.as_ref()
    }

    /// The GPU that has all layers.
    pub fn whole_gpu(&self) -> Option<&Arc<CudaModel>> {
        self.cuda.first().filter(|_| self.parts.len() == 1)
    }

    /// A program as one of the GPU that has all layers, where that has all of its weights, experts too.
    pub fn on_whole_gpu(&self, program: &Program) -> Result<Option<(Arc<CudaModel>, Arc<Program>)>> {
        let Some(gpu) = self.whole_gpu() else { return Ok(None) };
        let (mut own, needed) = program.part(0..program.ops.len())?;
        let place = |weight: &Weight| self.parts[0].matrices.iter().position(|held| held == weight);
        let Some(places) = needed.iter().map(place).collect::<Option<Vec<usize>>>() else { return Ok(None) };
        own.ops.iter_mut().for_each(|op| op.map_weights(|Weight(i)| Weight(places[i as usize] as u32)));
        Ok(Some((gpu.clone(), Arc::new(own))))
    }

    /// The parts on GPUs.
    pub fn cuda(&self) -> &[Arc<CudaModel>] {
        &self.cuda
    }

    /// Number of layers on each GPU.
    pub fn gpu_layers(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().skip(self.on_cpu()).map(|part| part.layers.len())
    }

    /// The place of a product in a part, by its place in the whole program; `None` in those that do not have it.
    pub fn beside(&self, part: usize, beside: Beside) -> Option<Beside> {
        let part = &self.parts[part];
        match beside {
            Beside::Project(weight) => {
                let place = part.matrices.iter().position(|own| *own == weight)?;
                Some(Beside::Project(Weight(place as u32)))
            }
            Beside::Logits => part.program.ops.iter().any(|op| matches!(op, Op::Logits { .. })).then_some(beside),
        }
    }

    /// Number of parts on the CPU.
    fn on_cpu(&self) -> usize {
        usize::from(self.cpu.is_some())
    }

    pub fn new_sequence(&self, spec: &SequenceSpec) -> Result<Sequence> {
        if let Some(gpu) = self.whole_gpu() {
            return Ok(Sequence::new(spec.clone(), None, vec![gpu.new_sequence(spec)?]));
        }
        let (mut layers, mut recurrent) = (&spec.layers[..], &spec.recurrent[..]);
        let (mut cpu, mut cuda) = (None, Vec::new());
        for (i, part) in self.parts.iter().enumerate() {
            let other = || Error::Mismatch(format!("a cache of another model: {spec:?}"));
            let (own, own_memories);
            (own, layers) = layers.split_at_checked(part.program.kv_layers.len()).ok_or_else(other)?;
            (own_memories, recurrent) = recurrent.split_at_checked(part.program.recurrent.len()).ok_or_else(other)?;
            let own = SequenceSpec { layers: own.to_vec(), recurrent: own_memories.to_vec(), ..spec.clone() };
            match i.checked_sub(self.on_cpu()) {
                None => cpu = Some(CpuSequence::new(&own)?),
                Some(gpu) => cuda.push(self.cuda[gpu].new_sequence(&own)?),
            }
        }
        Ok(Sequence::new(spec.clone(), cpu, cuda))
    }
}

impl Part {
    /// The part of some layers. `placed`: the same program where experts of layers on GPUs are on the host.
    fn new(program: &Program, placed: Option<&Program>, layers: Range<usize>) -> Result<Part> {
        let (ops, placed) = (partition::ops(program, &layers), placed.unwrap_or(program));
        let own = partition::ops(placed, &layers);
        let (part, matrices) = placed.part(own.clone())?;
        let crossing = if own.start == 0 { Vec::new() } else { placed.live(own.start) };
        Ok(Part { program: Arc::new(part), ops, layers, matrices, crossing })
    }
}

pub struct PipelineExecutor {
    parts: Arc<Vec<Part>>,
    /// Number of parts on the CPU.
    on_cpu: usize,
    cpu: Option<CpuExecutor>,
    cuda: Vec<CudaExecutor>,
    /// The part of experts that the host has.
    host: Option<Box<HostExecutor>>,
    /// The ways from each GPU to the next one.
    ways: Vec<Transfer>,
    /// Ways from the last GPU to those that look tokens up, by their number, where the host need not know a token.
    token_ways: Vec<(usize, Transfer)>,
    /// The part that executes, and the end of those that have ops to execute.
    at: usize,
    end: usize,
    begun: Instant,
    first_share: Duration,
    /// `[max_tokens, width]` of the widest activation that comes from the CPU.
    room: Vec<f32>,
}

/// The same method of the executor of a part.
macro_rules! of_part {
    ($self:ident, $at:expr, $e:ident => $call:expr) => {
        match ($self.cpu.as_mut(), $at) {
            (Some($e), 0) => $call,
            (cpu, at) => {
                let $e = &mut $self.cuda[at - usize::from(cpu.is_some())];
                $call
            }
        }
    };
}

impl PipelineExecutor {
    pub fn new(pipeline: &Pipeline, program: &Arc<Program>, limits: StepLimits) -> Result<PipelineExecutor> {
        let parts = pipeline.parts_of(program)?;
        let (on_cpu, on_gpus) = parts.split_at(pipeline.on_cpu());
        let cpu = pipeline.cpu.iter().zip(on_cpu);
        let cpu = cpu.map(|(cpu, part)| CpuExecutor::new(cpu.clone(), &part.program, limits)).next().transpose()?;
        let mut cuda = try_vec("parts", on_gpus.len())?;
        for (model, part) in pipeline.cuda.iter().zip(on_gpus) {
            cuda.push(CudaExecutor::new(model.clone(), &part.program, limits)?);
        }
        let host = pipeline.host.as_ref().map(|host| HostExecutor::new(host, &cuda, limits)).transpose()?;
        let (mut ways, mut token_ways) = (try_vec("parts", cuda.len())?, try_vec("parts", cuda.len())?);
        for (pair, part) in cuda.windows(2).zip(&on_gpus[1..]) {
            let width: usize = part.crossing.iter().map(|tensor| part.program.width(*tensor)).sum();
            ways.push(Transfer::new(&pair[0], &pair[1], limits.max_tokens.saturating_mul(width).saturating_mul(4))?);
        }
        let looks_up = |op: &Op| op.reads_ids() || matches!(op, Op::Embed { index: Index::Id | Index::Token, .. });
        if let (None, [others @ .., last]) = (&cpu, &cuda[..]) {
            for (i, other) in others.iter().enumerate() {
                if on_gpus[i].program.ops.iter().any(looks_up) {
                    token_ways.push((i, Transfer::new(last, other, 4 * limits.max_outputs)?));
                }
            }
        }
        let widths = on_gpus[0].crossing.iter().map(|tensor| on_gpus[0].program.width(*tensor));
        let widest = limits.max_tokens.saturating_mul(widths.max().unwrap_or(0));
        Ok(PipelineExecutor {
            cpu,
            cuda,
            host: host.map(Box::new),
            ways,
            token_ways,
            at: 0,
            end: 0,
            begun: Instant::now(),
            first_share: Duration::ZERO,
            room: try_filled("activations", widest, 0f32)?,
            on_cpu: pipeline.on_cpu(),
            parts,
        })
    }

    pub fn begin(&mut self, batch: &mut Batch, ops: Range<usize>) -> Result<()> {
        self.begun = Instant::now();
        let parts = self.parts.clone();
        if let Some(host) = &mut self.host {
            if parts.last().is_some_and(|last| ops != (0..last.ops.end)) {
                return Err(Error::unsupported("a step of some ops where experts are on the host"));
            }
            host.begin(batch.inputs.separate)?;
        }
        self.at = parts.iter().position(|part| ops.start < part.ops.end).unwrap_or(parts.len() - 1);
        self.end = parts.iter().rposition(|part| ops.end > part.ops.start).map_or(1, |last| last + 1);
        for (i, part) in parts.iter().enumerate() {
            let [start, end] = [ops.start, ops.end].map(|op| op.clamp(part.ops.start, part.ops.end) - part.ops.start);
            match (self.cpu.as_mut(), i) {
                (Some(cpu), 0) => cpu.begin(&batch.inputs, &OnCpu(batch.sequences), start..end)?,
                (cpu, i) => {
                    let gpu = i - usize::from(cpu.is_some());
                    // A part whose experts are on the host has ops of its own, which run as a whole.
                    let ops = if self.host.is_some() { 0..part.program.ops.len() } else { start..end };
                    self.cuda[gpu].begin(&batch.inputs, &OnGpu(batch.sequences, gpu), ops)?;
                }
            }
        }
        Ok(())
    }

    pub fn advance(&mut self, batch: &mut Batch, budget: &StepBudget) -> Result<bool> {
        loop {
            let done = match (self.cpu.as_mut(), self.at) {
                (Some(cpu), 0) => cpu.advance(&batch.inputs, &mut OnCpu(batch.sequences), budget)?,
                (cpu, at) => {
                    let gpu = at - usize::from(cpu.is_some());
                    self.advance_gpu(gpu, budget)?
                }
            };
            if !done {
                return Ok(false);
            }
            if self.at + 1 >= self.end {
                return Ok(true);
            }
            self.cross()?;
            self.at += 1;
        }
    }

    /// Works on the part of a GPU, and on that of the host in it.
    fn advance_gpu(&mut self, gpu: usize, budget: &StepBudget) -> Result<bool> {
        let executor = &mut self.cuda[gpu];
        while executor.advance(budget)? {
            let Some(host) = self.host.as_mut().filter(|_| executor.crossing().is_some()) else { return Ok(true) };
            if !host.cross(gpu, executor, budget)? {
                break;
            }
        }
        Ok(false)
    }

    /// Hands what a part computes to the next one.
    fn cross(&mut self) -> Result<()> {
        let part = &self.parts[self.at + 1];
        if let Some(from) = self.at.checked_sub(self.on_cpu) {
            return self.ways[from].hand_on(&self.cuda[from], &self.cuda[from + 1], &part.crossing);
        }
        let Some(cpu) = &mut self.cpu else { return Ok(()) };
        for &tensor in &part.crossing {
            let values = &mut self.room[..cpu.rows() * part.program.width(tensor)];
            cpu.read(tensor, values)?;
            self.cuda[0].write(tensor, values)?;
        }
        // Gives its threads back to others.
        cpu.end()?;
        self.first_share = self.begun.elapsed();
        Ok(())
    }

    pub fn fits_threads(&self) -> bool {
        self.cpu.as_ref().is_none_or(CpuExecutor::fits_threads)
            && self.host.as_ref().is_none_or(|host| host.fits_threads())
    }

    /// The part with the results, once the work of those before it has ended well: what came of a fault looks like
    /// results.
    pub fn head(&mut self) -> Result<&mut CudaExecutor> {
        let Some((head, before)) = self.cuda.split_last_mut() else { return Err(Error::invalid("no GPU")) };
        before.iter_mut().try_for_each(CudaExecutor::finish)?;
        Ok(head)
    }

    /// Time of the CPU.
    pub fn first_share(&self) -> Duration {
        self.first_share + self.host.as_ref().map_or(Duration::ZERO, |host| host.busy())
    }

    /// Tells whether the host has a part of each step.
    fn is_in_part_on_host(&self) -> bool {
        self.cpu.is_some() || self.host.is_some()
    }

    pub fn times(&mut self) -> Times {
        let mut sum = Times::default();
        for executor in &mut self.cuda {
            for (sum, (count, time)) in sum.iter_mut().zip(executor.times()) {
                *sum = (sum.0 + count, sum.1 + time);
            }
        }
        sum
    }

    /// Sets an activation of the part that executes now.
    pub fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        of_part!(self, self.at, e => e.write(tensor, values))
    }

    /// Reads an activation of the part that executed last.
    pub fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        let before = self.at.saturating_sub(self.on_cpu);
        self.cuda[..before].iter_mut().try_for_each(CudaExecutor::finish)?;
        of_part!(self, self.at, e => e.read(tensor, out))
    }

    /// `Executor::read_rows`, where one part has all layers.
    pub fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        match (&mut self.cuda[..], self.on_cpu) {
            ([gpu], 0) => gpu.read_rows(tensor, first, out),
            _ => Err(Error::unsupported("rows of activations on several devices")),
        }
    }

    /// Ends all parts; the first error counts, because the work of later parts is made of that of earlier ones.
    pub fn end(&mut self) -> Result<()> {
        let on_cpu = self.cpu.as_mut().map_or(Ok(()), CpuExecutor::end);
        let on_cpu = on_cpu.and(self.host.as_mut().map_or(Ok(()), |host| host.end()));
        self.cuda.iter_mut().fold(on_cpu, |result, part| result.and(part.end()))
    }

    /// Number of steps that may be submitted ahead: none where the CPU has a part of them.
    pub fn ahead(&self) -> usize {
        let steps = self.cuda.iter().map(CudaExecutor::ahead).min();
        steps.filter(|_| !self.is_in_part_on_host()).unwrap_or(0)
    }

    /// Tells whether a token can be the one that was chosen in the step before.
    pub fn follows(&self) -> bool {
        !self.is_in_part_on_host() && self.cuda.iter().all(CudaExecutor::follows)
    }

    /// Ends the step without waiting for its work. The next one begins after it on all devices, because it looks its
    /// token up.
    pub fn submit(&mut self) -> Result<()> {
        let Some(last) = self.cuda.last().filter(|_| !self.is_in_part_on_host()) else {
            return Err(Error::unsupported("steps ahead of the CPU"));
        };
        for (i, way) in &mut self.token_ways {
            way.hand_tokens(last, &self.cuda[*i])?;
        }
        // The head first, which refuses a step without logits.
        self.cuda.iter_mut().rev().try_for_each(CudaExecutor::submit)
    }

    /// Waits for the parts in order, so that a fault of one is reported ahead of what came of it.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        let n = self.cuda.len();
        self.cuda[..n - 1].iter_mut().try_for_each(|part| part.collect(&mut []))?;
        self.cuda[n - 1].collect(tokens)
    }
}
