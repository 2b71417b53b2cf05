//! Expert offload: experts on the host for layers on GPUs, and their part of a step.
//!
//! The CPU multiplies these experts like the experts of its own layers, bit-identical for equal inputs, while the
//! device continues with queued work that does not need the result. In steps of many rows, if measurements show that
//! this is faster, experts are copied to the device in pieces, and the device multiplies.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::sequence::OnCpu;
use crate::cpu::executor::CpuExecutor;
use crate::cpu::{CpuBackend, HeldMatrix};
use crate::error::{Error, Result, try_filled, try_vec};
use crate::gpu::pieces::{Piece, piece_of, pieces_of};
use crate::gpu::{GpuExecutor, GpuModel, HostTransfer, PieceStream};
use crate::graph::load_options::Copied;
use crate::graph::op::{Experts, OnHost, Op};
use crate::graph::program::Program;
use crate::graph::step::{OpenStep, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::MatrixSource;

pub struct HostExperts {
    /// The weights of the host, which may include layers.
    pub cpu: Arc<CpuBackend>,
    /// One op per layer's experts, numbered by the weights of `cpu`.
    pub program: Arc<Program>,
    /// Layers with experts on the host, from the first to the last.
    pub layers: Range<usize>,
    /// Minimum rows of a step that copies experts to a device; `None`: never.
    pub copied_from: Option<usize>,
}

impl HostExperts {
    /// Returns the number of bytes of the weights of host experts.
    pub fn bytes(&self) -> Result<u64> {
        let (_, needed) = self.program.part(0..self.program.ops.len())?;
        Ok(needed.into_iter().map(|weight| self.cpu.bytes_of(weight)).sum())
    }

    /// Decides which steps copy experts to a device in pieces of `piece` bytes, from the measured time of a layer's
    /// copy and of the host's multiplication.
    pub fn copy(&mut self, device: &dyn GpuModel, piece: usize, copied: Copied) -> Result<()> {
        self.copied_from = match copied {
            Copied::Never => None,
            Copied::From(rows) => Some(rows),
            Copied::Measured => match self.measure(device, piece) {
                Err(Error::OutOfMemory { .. } | Error::DeviceOutOfMemory { .. }) => None,
                rows => rows?,
            },
        };
        Ok(())
    }

    fn measure(&self, device: &dyn GpuModel, piece: usize) -> Result<Option<usize>> {
        let Some(Op::Experts(e)) = self.program.ops.first() else { return Ok(None) };
        let limits = StepLimits { max_tokens: MANY, max_outputs: 0 };
        let mut cpu = CpuExecutor::new(self.cpu.clone(), &self.program, limits)?;
        let copy = self.time_of_copy(&mut cpu, e, device, piece)?;
        let mut time = |rows: usize| {
            let made_up =
                |n: usize| (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 16) as f32 / 65536.0 - 0.5);
            let ids = try_filled("the inputs of a step", rows, 0)?;
            let inputs = StepInputs { ids: &ids, ..StepInputs::default() };
            cpu.begin(&inputs, &OnCpu(&mut []), 0..1)?;
            for tensor in [e.x, e.scores] {
                cpu.write(tensor, &made_up(rows * self.program.width(tensor)).collect::<Vec<f32>>())?;
            }
            let started = Instant::now();
            cpu.advance(&inputs, &mut OnCpu(&mut []), &StepBudget::unlimited())?;
            Ok::<_, Error>(started.elapsed().as_secs_f64())
        };
        // The first run touches new memory.
        let few = time(FEW)?.min(time(FEW)?);
        Ok(rows_from(copy, few, time(MANY)?))
    }

    /// Seconds to copy the matrices of one op, extrapolated from a few pieces.
    fn time_of_copy(&self, cpu: &mut CpuExecutor, e: &Experts, device: &dyn GpuModel, piece: usize) -> Result<f64> {
        let matrices = matrices(&self.cpu, e);
        let sources = each_of(&matrices);
        let pieces = pieces_of(sources, e.stack(), piece)?;
        let mut room = device.new_piece_stream(piece)?;
        let (mut started, mut rows) = (Instant::now(), 0);
        for (i, piece) in pieces.iter().cycle().take(PIECES).enumerate() {
            let Some(of) = sources[piece.matrix] else { continue };
            let range = rows_of(of, piece, e.stack());
            if i > 0 {
                rows += range.len() * of.cols();
            }
            let budget = StepBudget::unlimited();
            room.send(of, range, &budget, &mut |n, item| cpu.run_on_team(n, &budget, item))?;
            if i == 0 {
                room.finish()?;
                started = Instant::now();
            }
        }
        room.finish()?;
        let all: usize = sources.into_iter().flatten().map(|of| of.rows() * of.cols()).sum();
        Ok(started.elapsed().as_secs_f64() * all as f64 / rows.max(1) as f64)
    }
}

