//! The way of pieces of matrices from the host to a device, for one use.
//!
//! There is memory for two pieces. While one is copied, in a stream of its own, and multiplied by, threads of the host
//! lay the next one down in page-locked memory; what may be overwritten is known from events behind the copy and behind
//! the products.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use super::args::DeviceMatrix;
use super::device::CudaModel;
use super::executor::CudaExecutor;
use super::launch::{Context, DeviceBuffer, Event, PinnedBuffer, Stream};
use super::weights::matrix;
use crate::error::{Error, Result, try_vec};
use crate::gpu::arena::Arena;
use crate::gpu::pieces::{Piece, Rows, piece_of};
use crate::gpu::weight_layout::PlaneLayout;
use crate::graph::op::Experts;
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::MatrixSource;

/// Bytes of a file that a thread reads and lays down at a time.
const SHARE: usize = 256 << 10;

/// Executes work for the numbers below the first, on several threads; false where nothing was done, because the time of
/// the step is up.
pub type Each<'a> = dyn FnMut(usize, &(dyn Fn(usize) + Sync)) -> Result<bool> + 'a;

pub struct Pieces {
    /// First, because it waits for its copies when it is dropped.
    stream: Stream,
    slots: [Slot; 2],
    /// The slot that the next piece takes.
    next: usize,
    /// The time at which the wait for it began; `None` while nothing waits.
    since: Option<Instant>,
}

/// Memory of a piece.
struct Slot {
    pinned: PinnedBuffer,
    device: DeviceBuffer,
    /// Stands behind the copy.
    copied: Event,
    /// Stands behind the products.
    used: Event,
}

/// What a thread lays down: rows from number `first` of a piece on.
struct Share<'a> {
    first: usize,
    planes: Vec<&'a mut [u8]>,
    /// A bound of the scales of these rows.
    bound: Result<f32>,
}

impl Pieces {
    /// Memory for the steps of an executor, where they have a use for it.
    pub fn of(executor: &CudaExecutor) -> Result<Option<Pieces>> {
        piece_of(executor.program()).map(|bytes| Pieces::new(executor.context(), bytes)).transpose()
    }

    /// Memory on the device of a model, for pieces of so many bytes.
    pub fn on(model: &CudaModel, bytes: usize) -> Result<Pieces> {
        Pieces::new(&model.device.context, bytes)
    }

    fn new(context: &Arc<Context>, bytes: usize) -> Result<Pieces> {
        let current = context.enter()?;
        let slot = || {
            let (copied, used) = (current.event(false)?, current.event(false)?);
            let device = current.alloc("experts of the host", bytes)?;
            Ok::<_, Error>(Slot { pinned: current.alloc_pinned(bytes)?, device, copied, used })
        };
        Ok(Pieces { stream: current.stream()?, slots: [slot()?, slot()?], next: 0, since: None })
    }

    /// Queues the copy of some rows of a matrix, which threads lay down first; `None` where `budget` ends the wait for
    /// the copy before from this memory, or `each` did nothing.
    pub fn send(
        &mut self,
        of: &dyn MatrixSource,
        rows: Range<usize>,
        budget: &StepBudget,
        each: &mut Each,
    ) -> Result<Option<DeviceMatrix>> {
        let Pieces { stream, slots, next, since } = self;
        let Slot { pinned, device, copied, used } = &mut slots[*next];
        let (rows, mut arena) = (Rows { of, rows }, Arena::default());
        let layout = PlaneLayout::new(&rows, &mut arena)?;
        let (n, context) = (rows.rows(), device.context().clone());
        if arena.bytes() > pinned.len() {
            return Err(Error::invalid(format!("a piece of {} bytes for {}", arena.bytes(), pinned.len())));
        }
        if !context.enter()?.wait_within(copied, since, budget)? {
            return Ok(None);
        }
        let most = (SHARE / layout.row_bytes.max(1)).clamp(1, n);
        let mut shares = try_vec("rows to upload", n.div_ceil(most))?;
        for first in (0..n).step_by(most) {
            shares.push(Share { first, planes: try_vec("planes", layout.planes.len())?, bound: Ok(0.0) });
        }
        let (mut rest, mut end) = (pinned.bytes_mut(), 0);
        for (offset, row) in &layout.planes {
            let (plane, behind) = rest.split_at_mut(offset - end).1.split_at_mut(n * row);
            (rest, end) = (behind, offset + n * row);
            shares.iter_mut().zip(plane.chunks_mut(most * row)).for_each(|(share, rows)| share.planes.push(rows));
        }
        let shares: Vec<Mutex<Share>> = shares.into_iter().map(Mutex::new).collect();
        let fill = |share: &mut Share| {
            let n = most.min(n - share.first);
            let raw = layout.rows(&rows, (share.first, n), |_| ())?;
            layout.split(&raw, n, &mut share.planes);
            Ok(layout.bound(&raw))
        };
        let work = |i: usize| {
            let mut share = shares[i].lock().unwrap_or_else(PoisonError::into_inner);
            share.bound = fill(&mut share);
        };
        if !each(shares.len(), &work)? {
            return Ok(None);
        }
        let mut bound = 0f32;
        for share in shares {
            bound = bound.max(share.into_inner().unwrap_or_else(PoisonError::into_inner).bound?);
        }
        let current = context.enter()?;
        current.follow(stream, used)?;
        current.upload(stream, device, 0, pinned, 0, arena.bytes())?;
        current.record(stream, copied)?;
        *next = 1 - *next;
        Ok(Some(matrix(&layout, device.address(), bound)))
    }

    /// Bytes of a piece, at most.
    pub fn bytes(&self) -> usize {
        self.slots[0].device.len()
    }

    /// Waits for the end of all copies.
    pub fn finish(&self) -> Result<()> {
        self.slots[0].device.context().enter()?.synchronize(&self.stream)
    }
}

impl CudaExecutor {
    /// Queues the choice of experts whose matrices follow in pieces.
    pub fn choose_experts(&mut self, experts: &Experts) -> Result<()> {
        let context = self.context().clone();
        let current = context.enter()?;
        self.lowering(&current).choose_in_pieces(experts)
    }

    /// Queues the products with the piece that was sent last, whose matrix is `w`.
    pub fn multiply_piece(&mut self, experts: &Experts, pieces: &Pieces, piece: &Piece, w: DeviceMatrix) -> Result<()> {
        let context = self.context().clone();
        let current = context.enter()?;
        let Slot { copied, used, .. } = &pieces.slots[1 - pieces.next];
        current.follow(self.stream(), copied)?;
        self.lowering(&current).multiply_piece(experts, piece, w)?;
        current.record(self.stream(), used)
    }

    /// Queues the sum of the results of all pieces.
    pub fn combine_experts(&mut self, experts: &Experts) -> Result<()> {
        let context = self.context().clone();
        let current = context.enter()?;
        self.lowering(&current).combine_pieces(experts)
    }
}
