//! The products of LoRA adapters in a step: rows of sequences with the same adapters are multiplied together and added
//! to the products of the weights. A row's result depends on no other row. Steps without adapters allocate no memory
//! for adapters.

use std::ops::Range;

use crate::cpu::adapter::CpuAdapter;
use crate::cpu::kernels::{Isa, elementwise};
use crate::cpu::matmul;
use crate::cpu::matmul::plan::{MatmulJob, MatmulWorkspace};
use crate::cpu::memory::Floats;
use crate::cpu::tensors::{Rows, StepTensors, each_row};
use crate::cpu::threads::pool::Team;
use crate::error::{Result, try_vec};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::op::{Op, Projection, TensorId};
use crate::graph::program::Program;
use crate::graph::weights::{AdapterTarget, LowRank};

/// Number of rows that are multiplied at once.
const ROWS: usize = 128;

/// Number of multiplications that are done before another thread could have started.
const SMALL: usize = 16 * 1024;

/// The rows of a step that have adapters.
#[derive(Default)]
pub struct Adapted {
    scratch: Option<Scratch>,
    is_active: bool,
}

struct Scratch {
    /// Row indices, group by group.
    rows: Vec<u32>,
    groups: Vec<Group>,
    products: Products,
}

/// Rows with the same adapters.
struct Group {
    /// Slot of one sequence with these adapters.
    slot: u32,
    rows: Range<usize>,
}

struct Products {
    /// `[ROWS, widest input]`, for non-adjacent rows.
    input: Floats,
    /// `[rows, rank]` per factor A with the same input, one after the other.
    inner: Floats,
    /// Indices of these factors, and the offsets of their results.
    reduced: Vec<(usize, usize)>,
    /// `[ROWS, widest result]`
    outer: Floats,
}

/// The scratch of a step.
pub struct AdaptScratch<'a> {
    pub team: &'a Team,
    pub isa: Isa,
    pub workspace: &'a mut MatmulWorkspace,
}

/// Returns the maximum number of projections of one input, at least 1 for the output head.
fn projections(program: &Program) -> usize {
    let of = |op: &Op| if let Op::Project { projections, .. } = op { projections.len() } else { 1 };
    program.ops.iter().map(of).max().unwrap_or(1)
}

/// Returns the widths of `Products::input`, `inner` and `outer`; no rank exceeds the width of the widest input.
fn widths(program: &Program) -> [usize; 3] {
    let (input, widest) =
        (program.widest_input(), program.tensors.iter().map(|tensor| tensor.width).max().unwrap_or(0));
    // At least one row of logits.
    [input, input * projections(program), widest.max(program.vocab.div_ceil(ROWS))]
}

/// Returns the maximum scratch size of a step with adapters in bytes.
pub fn scratch_bytes(program: &Program) -> u64 {
    (ROWS * size_of::<f32>() * widths(program).iter().sum::<usize>()) as u64
}

