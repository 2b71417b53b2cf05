//! The feed-forward block of a layer, zero-padded if whole quantization groups are faster.

use crate::error::Result;
use crate::graph::op::{Activation, Op, Projection, TensorId};
use crate::graph::weights::MatrixSource;
use crate::model::builder::Builder;
use crate::quant;

/// The feed-forward block, gated if the layer has a gate. Old files have the names of the other two matrices exchanged,
/// which their shapes reveal.
pub(super) fn feed_forward(b: &mut Builder, x: TensorId, activation: Activation) -> Result<TensorId> {
    let (ffn, width) = (b.hyper.ffn, b.hyper.hidden);
    let is_exchanged = ffn != width && b.rows("ffn_up.weight")? == width;
    let (up, down) = if is_exchanged { ("ffn_down", "ffn_up") } else { ("ffn_up", "ffn_down") };
    let mut up = b.part(up, ffn, 0..ffn, x)?;
    let down = b.part(down, width, 0..width, up.0.out)?;
    let inner = fill_group(b, &down.0, ffn);
    widen(b, &mut up.0, inner);
    let inner = if b.has("ffn_gate.weight") {
        let mut gate = b.part("ffn_gate", ffn, 0..ffn, x)?;
        widen(b, &mut gate.0, inner);
        let [gate, up] = b.push_projections(x, [gate, up]);
        b.gate(gate, up, activation)
    } else {
        let [gate] = b.push_projections(x, [up]);
        b.program.push(Op::Glu { gate, up: None, activation });
        gate
    };
    let [out] = b.push_projections(inner, [down]);
    Ok(out)
}

/// Pads the columns of a 16-bit float matrix to whole groups that share a scale, because other matrices are multiplied
/// as floats, at half the speed. Returns the number of columns.
fn fill_group(b: &mut Builder, projection: &Projection, cols: usize) -> usize {
    const GROUP: usize = 32;
    let matrix = &mut b.matrices[projection.weight.0 as usize];
    if ![quant::F16, quant::BF16].contains(&matrix.dtype()) {
        return cols;
    }
    let filled = cols.next_multiple_of(GROUP);
    matrix.pad(matrix.rows(), filled);
    filled
}

/// Pads a projection with zeros to `rows` rows.
fn widen(b: &mut Builder, projection: &mut Projection, rows: usize) {
    let matrix = &mut b.matrices[projection.weight.0 as usize];
    if matrix.rows() == rows {
        return;
    }
    matrix.pad(rows, matrix.cols());
    if let Some(bias) = projection.bias {
        b.vectors[bias.0 as usize].resize(rows, 0.0);
    }
    projection.out = b.program.tensor(rows);
}
