//! Experts of layers on GPUs that are on the host, and their part of a step.
//!
//! The CPU multiplies as it does those of its own layers, with the same bits for the same inputs, while the device goes
//! on with what it was given behind these.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::partition;
use super::placement::Placed;
use super::sequence::OnCpu;
use crate::cpu::CpuBackend;
use crate::cpu::executor::CpuExecutor;
use crate::cpu::kernels::Isa;
use crate::cpu::threads::pool::Pool;
use crate::cuda::{CudaExecutor, HostWay};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::graph::op::Op;
use crate::graph::program::Program;
use crate::graph::step::{StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::{Progress, Weights};

pub struct HostExperts {
    pub cpu: Arc<CpuBackend>,
    pub program: Arc<Program>,
    /// Layers whose experts these are, from the first to the last.
    pub layers: Range<usize>,
}

impl HostExperts {
    pub fn load(
        placed: &Placed,
        isa: Isa,
        weights: &Weights,
        pool: &Arc<Pool>,
        (host_bytes, follow): (u64, bool),
        progress: &mut Progress,
    ) -> Result<HostExperts> {
        let (program, weights) = partition::part(&placed.experts, 0..placed.experts.ops.len(), weights)?;
        let cpu = CpuBackend::load(pool, isa, &[&program], &weights, None, host_bytes, follow, progress)?;
        Ok(HostExperts { cpu: Arc::new(cpu), program, layers: placed.layers.clone() })
    }
}

/// The part of the host in steps of several devices.
pub struct HostExecutor {
    cpu: CpuExecutor,
    program: Arc<Program>,
    /// The way from each GPU to the host and back.
    ways: Vec<HostWay>,
    /// `[max_tokens]`, of which no op reads more than their number.
    ids: Vec<u32>,
    /// `[max_tokens, width]` of the widest inputs of experts, or of their results.
    room: Vec<f32>,
    /// Rows that were sent last.
    rows: usize,
    /// The experts at hand have their inputs.
    begun: bool,
    /// Time of the step.
    busy: Duration,
}

impl HostExecutor {
    pub fn new(host: &HostExperts, gpus: &[CudaExecutor], limits: StepLimits) -> Result<HostExecutor> {
        let (program, rows) = (&host.program, limits.max_tokens.max(limits.max_outputs));
        let widest =
            |width: &dyn Fn(&Op) -> usize| rows.saturating_mul(program.ops.iter().map(width).max().unwrap_or(0));
        let down = widest(&|op| match op {
            Op::Experts(e) => program.width(e.x) + program.width(e.scores),
            _ => 0,
        });
        let up = widest(&|op| match op {
            Op::Experts(e) => program.width(e.out),
            _ => 0,
        });
        let mut ways = try_vec("parts", gpus.len())?;
        for gpu in gpus {
            ways.push(HostWay::new(gpu, [down, up])?);
        }
        Ok(HostExecutor {
            cpu: CpuExecutor::new(host.cpu.clone(), program, StepLimits { max_tokens: rows, max_outputs: 0 })?,
            program: program.clone(),
            ways,
            ids: try_filled("the inputs of a step", rows, 0)?,
            room: try_filled("activations", down.max(up), 0f32)?,
            rows: 0,
            begun: false,
            busy: Duration::ZERO,
        })
    }

    /// Begins with a step, and forgets the one before.
    pub fn begin(&mut self) -> Result<()> {
        self.busy = Duration::ZERO;
        self.end()
    }

    pub fn end(&mut self) -> Result<()> {
        self.begun = false;
        self.cpu.end()
    }

    /// Does the host's part of the op that a GPU has come to; false where `budget` pauses it.
    pub fn cross(&mut self, gpu: usize, executor: &mut CudaExecutor, budget: &StepBudget) -> Result<bool> {
        let HostExecutor { cpu, program, ways, ids, room, rows, begun, busy } = self;
        let way = &mut ways[gpu];
        match executor.crossing() {
            Some(Op::ToHost { x, scores, experts }) => {
                let Some(Op::Experts(_)) = program.ops.get(experts) else { return Err(unknown(experts)) };
                *rows = way.send(executor, [x, scores])?;
            }
            Some(Op::FromHost { out, experts }) => {
                let Some(Op::Experts(e)) = program.ops.get(experts) else { return Err(unknown(experts)) };
                let [of_x, of_scores, of_out] = [e.x, e.scores, e.out].map(|tensor| *rows * program.width(tensor));
                let inputs = StepInputs { ids: &ids[..*rows], ..StepInputs::default() };
                if !*begun {
                    let (x, scores) = room[..of_x + of_scores].split_at_mut(of_x);
                    way.receive(executor, [&mut *x, &mut *scores])?;
                    cpu.begin(&inputs, &OnCpu(&mut []), experts..experts + 1)?;
                    cpu.write(e.x, x)?;
                    cpu.write(e.scores, scores)?;
                    *begun = true;
                }
                let started = Instant::now();
                let done = cpu.advance(&inputs, &mut OnCpu(&mut []), budget)?;
                *busy += started.elapsed();
                if !done {
                    return Ok(false);
                }
                cpu.read(e.out, &mut room[..of_out])?;
                way.answer(executor, out, &room[..of_out])?;
                *begun = false;
            }
            _ => {}
        }
        executor.pass_crossing();
        Ok(true)
    }

    pub fn fits_threads(&self) -> bool {
        self.cpu.fits_threads()
    }

    /// Time that the CPU worked on the step.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

fn unknown(experts: usize) -> Error {
    Error::invalid(format!("experts number {experts} of the host"))
}