impl Adapted {
    /// Groups the rows of a step by their adapters; rows of a sequence have the same adapters.
    pub fn begin<'a>(
        &mut self,
        program: &Program,
        max_tokens: usize,
        slots: &[u32],
        set: impl Fn(u32) -> &'a AdapterSet<CpuAdapter>,
    ) -> Result<()> {
        self.is_active = slots.iter().any(|&slot| !set(slot).is_empty());
        if self.is_active && self.scratch.is_none() {
            self.scratch = Some(Scratch::new(program, max_tokens)?);
        }
        self.keep(slots, set);
        Ok(())
    }

    /// As `begin`, with fewer rows.
    pub fn keep<'a>(&mut self, slots: &[u32], set: impl Fn(u32) -> &'a AdapterSet<CpuAdapter>) {
        let Some(Scratch { rows, groups, .. }) = self.scratch.as_mut().filter(|_| self.is_active) else { return };
        rows.clear();
        groups.clear();
        for (i, &slot) in slots.iter().enumerate() {
            let adapters = set(slot);
            let is_known = groups.iter().any(|group| set(group.slot).is(adapters));
            if !adapters.is_empty() && !is_known {
                let start = rows.len();
                let same = (i..).zip(&slots[i..]).filter(|(_, other)| set(**other).is(adapters));
                rows.extend(same.map(|(row, _)| row as u32));
                groups.push(Group { slot, rows: start..rows.len() });
            }
        }
    }

    /// True if some rows have adapters.
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// Adds the adapters' products to the results of projections.
    pub fn project<'a>(
        &mut self,
        mut scratch: AdaptScratch,
        tensors: &mut StepTensors,
        x: TensorId,
        projections: &[Projection],
        set: impl Fn(u32) -> &'a AdapterSet<CpuAdapter>,
    ) -> Result<()> {
        let Some(Scratch { rows, groups, products }) = &mut self.scratch else { return Ok(()) };
        for group in groups {
            for rows in rows[group.rows.clone()].chunks(ROWS) {
                for (adapter, scale) in set(group.slot).iter() {
                    let products_of = |i: usize| adapter.for_target(AdapterTarget::Project(projections[i].weight));
                    products.reduce(
                        &mut scratch,
                        adapter,
                        (0..projections.len()).flat_map(products_of),
                        rows,
                        tensors.get(x).0,
                    )?;
                    for (i, projection) in projections.iter().enumerate() {
                        for product in products_of(i) {
                            products.add(&mut scratch, adapter, product, *scale, rows, tensors.get(projection.out));
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// Adds the adapters' products to logits, `[rows, vocab]`.
    pub fn logits<'a>(
        &mut self,
        mut scratch: AdaptScratch,
        x: &[f32],
        logits: Rows,
        set: impl Fn(u32) -> &'a AdapterSet<CpuAdapter>,
    ) -> Result<()> {
        let Some(Scratch { rows, groups, products }) = &mut self.scratch else { return Ok(()) };
        let (logits, vocab) = logits;
        let at_once = (products.outer.len() / vocab).clamp(1, ROWS);
        for group in groups {
            for rows in rows[group.rows.clone()].chunks(at_once) {
                for (adapter, scale) in set(group.slot).iter() {
                    for product in adapter.for_target(AdapterTarget::Logits) {
                        products.reduce(&mut scratch, adapter, [product].into_iter(), rows, x)?;
                        products.add(&mut scratch, adapter, product, *scale, rows, (&mut *logits, vocab));
                    }
                }
            }
        }
        Ok(())
    }
}

impl Scratch {
    fn new(program: &Program, max_tokens: usize) -> Result<Scratch> {
        let floats = |width| Floats::new("products of adapters", ROWS, width);
        let [input, inner, outer] = widths(program);
        let (input, inner, outer) = (floats(input)?, floats(inner)?, floats(outer)?);
        let reduced = try_vec("products of adapters", projections(program))?;
        Ok(Scratch {
            rows: try_vec("rows with adapters", max_tokens)?,
            groups: try_vec("rows with adapters", max_tokens)?,
            products: Products { input, inner, reduced, outer },
        })
    }
}

impl Products {
    /// Computes `inner = A x` of each product for some rows.
    fn reduce<'a>(
        &mut self,
        scratch: &mut AdaptScratch,
        adapter: &'a CpuAdapter,
        products: impl Iterator<Item = &'a LowRank>,
        rows: &[u32],
        x: &[f32],
    ) -> Result<()> {
        let Products { input, inner, reduced, .. } = self;
        reduced.clear();
        let (mut jobs, mut left, mut at) = (try_vec("products of adapters", reduced.capacity())?, &mut inner[..], 0);
        let (n, mut cols) = (rows.len(), 0);
        for product in products {
            if reduced.iter().any(|(a, _)| *a == product.a) {
                continue;
            }
            let (matrix, bytes) = adapter.matrix(product.a);
            let (out, rest) = left.split_at_mut(n * matrix.rows);
            (left, cols) = (rest, matrix.cols());
            reduced.push((product.a, at));
            at += out.len();
            jobs.push(MatmulJob::new(matrix, bytes, None, out));
        }
        if jobs.is_empty() {
            return Ok(());
        }
        let x = match is_run(rows) {
            true => &x[rows[0] as usize * cols..][..n * cols],
            false => {
                for (row, to) in rows.iter().zip(input.chunks_exact_mut(cols)) {
                    to.copy_from_slice(&x[*row as usize * cols..][..cols]);
                }
                &input[..n * cols]
            }
        };
        scratch.multiply(x, n, &mut jobs);
        Ok(())
    }

    /// Computes `out += factor * B inner` for some rows.
    fn add(
        &mut self,
        scratch: &mut AdaptScratch,
        adapter: &CpuAdapter,
        product: &LowRank,
        scale: f32,
        rows: &[u32],
        out: Rows,
    ) {
        let Some(&(_, at)) = self.reduced.iter().find(|(a, _)| *a == product.a) else { return };
        let (matrix, bytes) = adapter.matrix(product.b);
        let (isa, n, (out, width)) = (scratch.isa, rows.len(), out);
        let outer = &mut self.outer[..n * width];
        let inner = &self.inner[at..at + n * matrix.cols()];
        scratch.multiply(inner, n, &mut [MatmulJob::new(matrix, bytes, None, outer)]);
        let factor = (product.factor * f64::from(scale)) as f32;
        let add = |out: &mut [f32], delta: &mut [f32]| elementwise::add_scaled(isa, out, delta, factor);
        if is_run(rows) {
            let out = &mut out[rows[0] as usize * width..][..n * width];
            each_row(scratch.team, (out, width), (outer, width), |_, out, delta| add(out, delta));
        } else {
            for (row, delta) in rows.iter().zip(outer.chunks_exact_mut(width)) {
                add(&mut out[*row as usize * width..][..width], delta);
            }
        }
    }
}

impl AdaptScratch<'_> {
    fn multiply(&mut self, x: &[f32], rows: usize, jobs: &mut [MatmulJob]) {
        let work: usize = jobs.iter().map(|job| x.len() * job.matrix.rows).sum();
        match work <= SMALL {
            true => matmul::multiply_on_caller(self.isa, self.workspace, x, rows, jobs),
            false => matmul::multiply(self.team, self.isa, self.workspace, x, rows, jobs),
        }
    }
}

/// True if the rows are consecutive.
fn is_run(rows: &[u32]) -> bool {
    rows.last().zip(rows.first()).is_some_and(|(last, first)| (last - first) as usize + 1 == rows.len())
}
