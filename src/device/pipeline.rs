//! A program on several devices: the first layers on the CPU or a GPU, the others on GPUs in order.
//!
//! Each part is a program of its own with its own KV cache; the activations used on both sides of a cut, usually the
//! residual stream, are transferred once per step. Between two GPUs the transfer is queued after the work that produces
//! them, so the host waits only for the last part. `partition` decides which layers go where.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::batch::Batch;
use super::host_experts::{HostExecutor, HostExperts};
use super::load::Load;
use super::placement::{self, Placed};
use super::sequence::{OnCpu, OnGpu, Sequence};
use crate::cpu::executor::CpuExecutor;
use crate::cpu::sequence::CpuSequence;
use crate::cpu::{CpuBackend, CpuLoad};
use crate::device::partition::{self, Division};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::gpu::{GpuExecutor, GpuModel, Transfer, pieces};
use crate::graph::device_info::Times;
use crate::graph::op::{Index, Op, TensorId, Weight};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::{OpenStep, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::{AdapterTarget, Progress, Weights};

/// A model in parts, in layer order.
pub struct Pipeline {
    /// The weights of the host, if any: of the first part, then of experts of layers on GPUs.
    on_host: Option<Arc<CpuBackend>>,
    /// Number of parts on the CPU: 0, or 1 for the first part.
    on_cpu: usize,
    /// The other parts, at least one.
    gpus: Vec<Arc<dyn GpuModel>>,
    /// Experts on the host for layers on GPUs, if any.
    host: Option<HostExperts>,
    /// Size in bytes of the pieces in which steps copy experts to a GPU; 0: never.
    piece: usize,
    /// The loaded program, and its parts.
    program: Arc<Program>,
    parts: Arc<Vec<Part>>,
}

struct Part {
    program: Arc<Program>,
    /// Range of ops in the whole program.
    ops: Range<usize>,
    layers: Range<usize>,
    /// The matrices of the part, as indices of the whole program.
    matrices: Vec<Weight>,
    /// Activations from the previous part.
    crossing: Vec<TensorId>,
}

impl Pipeline {
    /// Loads the parts of a division, the last of which must be on a GPU. `placed`: the programs with experts on the
    /// host. `cpu_load`: the load of the host's weights.
    pub fn load(
        division: &Division,
        placed: Option<&Placed>,
        program: &Arc<Program>,
        weights: &Weights,
        load: &Load,
        cpu_load: CpuLoad,
        progress: &mut Progress,
    ) -> Result<Pipeline> {
        let Division { cpu_layers, gpus, .. } = division;
        let (mut parts, mut held) = (Vec::new(), Vec::new());
        if *cpu_layers > 0 {
            let part = Part::new(program, None, 0..*cpu_layers)?;
            held.extend(&part.matrices);
            parts.push(part);
        }
        let on_cpu = parts.len();
        let experts = placed.map(|placed| placed.experts.part(0..placed.experts.ops.len())).transpose()?;
        let experts = experts.map(|(mut experts, needed)| {
            let before = held.len() as u32;
            experts.ops.iter_mut().for_each(|op| op.map_weights(|Weight(i)| Weight(before + i)));
            held.extend(needed);
            Arc::new(experts)
        });
        let (mut on_gpus, mut after) = (Vec::new(), 0);
        for (device, layers) in gpus {
            let mut part = Part::new(program, placed.map(|placed| &placed.program), layers.clone())?;
            if layers.end == program.layers.len() {
                part.matrices.extend(partition::companion_weights(&part.matrices, &load.companions)?);
            }
            let weights = weights.with(&part.matrices);
            after += device.weight_bytes(&weights)?;
            on_gpus.push((device, weights));
            parts.push(part);
        }
        // Progress counts the bytes of a part after those of earlier parts.
        let mut before = 0u64;
        let on_host: Vec<&Program> =
            parts.iter().map(|part| &*part.program).take(on_cpu).chain(experts.as_deref()).collect();
        let on_host = match &on_host[..] {
            [] => None,
            programs => {
                let mut report = |done: u64, total: u64| {
                    before = total;
                    progress(done, total.saturating_add(after))
                };
                Some(Arc::new(CpuBackend::load(cpu_load, programs, &weights.with(&held), &mut report)?))
            }
        };
        let mut gpus = Vec::new();
        for ((device, weights), part) in on_gpus.iter().zip(&parts[on_cpu..]) {
            after -= device.weight_bytes(weights)?;
            let mut own = 0;
            let mut report = |done: u64, total: u64| {
                own = total;
                progress(before.saturating_add(done), before.saturating_add(total).saturating_add(after))
            };
            gpus.push(Arc::clone(device).load(&part.program, weights, &mut report)?);
            before = before.saturating_add(own);
        }
        let piece = placed.and_then(|placed| pieces::piece_of(&placed.program)).unwrap_or(0);
        let mut host = None;
        if let (Some(placed), Some(program), Some(cpu)) = (placed, experts, &on_host) {
            let mut experts =
                HostExperts { cpu: cpu.clone(), program, layers: placed.layers.clone(), copied_from: None };
            if let Some(device) = gpus.first().filter(|_| piece > 0 && !load.options.plan) {
                experts.copy(&**device, piece, load.options.copied)?;
            }
            host = Some(experts);
        }
        Ok(Pipeline { on_host, on_cpu, gpus, host, piece, program: program.clone(), parts: Arc::new(parts) })
    }

    /// Divides another program with the same layers into parts.
    fn parts_of(&self, program: &Arc<Program>) -> Result<Arc<Vec<Part>>> {
        if Arc::ptr_eq(program, &self.program) {
            return Ok(self.parts.clone());
        }
        let place = |host: &HostExperts| placement::place(program, host.layers.clone(), self.piece).program;
        let placed = self.host.as_ref().map(place);
        let mut parts = try_vec("parts", self.parts.len())?;
        for (i, loaded) in self.parts.iter().enumerate() {
            let placed = placed.as_ref().filter(|_| i >= self.on_cpu);
            let part = Part::new(program, placed, loaded.layers.clone())?;
            if !loaded.matrices.starts_with(&part.matrices) {
                return Err(Error::unsupported("a network beside the model's own that is on several devices"));
            }
            parts.push(part);
        }
        Ok(Arc::new(parts))
    }

    /// Returns the weights of the host, if any.
    pub fn on_host(&self) -> Option<&Arc<CpuBackend>> {
        self.on_host.as_ref()
    }

    /// Returns the weights of the host, if they belong to the first part.
    pub fn cpu(&self) -> Option<&Arc<CpuBackend>> {
        self.on_host().filter(|_| self.on_cpu > 0)
    }

    /// Returns the experts on the host for layers on GPUs, if any.
    pub fn host_experts(&self) -> Option<&HostExperts> {
        self.host.as_ref()
    }

    /// Returns the last part that has all weights of a program, and the program renumbered for it.
    pub fn on_one(&self, program: &Program) -> Result<Option<(usize, Arc<Program>)>> {
        let (mut own, needed) = program.part(0..program.ops.len())?;
        for (i, part) in self.parts.iter().enumerate().rev() {
            let place = |weight: &Weight| part.matrices.iter().position(|held| held == weight);
            let Some(places) = needed.iter().map(place).collect::<Option<Vec<usize>>>() else { continue };
            own.ops.iter_mut().for_each(|op| op.map_weights(|Weight(i)| Weight(places[i as usize] as u32)));
            return Ok(Some((i, Arc::new(own))));
        }
        Ok(None)
    }

    /// Returns the GPU of a part.
    pub fn gpu_of(&self, part: usize) -> Option<&Arc<dyn GpuModel>> {
        part.checked_sub(self.on_cpu).map(|gpu| &self.gpus[gpu])
    }

    /// Renumbers a program for the part of this model's sequences on the last GPU.
    pub fn for_last(&self, program: &Program) -> Result<Arc<Program>> {
        let before = |n: fn(&Program) -> usize| self.parts.iter().rev().skip(1).map(|part| n(&part.program)).sum();
        let [layers, recurrent]: [usize; 2] =
            [before(|part| part.kv_layers.len()), before(|part| part.recurrent.len())];
        let (kv_layers, recurrent) = (program.kv_layers.get(layers..), program.recurrent.get(recurrent..));
        let other = || Error::Mismatch("the program belongs to another model".to_owned());
        let (kv_layers, recurrent) = (kv_layers.ok_or_else(other)?.to_vec(), recurrent.ok_or_else(other)?.to_vec());
        let mut own = Program { kv_layers, recurrent, ..program.clone() };
        for layer in own.ops.iter_mut().filter_map(Op::layer_mut) {
            let elsewhere = || {
                Error::unsupported("a draft head that reads the KV cache of layers on several devices is not supported")
            };
            layer.0 = layer.0.checked_sub(layers as u32).ok_or_else(elsewhere)?;
        }
        Ok(Arc::new(own))
    }

    /// Returns the parts on GPUs.
    pub fn gpus(&self) -> &[Arc<dyn GpuModel>] {
        &self.gpus
    }

    /// Returns the number of layers on each GPU.
    pub fn gpu_layers(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().skip(self.on_cpu).map(|part| part.layers.len())
    }

    /// Converts the location of an adapted product to a part; `None` if the part lacks it.
    pub fn adapter_target(&self, part: usize, target: AdapterTarget) -> Option<AdapterTarget> {
        let part = &self.parts[part];
        match target {
            AdapterTarget::Project(weight) => {
                let place = part.matrices.iter().position(|own| *own == weight)?;
                Some(AdapterTarget::Project(Weight(place as u32)))
            }
            AdapterTarget::Logits => {
                part.program.ops.iter().any(|op| matches!(op, Op::Logits { .. })).then_some(target)
            }
        }
    }

    pub fn new_sequence(&self, spec: &SequenceSpec) -> Result<Sequence> {
        let (mut layers, mut recurrent) = (&spec.layers[..], &spec.recurrent[..]);
        let (mut cpu, mut gpus) = (None, Vec::new());
        for (i, part) in self.parts.iter().enumerate() {
            let other = || Error::Mismatch(format!("the cache belongs to another model: {spec:?}"));
            let (own, own_recurrent);
            (own, layers) = layers.split_at_checked(part.program.kv_layers.len()).ok_or_else(other)?;
            (own_recurrent, recurrent) = recurrent.split_at_checked(part.program.recurrent.len()).ok_or_else(other)?;
            let own = SequenceSpec { layers: own.to_vec(), recurrent: own_recurrent.to_vec(), ..spec.clone() };
            match i.checked_sub(self.on_cpu) {
                None => cpu = Some(CpuSequence::new(&own)?),
                Some(gpu) => gpus.push(self.gpus[gpu].new_sequence(&own)?),
            }
        }
        Ok(Sequence::new(spec.clone(), cpu, gpus))
    }
}

impl Part {
    /// Returns the part of some layers. `placed`: the same program with experts on the host.
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
    gpus: Vec<Box<dyn GpuExecutor>>,
    /// The host's part of experts.
    host: Option<Box<HostExecutor>>,
    /// Transfers from each GPU to the next one; `None`: through the host.
    ways: Vec<Option<Box<dyn Transfer>>>,
    /// Transfers of sampled tokens from the last GPU to each GPU (by index) that looks up embeddings, so that the host
    /// need not wait for a token.
    token_ways: Vec<(usize, Box<dyn Transfer>)>,
    /// Activations that the program keeps, each with the last part that names it.
    kept: Vec<(TensorId, usize)>,
    /// The current part, and the end of the parts that have ops to execute.
    at: usize,
    end: usize,
    begun: Instant,
    first_share: Duration,
    /// `[max_tokens, width]` of the widest activation that goes through the host.
    room: Vec<f32>,
}

impl PipelineExecutor {
    pub fn new(pipeline: &Pipeline, program: &Arc<Program>, limits: StepLimits) -> Result<PipelineExecutor> {
        let parts = pipeline.parts_of(program)?;
        let (on_cpu, on_gpus) = parts.split_at(pipeline.on_cpu);
        let cpu = pipeline.cpu().into_iter().zip(on_cpu);
        let cpu = cpu.map(|(cpu, part)| CpuExecutor::new(cpu.clone(), &part.program, limits)).next().transpose()?;
        let models = &pipeline.gpus;
        let mut gpus = try_vec("parts", on_gpus.len())?;
        for (model, part) in models.iter().zip(on_gpus) {
            gpus.push(model.clone().new_executor(&part.program, limits)?);
        }
        let programs = models.iter().zip(on_gpus.iter().map(|part| &*part.program));
        let host = pipeline.host.as_ref().map(|host| HostExecutor::new(host, programs, limits)).transpose()?;
        let (mut ways, mut token_ways) = (try_vec("parts", gpus.len())?, try_vec("parts", gpus.len())?);
        for (pair, part) in models.windows(2).zip(&on_gpus[1..]) {
            let width: usize = part.crossing.iter().map(|tensor| part.program.width(*tensor)).sum();
            let bytes = limits.max_tokens.saturating_mul(width).saturating_mul(4);
            ways.push(pair[0].new_transfer(&*pair[1], bytes)?);
        }
        let looks_up = |op: &Op| op.reads_ids() || matches!(op, Op::Embed { index: Index::Id | Index::Token, .. });
        if let (None, [others @ .., last]) = (&cpu, &models[..]) {
            for (i, other) in others.iter().enumerate() {
                if on_gpus[i].program.ops.iter().any(looks_up) {
                    token_ways.extend(last.new_transfer(&**other, 4 * limits.max_outputs)?.map(|way| (i, way)));
                }
            }
        }
        let last_of = |tensor| {
            let names = |part: &Part| part.program.ops.iter().any(|op| op.names(tensor));
            parts.iter().rposition(names).unwrap_or(0)
        };
        let through_host =
            on_gpus.iter().enumerate().filter(|(i, _)| i.checked_sub(1).is_none_or(|i| ways[i].is_none()));
        let widths = through_host.flat_map(|(_, part)| part.crossing.iter().map(|tensor| part.program.width(*tensor)));
        let widest = limits.max_tokens.saturating_mul(widths.max().unwrap_or(0));
        Ok(PipelineExecutor {
            cpu,
            gpus,
            host: host.map(Box::new),
            ways,
            token_ways,
            kept: program.kept.iter().map(|&tensor| (tensor, last_of(tensor))).collect(),
            at: 0,
            end: 0,
            begun: Instant::now(),
            first_share: Duration::ZERO,
            room: try_filled("activations", widest, 0f32)?,
            on_cpu: pipeline.on_cpu,
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
                    // A part with experts on the host has its own ops, which run as a whole.
                    let ops = if self.host.is_some() { 0..part.program.ops.len() } else { start..end };
                    self.gpus[gpu].begin(&batch.inputs, &OnGpu(batch.sequences, gpu), ops)?;
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

    /// Runs the part of a GPU, including the host's experts in it.
    fn advance_gpu(&mut self, gpu: usize, budget: &StepBudget) -> Result<bool> {
        let executor = &mut *self.gpus[gpu];
        while executor.advance(budget)? {
            let Some(host) = self.host.as_mut().filter(|_| executor.crossing().is_some()) else { return Ok(true) };
            if !host.cross(gpu, executor, budget)? {
                break;
            }
        }
        Ok(false)
    }

    /// Transfers the results of a part to the next one.
    fn cross(&mut self) -> Result<()> {
        let part = &self.parts[self.at + 1];
        if let Some(from) = self.at.checked_sub(self.on_cpu) {
            if let Some(way) = &mut self.ways[from] {
                return way.hand_on(&*self.gpus[from], &*self.gpus[from + 1], &part.crossing);
            }
            for &tensor in &part.crossing {
                let values = &mut self.room[..self.gpus[from].rows(tensor) * part.program.width(tensor)];
                self.gpus[from].read(tensor, values)?;
                self.gpus[from + 1].write(tensor, values)?;
            }
            return Ok(());
        }
        let Some(cpu) = &mut self.cpu else { return Ok(()) };
        for &tensor in &part.crossing {
            let values = &mut self.room[..cpu.rows() * part.program.width(tensor)];
            cpu.read(tensor, values)?;
            self.gpus[0].write(tensor, values)?;
        }
        // Releases its threads.
        cpu.end()?;
        self.first_share = self.begun.elapsed();
        Ok(())
    }

    pub fn fits_threads(&self) -> bool {
        self.cpu.as_ref().is_none_or(CpuExecutor::fits_threads)
            && self.host.as_ref().is_none_or(|host| host.fits_threads())
    }

    /// Returns the part with the results, after checking that all earlier parts succeeded: results computed from a
    /// fault look valid.
    fn head(&mut self) -> Result<&mut dyn GpuExecutor> {
        let Some((head, before)) = self.gpus.split_last_mut() else {
            return Err(Error::invalid("the list of devices is empty; it must name a GPU"));
        };
        before.iter_mut().try_for_each(|part| part.finish())?;
        Ok(&mut **head)
    }

    /// Returns the CPU time.
    pub fn first_share(&self) -> Duration {
        self.first_share + self.host.as_ref().map_or(Duration::ZERO, |host| host.busy())
    }

    /// True if the host has a part of each step.
    fn is_in_part_on_host(&self) -> bool {
        self.cpu.is_some() || self.host.is_some()
    }

    pub fn times(&mut self) -> Times {
        let mut sum = Times::default();
        for executor in &mut self.gpus {
            for (sum, (count, time)) in sum.iter_mut().zip(executor.times()) {
                *sum = (sum.0 + count, sum.1 + time);
            }
        }
        sum
    }

    pub fn graph_bytes(&self) -> Vec<u64> {
        self.gpus.iter().map(|gpu| gpu.graph_bytes()).collect()
    }

    /// Returns the maximum number of steps in flight: 0 if the CPU computes a part of each step.
    pub fn ahead(&self) -> usize {
        let steps = self.gpus.iter().map(|part| part.ahead()).min();
        steps.filter(|_| !self.is_in_part_on_host()).unwrap_or(0)
    }

    /// True if a token may be the previous step's sample.
    pub fn follows(&self) -> bool {
        !self.is_in_part_on_host() && self.gpus.iter().all(|part| part.follows())
    }

    /// Ends the step without waiting for its work. On all devices the next step follows this one, because the next step
    /// looks up the token that this one samples.
    pub fn submit(&mut self) -> Result<()> {
        let Some(last) = self.gpus.last().filter(|_| !self.is_in_part_on_host()) else {
            return Err(Error::unsupported("pipelined steps are not supported on the CPU"));
        };
        for (i, way) in &mut self.token_ways {
            way.hand_tokens(&**last, &*self.gpus[*i])?;
        }
        // The head first, because it rejects a step without logits.
        self.gpus.iter_mut().rev().try_for_each(|part| part.submit())
    }

    /// Waits for the parts in order, so that the original fault is reported first.
    pub fn collect(&mut self, tokens: &mut [u32]) -> Result<()> {
        let n = self.gpus.len();
        self.gpus[..n - 1].iter_mut().try_for_each(|part| part.collect(&mut []))?;
        self.gpus[n - 1].collect(tokens)
    }

    /// Returns the step of a part.
    fn part(&mut self, at: usize) -> &mut dyn OpenStep {
        match (self.cpu.as_mut(), at) {
            (Some(cpu), 0) => cpu,
            (cpu, at) => &mut *self.gpus[at - usize::from(cpu.is_some())],
        }
    }
}

impl OpenStep for PipelineExecutor {
    fn token(&mut self, i: usize) -> Result<u32> {
        self.head()?.token(i)
    }

    fn read_logits(&mut self, i: usize, out: &mut [f32]) -> Result<()> {
        self.head()?.read_logits(i, out)
    }

    /// Sets an activation of the current part.
    fn write(&mut self, tensor: TensorId, values: &[f32]) -> Result<()> {
        self.part(self.at).write(tensor, values)
    }

    /// Reads an activation of the part that executed last.
    fn read(&mut self, tensor: TensorId, out: &mut [f32]) -> Result<()> {
        let before = self.at.saturating_sub(self.on_cpu);
        self.gpus[..before].iter_mut().try_for_each(|part| part.finish())?;
        self.part(self.at).read(tensor, out)
    }

    /// Copies rows from the last part that names the activation.
    fn read_rows(&mut self, tensor: TensorId, first: usize, out: &mut [f32]) -> Result<()> {
        let part = self.kept.iter().find(|(kept, _)| *kept == tensor).map_or(self.at, |(_, part)| *part);
        let before = part.saturating_sub(self.on_cpu);
        self.gpus[..before].iter_mut().try_for_each(|part| part.finish())?;
        self.part(part).read_rows(tensor, first, out)
    }

    /// Ends all parts. Returns the first error, because later parts depend on earlier ones.
    fn end(&mut self) -> Result<()> {
        let on_cpu = self.cpu.as_mut().map_or(Ok(()), CpuExecutor::end);
        let on_cpu = on_cpu.and(self.host.as_mut().map_or(Ok(()), |host| host.end()));
        self.gpus.iter_mut().fold(on_cpu, |result, part| result.and(part.end()))
    }
}
