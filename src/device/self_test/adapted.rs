//! Self-test of LoRA on a GPU: matrix products with adapters of the required types and widths, with two sequences, only
//! one of which has the adapter. The base matrices are small, in FP16.

use std::sync::Arc;

use super::made_up::{Input, MadeUp};
use super::{CLOSE, Case, Counts, ROUNDED, TYPES};
use crate::cpu::threads::pool::Pool;
use crate::error::Result;
use crate::gpu::GpuDevice;
use crate::graph::op::{Norm, NormKind, Op, Projection, TensorId, Vector, Weight};
use crate::graph::program::ProgramBuilder;
use crate::graph::sequence_spec::KvLayer;
use crate::graph::weights::{AdapterTarget, LowRank};
use crate::quant;
use crate::tensor::DType;

/// Rows of a matrix, an odd number.
const ROWS: usize = 67;
/// The second step replays the first one's graph; the last two have rows without the adapter, in one group and in
/// two.
const STEPS: &[Counts] = &[[1, 0], [1, 0], [5, 0], [1, 1], [3, 7]];

/// Properties of an adapted product that its test depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Factored {
    /// Types of A and B.
    pub types: [DType; 2],
    pub cols: usize,
    pub rank: usize,
    /// True if the adapted product computes logits.
    pub is_head: bool,
}

/// Tests the adapted products that were not tested yet on a device; marks the device unavailable on failure. Returns
/// the largest error relative to its tolerance.
pub fn check_adapter(device: &Arc<dyn GpuDevice>, products: impl IntoIterator<Item = Factored>) -> Result<f64> {
    let (mut known, mut largest) = (Vec::new(), 0.0f64);
    if device.plans() {
        return Ok(largest);
    }
    let pool = Arc::new(Pool::new(1)?);
    for product in products {
        if !known.contains(&product) {
            largest = largest.max(case(&**device, product)?.check(device, &pool, TYPES[0])?);
            known.push(product);
        }
    }
    Ok(largest)
}

/// A norm fused into the products' input, and three products or a head with softcap; the adapter applies to the first
/// and the last.
fn case(device: &dyn GpuDevice, Factored { types, cols, rank, is_head }: Factored) -> Result<Case> {
    let mut b = ProgramBuilder::default();
    let input = b.tensor(cols);
    let (mut x, h, mut results) = (input, b.tensor(cols), Vec::new());
    if is_head {
        x = b.tensor(cols);
        b.push(Op::KeepOutputs { moves: [[input, x]].into() });
    }
    let norm = Norm { kind: NormKind::Rms, weight: Some(Vector(0)), bias: None, eps: 1e-5, group: cols };
    b.push(Op::Norm { norm, x, out: h });
    let mut targets = vec![AdapterTarget::Logits];
    if is_head {
        b.push(Op::Logits { x: h, head: Weight(0), bias: None, scale: 0.5, softcap: 1.0 });
    } else {
        let outs: [TensorId; 3] = std::array::from_fn(|_| b.tensor(ROWS));
        let projections = outs.iter().zip(0..).map(|(&out, i)| Projection { weight: Weight(i), bias: None, out });
        b.push(Op::Project { x: h, projections: projections.collect() });
        targets = vec![AdapterTarget::Project(Weight(0)), AdapterTarget::Project(Weight(2))];
        results.extend(outs);
    }
    b.kv_layer(KvLayer::new(1, 32, 0));
    b.input(input);
    let program = Arc::new(b.finish(if is_head { ROWS } else { 0 }, &results));
    let made = |dtype, rows, cols| MadeUp { dtype, rows, cols, blocks: Vec::new() };
    let [of_a, of_b] = types;
    let factors = vec![made(device.stored_type(of_a)?, rank, cols), made(device.stored_type(of_b)?, ROWS, rank)];
    let has_blocks = types.iter().any(|dtype| quant::format(*dtype).is_ok_and(|format| format.block_len > 1));
    let case = Case {
        program,
        matrices: (0..if is_head { 1 } else { 3 }).map(|_| made(quant::F16, ROWS, cols)).collect(),
        vectors: vec![(0..cols).map(|i| if i % 3 == 0 { -1.0 } else { 1.0 }).collect()],
        ropes: Vec::new(),
        inputs: vec![(input, Input::Values(1.0))],
        results,
        steps: STEPS,
        stores: 0,
        limit: if has_blocks { ROUNDED } else { CLOSE },
        factors,
        products: targets.into_iter().map(|target| LowRank { target, a: 0, b: 1, factor: 0.5 }).collect(),
    };
    case.program.check(&case.weights())?;
    Ok(case)
}
