//! Streaming of matrix pieces from the host to a device, for one use each.
//!
//! There is memory for two pieces. While one piece is copied in a separate stream and multiplied, host threads write
//! the next one to pinned memory. Events after the copy and after the products guard against overwriting.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::args::DeviceMatrix;
use super::executor::CudaExecutor;
use super::launch::{Context, DeviceBuffer, Event, PinnedBuffer, Stream};
use super::weights::matrix;
use crate::error::{Error, Result, try_vec};
use crate::gpu::arena::Arena;
use crate::gpu::pieces::{Piece, Rows};
use crate::gpu::weight_layout::PlaneLayout;
use crate::gpu::{Each, GpuExecutor, PieceStream};
use crate::graph::op::Experts;
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::MatrixSource;

/// Bytes of a file that a thread reads and converts at a time.
const SHARE: usize = 256 << 10;

pub struct CudaPieceStream {
    /// First field, because its drop waits for the copies.
    stream: Stream,
    slots: [Slot; 2],
    /// The slot of the next piece.
    next: usize,
    /// The matrix of the piece that was sent last.
    sent: DeviceMatrix,
    /// The time at which the wait for a slot began; `None` while nothing waits.
    since: Option<Instant>,
}

/// Memory of a piece.
struct Slot {
    pinned: PinnedBuffer,
    device: DeviceBuffer,
    /// Recorded after the copy.
    copied: Event,
    /// Recorded after the products.
    used: Event,
}

/// The work of a thread: rows from number `first` of a piece on.
struct Share<'a> {
    first: usize,
    planes: Vec<&'a mut [u8]>,
    /// Upper bound of the scales of these rows.
    bound: Result<f32>,
}

impl CudaPieceStream {
    /// Allocates memory for pieces of `bytes` bytes.
    pub fn new(context: &Arc<Context>, bytes: usize) -> Result<CudaPieceStream> {
        let current = context.enter()?;
        let slot = || {
            let (copied, used) = (current.event(false)?, current.event(false)?);
            let device = current.alloc("experts of the host", bytes)?;
            Ok::<_, Error>(Slot { pinned: current.alloc_pinned(bytes)?, device, copied, used })
        };
        let stream = current.stream()?;
        Ok(CudaPieceStream { stream, slots: [slot()?, slot()?], next: 0, sent: DeviceMatrix::default(), since: None })
    }
}

impl PieceStream for CudaPieceStream {
    fn bytes(&self) -> usize {
        self.slots[0].device.len()
    }

    fn send(
        &mut self,
        of: &dyn MatrixSource,
        rows: Range<usize>,
        budget: &StepBudget,
        each: &mut Each,
    ) -> Result<bool> {
        let CudaPieceStream { stream, slots, next, sent, since } = self;
        let Slot { pinned, device, copied, used } = &mut slots[*next];
        let (rows, mut arena) = (Rows { of, rows }, Arena::default());
        let layout = PlaneLayout::new(&rows, &mut arena)?;
        let (n, context) = (rows.rows(), device.context().clone());
        if arena.bytes() > pinned.len() {
            return Err(Error::invalid(format!("a chunk has {} bytes; it must have {}", arena.bytes(), pinned.len())));
        }
        if !context.enter()?.wait_within(copied, since, budget)? {
            return Ok(false);
        }
        let most = (SHARE / layout.row_bytes.max(1)).clamp(1, n);
        let mut shares = try_vec("rows to upload", n.div_ceil(most))?;
        for first in (0..n).step_by(most) {
            shares.push(Share { first, planes: try_vec("planes", layout.planes.len())?, bound: Ok(0.0) });
        }
        let (mut rest, mut end) = (pinned.bytes_mut(), 0);
        for (offset, row) in &layout.planes {
            let (plane, later) = rest.split_at_mut(offset - end).1.split_at_mut(n * row);
            (rest, end) = (later, offset + n * row);
            shares.iter_mut().zip(plane.chunks_mut(most * row)).for_each(|(share, rows)| share.planes.push(rows));
        }
        let shares: Vec<Mutex<Share>> = shares.into_iter().map(Mutex::new).collect();
        let fill = |share: &mut Share| {
            let n = most.min(n - share.first);
            let raw = layout.rows(&rows, share.first, n, |_| ())?;
            layout.split(&raw, n, &mut share.planes);
            Ok(layout.bound(&raw))
        };
        let work = |i: usize| {
            let mut share = shares[i].lock().unwrap_or_else(PoisonError::into_inner);
            share.bound = fill(&mut share);
        };
        if !each(shares.len(), &work)? {
            return Ok(false);
        }
        let mut bound = 0f32;
        for share in shares {
            bound = bound.max(share.into_inner().unwrap_or_else(PoisonError::into_inner).bound?);
        }
        let current = context.enter()?;
        current.follow(stream, used)?;
        current.upload(stream, device.at(0), pinned.at(0), arena.bytes())?;
        current.record(stream, copied)?;
        *next = 1 - *next;
        *sent = matrix(&layout, device.address(), bound);
        Ok(true)
    }

    fn finish(&self) -> Result<()> {
        self.slots[0].device.context().enter()?.synchronize(&self.stream)
    }

    fn choose(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()> {
        let executor = CudaExecutor::of_mut(executor)?;
        let context = executor.context().clone();
        let current = context.enter()?;
        executor.lowering(&current).choose_in_pieces(experts)
    }

    fn multiply(&self, executor: &mut dyn GpuExecutor, experts: &Experts, piece: &Piece) -> Result<()> {
        let executor = CudaExecutor::of_mut(executor)?;
        let context = executor.context().clone();
        let current = context.enter()?;
        let Slot { copied, used, .. } = &self.slots[1 - self.next];
        current.follow(executor.stream(), copied)?;
        executor.lowering(&current).multiply_piece(experts, piece, self.sent)?;
        current.record(executor.stream(), used)
    }

    fn combine(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()> {
        let executor = CudaExecutor::of_mut(executor)?;
        let context = executor.context().clone();
        let current = context.enter()?;
        executor.lowering(&current).combine_pieces(experts)
    }
}
