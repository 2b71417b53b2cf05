//! The activations of a step on the CPU, and loops over their rows.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use super::memory::Floats;
use crate::cpu::threads::disjoint::DisjointSlice;
use crate::cpu::threads::pool::Team;
use crate::error::{Result, try_vec};
use crate::graph::op::TensorId;
use crate::graph::program::{Program, TensorSpec};

/// Number of values below which an op is done before another thread has noticed it.
pub const SMALL: usize = 16 * 1024;

/// The activations of a step.
pub struct StepTensors {
    program: Arc<Program>,
    /// `[max_tokens, width]`
    pub buffers: Vec<Floats>,
    /// Number of rows of the step.
    pub n: usize,
}

impl StepTensors {
    pub fn new(program: &Arc<Program>, max_tokens: usize) -> Result<StepTensors> {
        let mut buffers = try_vec("activations", program.buffers.len())?;
        for width in &program.buffers {
            buffers.push(Floats::new("activations", max_tokens, *width)?);
        }
        Ok(StepTensors { program: program.clone(), buffers, n: 0 })
    }

    pub fn spec(&self, tensor: TensorId) -> TensorSpec {
        self.program.tensors[tensor.0 as usize]
    }

    pub fn width(&self, tensor: TensorId) -> usize {
        self.spec(tensor).width
    }

    pub fn get(&mut self, tensor: TensorId) -> Rows<'_> {
        let TensorSpec { width, buffer } = self.spec(tensor);
        (&mut self.buffers[buffer][..self.n * width], width)
    }

    /// Returns activations that are live at the same time, and therefore in different buffers.
    pub fn disjoint<const N: usize>(&mut self, tensors: [TensorId; N]) -> [Rows<'_>; N] {
        let specs = tensors.map(|tensor| self.spec(tensor));
        let buffers = self.buffers.get_disjoint_mut(specs.map(|spec| spec.buffer));
        let mut buffers = buffers.expect("`Program` lays them apart").into_iter().zip(specs);
        std::array::from_fn(|_| {
            let (buffer, TensorSpec { width, .. }) = buffers.next().expect("as many as there are specs");
            (&mut buffer[..self.n * width], width)
        })
    }

    /// As `disjoint`, with no rows for missing activations.
    pub fn disjoint_of<const N: usize>(&mut self, tensors: [Option<TensorId>; N]) -> [Rows<'_>; N] {
        let specs = tensors.map(|tensor| tensor.map(|tensor| self.spec(tensor)));
        let mut rows = [const { None }; N];
        for (i, buffer) in self.buffers.iter_mut().enumerate() {
            if let Some(at) = specs.iter().position(|spec| spec.is_some_and(|spec| spec.buffer == i)) {
                rows[at] = specs[at].map(|spec| (&mut buffer[..self.n * spec.width], spec.width));
            }
        }
        rows.map(|rows| rows.unwrap_or_default())
    }
}

/// `[n, width]` and the width.
pub type Rows<'a> = (&'a mut [f32], usize);

/// Calls `row(t, a[t], b[t])` for every row of two arrays, on all threads if there is enough work.
pub fn each_row(team: &Team, a: Rows, b: Rows, row: impl Fn(usize, &mut [f32], &mut [f32]) + Sync) {
    let ((a, width_a), (b, width_b)) = (a, b);
    let n = a.len().checked_div(width_a).unwrap_or(0);
    assert!(a.len() == n * width_a && b.len() == n * width_b);
    let small = a.len() + b.len() <= SMALL;
    let (a, b) = (DisjointSlice::new(a), DisjointSlice::new(b));
    let rows = |rows: Range<usize>| {
        for t in rows {
            // SAFETY: ranges of rows do not overlap.
            let (a, b) =
                unsafe { (a.slice_mut(t * width_a..(t + 1) * width_a), b.slice_mut(t * width_b..(t + 1) * width_b)) };
            row(t, a, b);
        }
    };
    if small {
        return rows(0..n);
    }
    let partition = team.partition(n, 1);
    team.run(|share| rows(partition.range(share)));
}

/// `each_row` for one array.
pub fn each(team: &Team, rows: Rows, row: impl Fn(usize, &mut [f32]) + Sync) {
    each_row(team, rows, (&mut [], 0), |t, x, _| row(t, x));
}
