//! The projector of an encoder: from blocks of hidden states to rows.

use super::{EncoderBuilder, MAX_WIDTH, tensors_damaged};
use crate::error::{Result, try_filled};
use crate::graph::op::{Activation, NormKind, Op, Projection, TensorId};
use crate::graph::program::ProgramBuilder;
use crate::graph::weights::MatrixSource;

impl EncoderBuilder<'_> {
    /// Ends the encoder with hidden states, and begins the projector with blocks of `merge` by `merge` of them.
    pub fn project_blocks(&mut self, states: &[TensorId], merge: usize) -> Result<Vec<TensorId>> {
        self.project_stacks(states, merge * merge)
    }

    /// Like `project_blocks`, for blocks of `stack` hidden states.
    pub fn project_stacks(&mut self, states: &[TensorId], stack: usize) -> Result<Vec<TensorId>> {
        self.begin_projector(states, stack * self.width())
    }

    /// Ends the encoder with hidden states, and begins the projector with blocks of `width` values of each.
    pub fn begin_projector(&mut self, states: &[TensorId], width: usize) -> Result<Vec<TensorId>> {
        let b = &mut self.b;
        let mut encoder = std::mem::take(&mut b.program);
        states.iter().for_each(|state| encoder.result(*state));
        let encoder = encoder.finish(0, &[]);
        self.states = states.to_vec();
        b.program = ProgramBuilder::default();
        encoder.kv_layers.iter().for_each(|layer| _ = b.program.kv_layer(*layer));
        self.encoder = Some(encoder);
        for _ in states {
            let block = b.program.tensor(width);
            b.program.input(block);
            self.blocks.push(block);
        }
        Ok(self.blocks.clone())
    }

    /// The mean of the patches of a block.
    pub fn mean(&mut self, x: TensorId, patches: usize) -> TensorId {
        let out = self.b.program.tensor(self.width());
        self.b.program.push(Op::Mean { x, groups: patches, out });
        out
    }

    /// A norm with its own epsilon, per patch of a block if it is as wide as a patch.
    pub fn norm_at(&mut self, kind: NormKind, x: TensorId, part: &str, eps: f32) -> Result<TensorId> {
        let width = self.b.program.width(x);
        let mut norm = self.b.norm(kind, part, 1, width)?;
        norm.eps = eps;
        let out = self.b.program.tensor(width);
        self.b.program.push(Op::Norm { norm, x, out });
        Ok(out)
    }

    /// Returns the number of rows of a matrix in the file.
    pub fn inner_width(&self, part: &str) -> Result<usize> {
        match self.b.rows(&format!("{part}.weight"))? {
            rows if (1..=MAX_WIDTH).contains(&rows) => Ok(rows),
            rows => Err(tensors_damaged(&self.b, format!("the tensor {part}.weight has {rows} rows"))),
        }
    }

    /// `b(activation(a x))`, as wide as the model's embeddings.
    pub fn mlp(&mut self, x: TensorId, a: &str, b: &str, activation: Activation) -> Result<TensorId> {
        let inner = self.inner_width(a)?;
        let gate = self.b.project(x, a, inner)?;
        self.b.program.push(Op::Glu { gate, up: None, activation });
        self.project_rows(gate, b)
    }

    /// A product as wide as the model's embeddings.
    pub fn project_rows(&mut self, x: TensorId, part: &str) -> Result<TensorId> {
        let rows = self.b.rows(&format!("{part}.weight"))?;
        self.check_width(rows)?;
        self.b.project(x, part, rows)
    }

    /// Like `project_rows`, with a transposed matrix.
    pub fn project_transposed(&mut self, x: TensorId, name: &str) -> Result<TensorId> {
        let cols = self.b.program.width(x);
        let rows = self.b.tensors.cols(name)?;
        self.check_width(rows)?;
        let values = self.b.tensors.matrix_values(name, cols, rows)?;
        let mut transposed = try_filled("a matrix", values.len(), 0f32)?;
        for (col, values) in values.chunks_exact(rows).enumerate() {
            values.iter().enumerate().for_each(|(row, value)| transposed[row * cols + col] = *value);
        }
        self.project_made(x, name, &transposed)
    }

    /// A product of blocks with a matrix or kernel of `rows` rows, whose columns are channel by channel over all
    /// patches.
    pub fn project_channels_first(&mut self, x: TensorId, part: &str, rows: usize, patches: usize) -> Result<TensorId> {
        let (name, cols) = (format!("{part}.weight"), self.b.program.width(x));
        let name = &name[..];
        let run = self.b.tensors.cols(name)?;
        let values = match cols / run.max(1) {
            runs if runs > 1 && runs * run == cols => self.b.tensors.values(name, rows * runs, run)?,
            _ => self.b.tensors.matrix_values(name, rows, cols)?,
        };
        let mut transposed = try_filled("a matrix", values.len(), 0f32)?;
        for (values, transposed) in values.chunks_exact(cols).zip(transposed.chunks_exact_mut(cols)) {
            for (i, value) in values.iter().enumerate() {
                transposed[i % patches * (cols / patches) + i / patches] = *value;
            }
        }
        self.project_made(x, name, &transposed)
    }

    fn project_made(&mut self, x: TensorId, name: &str, values: &[f32]) -> Result<TensorId> {
        let matrix = self.b.tensors.made(name, self.b.program.width(x), values)?;
        let (rows, weight) = (matrix.rows(), self.b.add_matrix(matrix));
        let bias = self.b.tensors.vector_if_present(&name.replace(".weight", ".bias"), rows)?;
        let (bias, out) = (bias.map(|bias| self.b.vector(bias)), self.b.program.tensor(rows));
        self.b.program.push(Op::Project { x, projections: [Projection { weight, bias, out }].into() });
        Ok(out)
    }

    /// `down(activation(gate x) * up x)`, as wide as the model's embeddings.
    pub fn gated_mlp(&mut self, x: TensorId, [gate, up, down]: [&str; 3], activation: Activation) -> Result<TensorId> {
        let inner = self.inner_width(gate)?;
        let (gate, up) = (self.b.project(x, gate, inner)?, self.b.project(x, up, inner)?);
        let inner = self.b.gate(gate, up, activation);
        self.project_rows(inner, down)
    }

    /// Returns the width of the model's embeddings.
    pub fn hidden(&self) -> usize {
        self.hidden
    }

    /// Two products of equal width, with the two halves of a matrix.
    pub fn halves(&mut self, x: TensorId, part: &str) -> Result<[TensorId; 2]> {
        let rows = self.b.rows(&format!("{part}.weight"))?;
        if !rows.is_multiple_of(2) || !(1..=MAX_WIDTH).contains(&rows) {
            return Err(tensors_damaged(&self.b, format!("the tensor {part}.weight has {rows} rows")));
        }
        let parts = [0..rows / 2, rows / 2..rows].map(|half| self.b.part(part, rows, half, x));
        let [first, second] = parts;
        Ok(self.b.push_projections(x, [first?, second?]))
    }

    /// `[x | tail]`
    pub fn join(&mut self, x: TensorId, tail: TensorId) -> TensorId {
        let out = self.b.program.tensor(self.b.program.width(x) + self.b.program.width(tail));
        self.b.program.push(Op::JoinHeads { x, tail, heads: 1, out });
        out
    }
}
