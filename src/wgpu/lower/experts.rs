//! Mixture of experts (MoE): routing, the products with the chosen experts, and the weighted sum of their results. A
//! pick is a chosen expert of a token.

use super::products::{Floats, grid, kernel_of, readers};
use super::rows::Rows;
use super::{Lowering, activation_code, words};
use crate::error::Result;
use crate::graph::op::{Experts, RouterScore, Vector, Weight};
use crate::wgpu::kernels::{Kernel, NONE};
use crate::wgpu::weights::Part;

/// Input and output rows of a product with experts, and the bias, scale and routing weights of its result.
#[derive(Clone, Copy)]
struct ExpertRows {
    x: Floats,
    /// Number of picks that share an input row.
    divisor: usize,
    picks: usize,
    /// Number of rows of an expert's matrix.
    rows: usize,
    /// Offset of the result, and its row stride.
    to: [u32; 2],
    bias: Option<Vector>,
    scale: Option<Vector>,
    /// Offset of the routing weights of the picks, or `NONE`.
    factor: u32,
}

impl Lowering<'_> {
    pub(super) fn experts(&mut self, e: &Experts) -> Result<()> {
        let (n, used) = (self.n(), e.routing.n_used);
        let picks = n * used;
        self.route(e)?;
        let x = self.floats(e.x);
        let has_blocks = |weight: Weight| readers(self.weights.matrix(weight).dtype).is_some_and(|(_, blocks)| blocks);
        let [of_up, of_down] = [e.up, e.down].map(has_blocks);
        if of_up || e.gate.is_some_and(has_blocks) {
            self.prepare(x)?;
        }
        let [gate_bias, up_bias, down_bias] = e.biases;
        let [gate_scale, up_scale, down_scale] = e.scales;
        let factor = if e.routing.on_input { self.scratch.pick_weights } else { NONE };
        let (gate_at, up_at) = (self.scratch.expert_gate, self.scratch.expert_up);
        let activation = activation_code(e.activation);
        let to = [up_at, e.ffn as u32];
        let first = ExpertRows { x, divisor: used, picks, rows: e.ffn, to, bias: up_bias, scale: up_scale, factor };
        let input = match e.gate {
            Some(gate) if gate == e.up => {
                // The gate rows of an expert precede its up rows.
                let row = 2 * e.ffn;
                let gate_rows =
                    ExpertRows { rows: row, to: [gate_at, row as u32], bias: gate_bias, scale: gate_scale, ..first };
                self.expert_product(gate, gate_rows)?;
                let rows = Rows { at: gate_at, row, width: e.ffn, n: picks };
                self.glu(rows, Some(gate_at + e.ffn as u32), row, activation)?;
                Floats { at: gate_at, row, width: e.ffn, n: picks }
            }
            Some(gate) => {
                let to = [gate_at, e.ffn as u32];
                self.expert_product(gate, ExpertRows { to, bias: gate_bias, scale: gate_scale, ..first })?;
                self.expert_product(e.up, first)?;
                let rows = Rows { at: gate_at, row: e.ffn, width: e.ffn, n: picks };
                self.glu(rows, Some(up_at), e.ffn, activation)?;
                Floats { at: gate_at, row: e.ffn, width: e.ffn, n: picks }
            }
            None => {
                self.expert_product(e.up, first)?;
                let rows = Rows { at: up_at, row: e.ffn, width: e.ffn, n: picks };
                self.glu(rows, None, 0, activation)?;
                Floats { at: up_at, row: e.ffn, width: e.ffn, n: picks }
            }
        };
        if of_down {
            self.prepare(input)?;
        }
        let width = self.width(e.out);
        let to = [self.scratch.expert_out, width as u32];
        let (x, bias, scale) = (input, down_bias, down_scale);
        self.expert_product(e.down, ExpertRows { x, divisor: 1, picks, rows: width, to, bias, scale, factor: NONE })?;
        let weights = if e.routing.on_input { NONE } else { self.scratch.pick_weights };
        let words: &[u32] =
            words![width, used, self.scratch.expert_out, width, weights, self.tensor(e.out), width, 0u32, 1f32];
        self.launch(&Kernel::new("combine", &[]), 0, [width.div_ceil(64), n, 1], words)
    }

    fn route(&mut self, e: &Experts) -> Result<()> {
        let routing = &e.routing;
        let score = match routing.score {
            RouterScore::Softmax => 0u32,
            RouterScore::SoftmaxOfChosen => 1,
            RouterScore::Sigmoid => 2,
            RouterScore::RootOfSoftplus => 3,
            RouterScore::SparseMixer => 4,
        };
        let bias = self.weights.vector(routing.bias);
        let words: &[u32] = words![
            self.tensor(e.scores),
            self.width(e.scores),
            e.n_experts,
            routing.n_used,
            self.scratch.picks,
            self.scratch.pick_weights,
            score,
            bias,
            routing.groups,
            routing.groups_used,
            routing.renormalize,
            routing.scale,
            routing.sharing,
            self.weights.vector(routing.by_id),
            self.tokens().ids,
            0u32
        ];
        let n = self.n();
        self.launch(&Kernel::new("route", &["functions"]), 0, [n, 1, 1], words)
    }

    /// Multiplies the expert's matrix by the input row, for each pick.
    fn expert_product(&mut self, weight: Weight, of: ExpertRows) -> Result<()> {
        let ExpertRows { x, divisor, picks, rows, to, .. } = of;
        let weights = self.weights;
        let matrix = weights.matrix(weight);
        let (kernel, has_blocks) = kernel_of(matrix.dtype, "expert_gemv", "expert_gemv_float")?;
        let (rows_at, rows_step) =
            if has_blocks { (self.scratch.quants, self.scratch.groups) } else { (x.at, x.row as u32) };
        let [bias, scale] = [of.bias, of.scale].map(|vector| weights.vector(vector));
        for part in &matrix.parts {
            let Part { buffer, first_row, rows: part_rows, planes: [a, b, c, d] } = *part;
            let words: &[u32] = words![
                rows,
                matrix.cols,
                a,
                b,
                c,
                d,
                first_row,
                part_rows,
                self.scratch.picks,
                divisor,
                rows_at,
                rows_step,
                to[0],
                to[1],
                bias,
                scale,
                of.factor,
                x.width
            ];
            self.launch(&kernel, buffer, grid(rows.div_ceil(4), picks), words)?;
        }
        Ok(())
    }
}
