//! Matrix products and embeddings.
//!
//! Products with quantized matrices use 8-bit integers: a row of activations is quantized to 8 bits with a scale per 32
//! columns, as on the CPU. Products with float matrices are computed in floats.

use super::{Lowering, rows_per_launch, words};
use crate::error::{Error, Result};
use crate::gpu::weight_layout::COLS;
use crate::graph::op::{Index, Projection, TensorId, Vector, Weight};
use crate::graph::weights::AdapterTarget;
use crate::quant;
use crate::tensor::DType;
use crate::wgpu::adapter::StepAdapter;
use crate::wgpu::draws::Parts;
use crate::wgpu::inputs::Run;
use crate::wgpu::kernels::{Kernel, NONE};
use crate::wgpu::weights::{DeviceMatrix, Part};

/// Matrix rows per workgroup of `gemv.wgsl`, and tokens per workgroup if a step has several tokens.
const GEMV_ROWS: usize = 4;
const GEMV_TOKENS: usize = 4;

/// Maximum number of tokens for which `gemv.wgsl` is used.
const FEW: usize = 8;

/// Number of rows and of tokens per workgroup of `tile.wgsl`.
const TILE: usize = 64;

/// Input rows of a product that are not divided among launches.
const LEAST_ROWS: usize = 512;

/// Maximum number of row blocks in one dimension of a grid; further row blocks use the third dimension.
pub(super) const BLOCKS: usize = 32_768;

/// Input rows of a product: offset of the floats, row stride, width and number of rows.
#[derive(Clone, Copy)]
pub(super) struct Floats {
    pub at: u32,
    pub row: usize,
    pub width: usize,
    pub n: usize,
}

/// Destination of a product: offset, row stride, and offset of the bias.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub at: u32,
    pub row: usize,
    pub bias: u32,
}

/// Heads of rows, and the products of a matrix per head with the heads' first `width` values.
#[derive(Clone, Copy)]
struct Heads {
    heads: usize,
    /// Number of rows.
    n: usize,
    /// Offset of the rows, and width of a head.
    x: u32,
    x_head: usize,
    width: usize,
    /// Offset of the results, and width of a head.
    out: u32,
    out_head: usize,
    factor: f32,
    /// True to add to the results.
    adds: bool,
}

/// Returns the WGSL fragment that loads weights of a type, and true if the type has blocks; `None` for types without a
/// fragment.
pub fn readers(dtype: DType) -> Option<(&'static str, bool)> {
    Some(match dtype {
        quant::F32 => ("f32", false),
        quant::F16 => ("f16", false),
        quant::BF16 => ("bf16", false),
        quant::Q4_0 => ("q4_0", true),
        quant::Q4_1 => ("q4_1", true),
        quant::Q5_0 => ("q5_0", true),
        quant::Q5_1 => ("q5_1", true),
        quant::Q8_0 => ("q8_0", true),
        quant::Q4_K => ("q4_k", true),
        quant::Q5_K => ("q5_k", true),
        quant::Q6_K => ("q6_k", true),
        _ => return None,
    })
}

/// Returns the kernel `name` for a type, or `of_floats` for types without blocks.
pub(super) fn kernel_of(dtype: DType, name: &'static str, of_floats: &'static str) -> Result<(Kernel, bool)> {
    let unknown = || Error::unsupported(format!("matrices of type {} are not supported on this GPU", dtype.0));
    let (reader, has_blocks) = readers(dtype).ok_or_else(unknown)?;
    Ok(match has_blocks {
        true => {
            let mut fragments = vec!["blocks", "dot", reader];
            fragments.extend([quant::Q4_K, quant::Q5_K].contains(&dtype).then_some("scales_of_k"));
            (Kernel::new(name, &fragments), true)
        }
        false => (Kernel::new(of_floats, &["floats", reader]), false),
    })
}

/// Returns the kernel `project_heads` for a type.
fn of_columns(dtype: DType) -> Result<Kernel> {
    let (mut kernel, has_blocks) = kernel_of(dtype, "project_heads", "project_heads")?;
    kernel.fragments.retain(|fragment| !["dot", "floats"].contains(fragment));
    let before = kernel.fragments.len() - 1;
    kernel.fragments.insert(before, if has_blocks { "columns_of_blocks" } else { "columns_of_floats" });
    Ok(kernel)
}

/// Returns a grid of `blocks` row blocks and `n` others.
pub(super) fn grid(blocks: usize, n: usize) -> [usize; 3] {
    [blocks.min(BLOCKS), n, blocks.div_ceil(BLOCKS)]
}

