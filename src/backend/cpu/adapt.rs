//! The products of low-rank adapters in a step: rows of sequences with the same adapters are multiplied together and added
//! to the products of the weights. A row's result depends on no other row. Steps without adapters take no memory for it.

use std::ops::Range;

use super::acts::{Acts, each_row};
use super::adapter::{AdapterSet, CpuAdapter};
use super::kernels::{Isa, elementwise};
use super::matmul;
use super::matmul_plan::{MatmulJob, MatmulWorkspace};
use super::memory::Floats;
use super::pool::Team;
use crate::backend::op::{Act, Projection};
use crate::backend::program::Program;
use crate::backend::weights::{Beside, LowRank};
use crate::error::{Result, try_vec};

/// Rows that are multiplied at once.
const ROWS: usize = 128;

/// Multiplications of a product that is done before another thread has started.
const SMALL: usize = 64 * 1024;

/// The rows of a step that have adapters.
#[derive(Default)]
pub struct Adapted {
    scratch: Option<Scratch>,
    is_active: bool,
}

struct Scratch {
    /// Rows, group by group.
    rows: Vec<u32>,
    groups: Vec<Group>,
    products: Products,
}

/// Rows that have the same adapters.
struct Group {
    /// A sequence that has them.
    slot: u32,
    rows: Range<usize>,
}

struct Products {
    /// `[ROWS, widest input]`, rows that do not stand together.
    input: Floats,
    /// `[ROWS, rank]`
    inner: Floats,
    /// `[ROWS, widest result]`
    outer: Floats,
    /// The place of an adapter in the set, and its factor, whose products with the rows at hand are in `inner`.
    made: Option<(usize, usize)>,
}

/// The means of a step.
pub struct Means<'a> {
    pub team: &'a Team,
    pub isa: Isa,
    pub workspace: &'a mut MatmulWorkspace,
}

impl Adapted {
    /// Groups the rows of a step by their adapters, those of a sequence being told by its slot.
    pub fn begin<'a>(
        &mut self,
        program: &Program,
        max_tokens: usize,
        slots: &[u32],
        set: impl Fn(u32) -> &'a AdapterSet,
    ) -> Result<()> {
        self.is_active = slots.iter().any(|&slot| !set(slot).is_empty());
        if self.is_active && self.scratch.is_none() {
            self.scratch = Some(Scratch::new(program, max_tokens)?);
        }
        self.keep(slots, set);
        Ok(())
    }

    /// `begin` with fewer rows.
    pub fn keep<'a>(&mut self, slots: &[u32], set: impl Fn(u32) -> &'a AdapterSet) {
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

    /// True where some rows have adapters.
    pub fn is_active(&self) -> bool {
        self.is_active
    }

    /// Adds to the results of projections.
    pub fn project<'a>(
        &mut self,
        mut means: Means,
        acts: &mut Acts,
        x: Act,
        projections: &[Projection],
        set: impl Fn(u32) -> &'a AdapterSet,
    ) {
        let Some(Scratch { rows, groups, products }) = &mut self.scratch else { return };
        for group in groups {
            for rows in rows[group.rows.clone()].chunks(ROWS) {
                products.made = None;
                for projection in projections {
                    let [(x, _), (out, width)] = acts.disjoint([x, projection.out]);
                    let beside = Beside::Project(projection.weight);
                    products.add(&mut means, set(group.slot), beside, rows, x, (out, width));
                }
            }
        }
    }

    /// Adds to logits, `[rows, vocab]`.
    pub fn logits<'a>(
        &mut self,
        mut means: Means,
        x: &[f32],
        logits: (&mut [f32], usize),
        set: impl Fn(u32) -> &'a AdapterSet,
    ) {
        let Some(Scratch { rows, groups, products }) = &mut self.scratch else { return };
        for group in groups {
            for rows in rows[group.rows.clone()].chunks(ROWS) {
                products.made = None;
                let (out, width) = (&mut *logits.0, logits.1);
                products.add(&mut means, set(group.slot), Beside::Logits, rows, x, (out, width));
            }
        }
    }
}