/// Numbers of rows for which the host is measured.
const FEW: usize = 32;
const MANY: usize = 256;

/// Number of pieces copied for the measurement; the first one is not counted.
const PIECES: usize = 5;

/// Returns the minimum number of rows, a power of two, for which copies of `copy` seconds are faster than the host,
/// which takes `few` seconds for `FEW` rows and `many` for `MANY`; `None` for invalid measurements.
fn rows_from(copy: f64, few: f64, many: f64) -> Option<usize> {
    let row = (many - few) / (MANY - FEW) as f64;
    let rows = FEW as f64 + ((copy - few) / row).max(0.0);
    (row > 0.0 && copy.is_finite() && rows < f64::from(u16::MAX)).then(|| (rows.ceil() as usize).next_power_of_two())
}

/// Returns the matrices of an op: gate (or up, if there is no gate or both are one matrix), up, down.
fn matrices<'a>(cpu: &'a CpuBackend, e: &Experts) -> [Option<HeldMatrix<'a>>; 3] {
    let up = e.gate.filter(|gate| *gate != e.up).map(|_| e.up);
    [Some(e.gate.unwrap_or(e.up)), up, Some(e.down)].map(|weight| weight.map(|weight| cpu.source(weight)))
}

fn each_of<'a>(matrices: &'a [Option<HeldMatrix>; 3]) -> [Option<&'a dyn MatrixSource>; 3] {
    matrices.each_ref().map(|matrix| matrix.as_ref().map(|matrix| matrix as &dyn MatrixSource))
}

/// Returns the rows of a piece in a matrix of `stack` experts.
fn rows_of(of: &dyn MatrixSource, piece: &Piece, stack: usize) -> Range<usize> {
    let rows = of.rows() / stack;
    piece.experts.start * rows..piece.experts.end * rows
}

/// The host's part of steps on several devices.
pub struct HostExecutor {
    cpu: CpuExecutor,
    weights: Arc<CpuBackend>,
    program: Arc<Program>,
    /// `HostExperts::copied_from`
    copied_from: Option<usize>,
    /// Memory for copies on each GPU, if steps make any.
    copies: Vec<Option<Box<dyn PieceStream>>>,
    /// Number of copied pieces of the current experts.
    sent: usize,
    /// Transfers between each GPU and the host.
    transfers: Vec<Box<dyn HostTransfer>>,
    /// `[max_tokens]`; ops read only their number.
    ids: Vec<u32>,
    /// `[max_tokens, width]` of the widest inputs or results of experts.
    room: Vec<f32>,
    /// Number of rows sent last. `separate`: true if rows are computed as in single-row steps.
    rows: usize,
    separate: bool,
    /// True if the current experts have their inputs.
    begun: bool,
    /// Compute time of the step.
    busy: Duration,
}

