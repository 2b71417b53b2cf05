//! The inputs of a vision encoder: patches, their embedding by the kernel, and position embeddings.

use super::{EncoderBuilder, tensors_damaged};
use crate::error::{Result, try_filled, try_vec};
use crate::graph::op::{Op, Projection, TensorId};
use crate::model::vision::facts::{Places, Stretch};

/// The second frame's half of a kernel over two frames.
const SECOND_FRAME: &str = "v.patch_embd.weight.1";

impl EncoderBuilder<'_> {
    /// Declares the patches (frame, channel, row, column) as an input.
    pub fn patches(&mut self) -> TensorId {
        self.frames = if self.b.has(SECOND_FRAME) { 2 } else { 1 };
        let x = self.b.program.tensor(self.frames * 3 * self.patch * self.patch);
        self.b.program.input(x);
        self.patches = Some(x);
        x
    }

    /// Patch embeddings.
    pub fn embed(&mut self) -> Result<TensorId> {
        let x = self.patches();
        self.embed_patches(x)
    }

    /// Embeds processed patches. The two halves of a kernel over two frames are concatenated.
    pub fn embed_patches(&mut self, x: TensorId) -> Result<TensorId> {
        let (name, width, patch) = ("v.patch_embd.weight", self.width(), self.patch);
        let numbers = 3 * patch * patch;
        let is_flat = self.b.has(name) && self.b.tensors.cols(name)? == numbers;
        let (rows, cols) = if is_flat { (width, numbers) } else { (width * 3 * patch, patch) };
        let mut values = self.b.tensors.values(name, rows, cols)?;
        if let Some(second) = self.b.tensors.values_if_present(SECOND_FRAME, rows, cols)? {
            values = join_rows(&values, &second, numbers)?;
        }
        self.order_colors(&mut values)?;
        let kernel = self.b.tensors.made(name, self.frames * numbers, &values)?;
        let weight = self.b.add_matrix(kernel);
        let bias = self.b.tensors.vector_if_present("v.patch_embd.bias", width)?.map(|bias| self.b.vector(bias));
        let out = self.b.program.tensor(width);
        self.b.program.push(Op::Project { x, projections: [Projection { weight, bias, out }].into() });
        Ok(out)
    }

    /// Reorders columns from (row, column, channel) to the order of patches.
    pub fn order_colors(&self, values: &mut [f32]) -> Result<()> {
        let spots = self.patch * self.patch;
        let mut ordered = try_filled("a patch", 3 * spots, 0f32)?;
        for row in values.chunks_exact_mut(3 * spots).filter(|_| self.colors_last) {
            row.iter().enumerate().for_each(|(i, value)| ordered[i % 3 * spots + i / 3] = *value);
            row.copy_from_slice(&ordered);
        }
        Ok(())
    }

    /// Adds learned position embeddings. A class token has a zero patch; its vector compensates the kernel's bias.
    pub fn add_places(&mut self, x: TensorId, stretch: Stretch) -> Result<()> {
        let (name, width) = ("v.position_embd.weight", self.width());
        let tensors = &mut self.b.tensors;
        let n = tensors.rows(name)?;
        let mut table = tensors.values(name, n, width)?;
        if self.colors_last && stretch == Stretch::Axes && self.projector == "gemma4uv" {
            table = halves(&table, width)?;
        }
        let class = tensors.vector_if_present("v.class_embd", width)?;
        let class = match class {
            Some(class) if n > 0 => {
                let bias = tensors.vector_if_present("v.patch_embd.bias", width)?;
                let bias = bias.map_or_else(|| try_filled("a bias", width, 0f32), Ok)?;
                let at = if self.class_is_last { (n - 1) * width } else { 0 };
                let first: Vec<f32> = table.drain(at..at + width).collect();
                Some(class.iter().zip(first).zip(bias).map(|((class, place), bias)| class + place - bias).collect())
            }
            _ => None,
        };
        let n = n - usize::from(class.is_some());
        let side = if stretch == Stretch::Axes { n / 2 } else { n.isqrt() };
        let fits = match stretch {
            Stretch::Axes => side * 2 == n && class.is_none(),
            Stretch::Never => {
                side * side == n && self.declared("image_size", Self::MAX_SIDE)? == Some(side * self.patch)
            }
            _ => side * side == n,
        };
        if n == 0 || !fits {
            return Err(tensors_damaged(&self.b, format!("{n} vectors of places are not those of the tile")));
        }
        self.add_input(x);
        self.places = Some(Places { table, side, width, class, stretch });
        Ok(())
    }
}

/// Concatenates the rows of two matrices with `cols` columns.
fn join_rows(first: &[f32], second: &[f32], cols: usize) -> Result<Vec<f32>> {
    let mut out = try_vec("a matrix", first.len() + second.len())?;
    for rows in first.chunks_exact(cols).zip(second.chunks_exact(cols)) {
        out.extend_from_slice(rows.0);
        out.extend_from_slice(rows.1);
    }
    Ok(out)
}

/// Deinterleaves vectors: all first ones, then all second ones.
fn halves(vectors: &[f32], width: usize) -> Result<Vec<f32>> {
    let mut out = try_vec("a table", vectors.len())?;
    for first in [0, 1] {
        vectors.chunks_exact(width).skip(first).step_by(2).for_each(|vector| out.extend_from_slice(vector));
    }
    Ok(out)
}