impl Scratch {
    fn new(program: &Program, max_tokens: usize) -> Result<Scratch> {
        let widest = program.acts.iter().map(|act| act.width).max().unwrap_or(0);
        let floats = |width| Floats::new("products of adapters", ROWS, width);
        Ok(Scratch {
            rows: try_vec("rows with adapters", max_tokens)?,
            groups: try_vec("rows with adapters", max_tokens)?,
            products: Products {
                input: floats(program.widest_input())?,
                inner: floats(program.widest_input())?,
                // One row of logits at least.
                outer: floats(widest.max(program.vocab.div_ceil(ROWS)))?,
                made: None,
            },
        })
    }
}

impl Products {
    /// Adds the products of a set that stand beside another one to some rows of it.
    fn add(
        &mut self,
        means: &mut Means,
        set: &AdapterSet,
        beside: Beside,
        rows: &[u32],
        x: &[f32],
        (out, width): (&mut [f32], usize),
    ) {
        for (i, (adapter, scale)) in set.iter().enumerate() {
            for product in adapter.beside(beside) {
                let factor = (product.factor * f64::from(*scale)) as f32;
                let at_once = (self.outer.len() / width).clamp(1, ROWS);
                for rows in rows.chunks(at_once) {
                    if at_once < ROWS {
                        self.made = None;
                    }
                    self.multiply(means, (i, adapter), product, rows, x);
                    let outer = &mut self.outer[..rows.len() * width];
                    let isa = means.isa;
                    let add = |out: &mut [f32], delta: &mut [f32]| elementwise::add_scaled(isa, out, delta, factor);
                    let first = rows[0] as usize * width;
                    if is_run(rows) {
                        let out = &mut out[first..first + rows.len() * width];
                        each_row(means.team, (out, width), (outer, width), |_, out, delta| add(out, delta));
                    } else {
                        for (row, delta) in rows.iter().zip(outer.chunks_exact_mut(width)) {
                            add(&mut out[*row as usize * width..][..width], delta);
                        }
                    }
                }
            }
        }
    }

    /// `outer = B (A x)` for some rows.
    fn multiply(
        &mut self,
        means: &mut Means,
        (i, adapter): (usize, &CpuAdapter),
        product: &LowRank,
        rows: &[u32],
        x: &[f32],
    ) {
        let (a, b) = (adapter.matrix(product.a), adapter.matrix(product.b));
        let (n, cols, rank) = (rows.len(), a.0.cols(), a.0.rows);
        let made = Some((i, product.a));
        if self.made != made {
            let x = match is_run(rows) {
                true => &x[rows[0] as usize * cols..][..n * cols],
                false => {
                    for (row, to) in rows.iter().zip(self.input.chunks_exact_mut(cols)) {
                        to.copy_from_slice(&x[*row as usize * cols..][..cols]);
                    }
                    &self.input[..n * cols]
                }
            };
            means.multiply(x, n, MatmulJob::new(a.0, a.1, None, &mut self.inner[..n * rank]));
            self.made = made;
        }
        let outer = &mut self.outer[..n * b.0.rows];
        means.multiply(&self.inner[..n * rank], n, MatmulJob::new(b.0, b.1, None, outer));
    }
}

impl Means<'_> {
    fn multiply(&mut self, x: &[f32], rows: usize, job: MatmulJob) {
        let mut jobs = [job];
        match x.len().saturating_mul(jobs[0].matrix.rows) <= SMALL {
            true => matmul::multiply_alone(self.isa, self.workspace, x, rows, &mut jobs),
            false => matmul::multiply(self.team, self.isa, self.workspace, x, rows, &mut jobs),
        }
    }
}

/// True for rows that follow one another.
fn is_run(rows: &[u32]) -> bool {
    rows.last().zip(rows.first()).is_some_and(|(last, first)| (last - first) as usize + 1 == rows.len())
}