impl HostExecutor {
    /// `gpus`: the parts on GPUs, and their programs.
    pub fn new<'a>(
        host: &HostExperts,
        gpus: impl ExactSizeIterator<Item = (&'a Arc<dyn GpuModel>, &'a Program)>,
        limits: StepLimits,
    ) -> Result<HostExecutor> {
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
        let mut transfers = try_vec("parts", gpus.len())?;
        let mut copies = try_vec("parts", gpus.len())?;
        for (gpu, program) in gpus {
            transfers.push(gpu.new_host_transfer([down, up])?);
            copies.push(piece_of(program).map(|bytes| gpu.new_piece_stream(bytes)).transpose()?);
        }
        Ok(HostExecutor {
            cpu: CpuExecutor::new(host.cpu.clone(), program, StepLimits { max_tokens: rows, max_outputs: 0 })?,
            weights: host.cpu.clone(),
            program: program.clone(),
            copied_from: host.copied_from,
            copies,
            sent: 0,
            transfers,
            ids: try_filled("the inputs of a step", rows, 0)?,
            room: try_filled("activations", down.max(up), 0f32)?,
            rows: 0,
            separate: false,
            begun: false,
            busy: Duration::ZERO,
        })
    }

    /// Begins a step and drops the previous one. `separate`: rows are computed as in single-row steps.
    pub fn begin(&mut self, separate: bool) -> Result<()> {
        (self.busy, self.separate) = (Duration::ZERO, separate);
        self.end()
    }

    pub fn end(&mut self) -> Result<()> {
        (self.begun, self.sent) = (false, 0);
        self.cpu.end()
    }

    /// Runs the host's part of the op that a GPU has reached; returns false if `budget` pauses.
    pub fn cross(&mut self, gpu: usize, executor: &mut dyn GpuExecutor, budget: &StepBudget) -> Result<bool> {
        let crossing = executor.crossing();
        if let Some(Op::ToHost { x, .. }) = crossing {
            self.rows = executor.rows(x);
        }
        let together = if self.separate { 1 } else { self.rows };
        if self.copied_from.is_some_and(|from| together >= from && self.copies[gpu].is_some()) {
            if let Some(Op::OnHost(on_host)) = crossing
                && !self.multiply_on(gpu, executor, &on_host, budget)?
            {
                return Ok(false);
            }
            executor.pass_crossing();
            return Ok(true);
        }
        let HostExecutor { cpu, program, transfers, ids, room, rows, begun, busy, .. } = self;
        let transfer = &mut transfers[gpu];
        match crossing {
            Some(Op::ToHost { x, scores, experts }) => {
                let Some(Op::Experts(_)) = program.ops.get(experts) else { return Err(unknown(experts)) };
                transfer.send(executor, [x, scores])?;
            }
            Some(Op::FromHost { out, experts }) => {
                let Some(Op::Experts(e)) = program.ops.get(experts) else { return Err(unknown(experts)) };
                let [of_x, of_scores, of_out] = [e.x, e.scores, e.out].map(|tensor| *rows * program.width(tensor));
                let inputs = StepInputs { ids: &ids[..*rows], ..StepInputs::default() };
                if !*begun {
                    let (x, scores) = room[..of_x + of_scores].split_at_mut(of_x);
                    if !transfer.receive(executor, [&mut *x, &mut *scores], budget)? {
                        return Ok(false);
                    }
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
                transfer.send_back(executor, out, &room[..of_out])?;
                *begun = false;
            }
            Some(Op::OnHost(_)) | None => {}
            Some(_) => return Err(Error::invalid("an op that is none of the host's")),
        }
        executor.pass_crossing();
        Ok(true)
    }

    /// Copies experts to a GPU in pieces and multiplies there; returns false if `budget` pauses.
    fn multiply_on(
        &mut self,
        gpu: usize,
        executor: &mut dyn GpuExecutor,
        OnHost { experts, number, .. }: &OnHost,
        budget: &StepBudget,
    ) -> Result<bool> {
        let HostExecutor { cpu, weights, program, copies, sent, begun, busy, .. } = self;
        let Some(Op::Experts(own)) = program.ops.get(*number) else { return Err(unknown(*number)) };
        let Some(room) = &mut copies[gpu] else { return Err(unknown(*number)) };
        let (matrices, started) = (matrices(weights, own), Instant::now());
        let sources = each_of(&matrices);
        if !std::mem::replace(begun, true) {
            room.choose(executor, experts)?;
        }
        for piece in &pieces_of(sources, own.stack(), room.bytes())?[*sent..] {
            let Some(of) = sources[piece.matrix] else { continue };
            let mut each = |n: usize, item: &(dyn Fn(usize) + Sync)| {
                if budget.pauses(Duration::ZERO) { Ok(false) } else { cpu.run_on_team(n, budget, item) }
            };
            let rows = rows_of(of, piece, own.stack());
            if !room.send(of, rows, budget, &mut each)? {
                return Ok(false);
            }
            room.multiply(executor, experts, piece)?;
            *sent += 1;
        }
        room.combine(executor, experts)?;
        (*begun, *sent) = (false, 0);
        *busy += started.elapsed();
        Ok(true)
    }

    pub fn fits_threads(&self) -> bool {
        self.cpu.fits_threads()
    }

    /// Returns the CPU time of the step.
    pub fn busy(&self) -> Duration {
        self.busy
    }
}

fn unknown(experts: usize) -> Error {
    Error::invalid(format!("experts {experts} do not exist on the host"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_begin_where_the_host_takes_longer() {
        // 1 ms per row, and 8 ms more.
        let from = |copy: f64| rows_from(copy, 0.040, 0.264);
        assert_eq!([0.001, 0.040, 0.0401, 0.130, 0.1355, 0.137].map(from), [32, 32, 64, 128, 128, 256].map(Some));
        assert_eq!((from(10.0), from(1e3)), (Some(16_384), None));
        // Impossible measurements.
        assert_eq!(rows_from(0.1, 0.2, 0.2), None);
        assert_eq!(rows_from(f64::NAN, 0.1, 0.2), None);
        assert_eq!(rows_from(f64::INFINITY, 0.1, 0.2), None);
    }
}