impl Lowering<'_> {
    pub(super) fn floats(&self, x: TensorId) -> Floats {
        let width = self.width(x);
        Floats { at: self.tensor(x), row: width, width, n: self.n() }
    }

    /// Quantizes rows to 8 bits, for products with quantized matrices.
    pub(super) fn prepare(&mut self, x: Floats) -> Result<()> {
        let cols = x.width.next_multiple_of(32);
        let words: &[u32] = words![x.width, cols, x.at, x.row, self.scratch.quants, self.scratch.groups, 0u32];
        self.launch(&Kernel::new("prepare", &[]), 0, [cols.div_ceil(256), x.n, 1], words)
    }

    pub(super) fn project(&mut self, x: TensorId, projections: &[Projection]) -> Result<()> {
        let x = self.floats(x);
        let weights = self.weights;
        let has_blocks = |p: &Projection| readers(weights.matrix(p.weight).dtype).is_some_and(|(_, blocks)| blocks);
        if projections.iter().any(has_blocks) {
            self.prepare(x)?;
        }
        for p in projections {
            let bias = self.weights.vector(p.bias);
            let to = Target { at: self.tensor(p.out), row: self.width(p.out), bias };
            self.multiply(weights.matrix(p.weight), x, to)?;
            self.adapt(AdapterTarget::Project(p.weight), x, to)?;
        }
        Ok(())
    }

    /// Multiplies a matrix by input rows; for a quantized matrix, `prepare` must have quantized the rows.
    fn multiply(&mut self, matrix: &DeviceMatrix, x: Floats, to: Target) -> Result<()> {
        let is_few = x.n <= FEW || self.is_batch_invariant;
        let (name, of_floats) = if is_few { ("gemv", "gemv_float") } else { ("tile", "tile_float") };
        let (mut kernel, has_blocks) = kernel_of(matrix.dtype, name, of_floats)?;
        let tokens = match (is_few, x.n == 1 && !self.is_batch_invariant) {
            (true, true) => 1,
            (true, false) => GEMV_TOKENS,
            (false, _) => TILE,
        };
        if is_few {
            kernel = kernel.with("T", tokens as u32);
        }
        for part in &matrix.parts {
            let Part { buffer, first_row, rows, planes: [a, b, c, d] } = *part;
            let bias = if to.bias == NONE { NONE } else { to.bias + first_row as u32 };
            let blocks = rows.div_ceil(if is_few { GEMV_ROWS } else { TILE });
            let piece = rows_per_launch(rows * matrix.cols, LEAST_ROWS);
            for first in (0..x.n).step_by(piece) {
                let n = piece.min(x.n - first);
                let at = |base: u32, each: usize| base + (first * each) as u32;
                let (quants, groups) = (self.scratch.quants, self.scratch.groups);
                let (rows_at, rows_step) = match has_blocks {
                    true => (at(quants, matrix.cols / 4), at(groups, 2 * (matrix.cols / COLS))),
                    false => (at(x.at, x.row), x.row as u32),
                };
                let out = at(to.at, to.row) + first_row as u32;
                let words: &[u32] =
                    words![rows, matrix.cols, n, a, b, c, d, rows_at, rows_step, out, to.row, bias, x.width];
                self.launch(&kernel, buffer, grid(blocks, n.div_ceil(tokens)), words)?;
            }
        }
        Ok(())
    }

    /// Multiplies a matrix per head by the first values of the head, in floats; the other values follow the results.
    pub(super) fn project_heads(&mut self, [x, out]: [TensorId; 2], weight: Weight, heads: usize) -> Result<()> {
        let [x_head, out_head] = [x, out].map(|tensor| self.width(tensor) / heads);
        let matrix = self.weights.matrix(weight);
        let width = x_head + matrix.rows() / heads - out_head;
        let [x, out] = [x, out].map(|tensor| self.tensor(tensor));
        let of = Heads { heads, n: self.n(), x, x_head, width, out, out_head, factor: 1.0, adds: false };
        self.multiply_heads(matrix, 0, of)
    }

    /// Launches `project_heads.wgsl` for a matrix whose first bind group of weights is `group`.
    fn multiply_heads(&mut self, matrix: &DeviceMatrix, group: usize, of: Heads) -> Result<()> {
        let (rows, kernel) = (matrix.rows() / of.heads, of_columns(matrix.dtype)?);
        for part in &matrix.parts {
            let Part { buffer, first_row, rows: part_rows, planes: [a, b, c, d] } = *part;
            let words: &[u32] = words![
                rows,
                matrix.cols,
                of.n,
                a,
                b,
                c,
                d,
                first_row,
                part_rows,
                of.x,
                of.x_head,
                of.out,
                of.out_head,
                of.heads,
                of.width,
                of.factor,
                of.adds
            ];
            self.launch(&kernel, group + buffer, [rows.div_ceil(8), of.heads, of.n.div_ceil(4)], words)?;
        }
        Ok(())
    }

    /// Adds the products of LoRA adapters to the product `target`.
    fn adapt(&mut self, target: AdapterTarget, x: Floats, to: Target) -> Result<()> {
        let (caches, adapters) = (self.caches, self.adapters);
        if adapters.is_empty() {
            return Ok(());
        }
        for Run { sequence: i, tokens, .. } in self.tokens().runs.clone() {
            for &(at, scale) in caches.get(i).into_iter().flat_map(|cache| &cache.adapters) {
                let StepAdapter { adapter, first: group, .. } = &adapters[at];
                let Some(product) = adapter.for_target(target) else { continue };
                let [a, b] = [product.a, product.b].map(|factor| adapter.factors.matrix(Weight(factor as u32)));
                let (rank, inner) = (a.rows(), self.scratch.inner);
                let most = self.scratch.inner_words / rank.max(1);
                if most == 0 {
                    return Err(Error::unsupported(format!("an adapter of rank {rank} is not supported on this GPU")));
                }
                for first in tokens.clone().step_by(most) {
                    let [x_at, out] = [(x.at, x.row), (to.at, to.row)].map(|(at, row)| at + (first * row) as u32);
                    let of = Heads {
                        heads: 1,
                        n: most.min(tokens.end - first),
                        x: x_at,
                        x_head: x.row,
                        width: x.width,
                        out: inner,
                        out_head: rank,
                        factor: 1.0,
                        adds: false,
                    };
                    self.multiply_heads(a, *group, of)?;
                    let factor = (product.factor * f64::from(scale)) as f32;
                    let of =
                        Heads { x: inner, x_head: rank, width: rank, out, out_head: to.row, factor, adds: true, ..of };
                    self.multiply_heads(b, *group, of)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn logits(
        &mut self,
        x: TensorId,
        head: Weight,
        bias: Option<Vector>,
        scale: f32,
        softcap: f32,
    ) -> Result<()> {
        let (x, weights) = (self.floats(x), self.weights);
        let matrix = weights.matrix(head);
        if readers(matrix.dtype).is_some_and(|(_, has_blocks)| has_blocks) {
            self.prepare(x)?;
        }
        let to = Target { at: self.scratch.logits, row: self.program.vocab, bias: weights.vector(bias) };
        self.multiply(matrix, x, to)?;
        self.adapt(AdapterTarget::Logits, x, to)?;
        self.shape_logits(scale, softcap)?;
        let words: &[u32] = words![self.scratch.logits, self.program.vocab, self.scratch.best];
        self.launch(&Kernel::new("argmax", &[]), 0, [1, x.n, 1], words)?;
        self.select_candidates()
    }

    /// Selects the candidates of the outputs that are sampled by a rule.
    fn select_candidates(&mut self) -> Result<()> {
        let (draws, placed, vocab) = (self.draws, self.placed, self.program.vocab);
        let Parts { span, n } = Parts::new(vocab);
        for (i, draw) in draws.iter().enumerate() {
            let Some(draw) = draw else { continue };
            let [changed, allowed] = placed.draws[i];
            let x = self.scratch.logits + (i * vocab) as u32;
            let out = self.scratch.candidates + (i * self.scratch.candidate_words) as u32;
            let part = Parts::part_words(draw.count);
            let words: &[u32] = words![x, vocab, span, draw.count, out, part, allowed];
            self.launch(&Kernel::new("top", &[]), 0, [n, 1, 1], words)?;
            let words: &[u32] = words![x, changed, draw.changed.len(), out + (n * part) as u32];
            self.launch(&Kernel::new("pick", &[]), 0, [draw.changed.len().div_ceil(64), 1, 1], words)?;
        }
        Ok(())
    }

    pub(super) fn embed(&mut self, table: Weight, index: Index, scale: f32, out: TensorId) -> Result<()> {
        let weights = self.weights;
        let matrix = weights.matrix(table);
        let (mut kernel, _) = kernel_of(matrix.dtype, "embed", "embed_float")?;
        // An embedding lookup multiplies no matrix, so it needs no product fragments.
        kernel.fragments.retain(|fragment| !["dot", "floats"].contains(fragment));
        let (width, n) = (self.width(out), self.n());
        for part in &matrix.parts {
            let Part { buffer, first_row, rows, planes: [a, b, c, d] } = *part;
            let words: &[u32] =
                words![rows, matrix.cols, a, b, c, d, first_row, width, n, self.ids(index), self.tensor(out), scale];
            self.launch(&kernel, buffer, [width.div_ceil(2048), n, 1], words)?;
        }
        if index == Index::Id && self.placed.has_media {
            self.set_media(out)?;
        }
        Ok(())
    }
}
