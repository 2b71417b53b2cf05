//! The launches of a router and of experts.

use crate::cuda::args::{
    self, CombineArgs, DeviceMatrix, DeviceNorm, Epilogue, ExpertGluArgs, GroupArgs, ProjectArgs, RouteArgs, Segment,
};
use crate::cuda::fuse::is_of_products;
use crate::cuda::lower::{Lowering, ProductInput, Tile, activation_code};
use crate::cuda::probe::Address;
use crate::cuda::scratch::FEW_TOKENS;
use crate::error::Result;
use crate::graph::op::{Experts, RouterScore, Routing, TensorId, Weight};

impl Lowering<'_> {
    pub(crate) fn route(&mut self, scores: TensorId, routing: &Routing) -> Result<()> {
        let n_experts = self.program.width(scores);
        let args = RouteArgs {
            scores: self.tensor(scores),
            experts: self.scratch.experts,
            weights: self.scratch.expert_weights,
            bias: self.model.weights.vector(routing.bias),
            slots: self.step.0.slots,
            kvs: if self.shape.padded { self.step.0.kvs } else { 0 },
            by_id: self.model.weights.vector(routing.by_id),
            ids: self.step.0.ids,
            following: self.scratch.tokens,
            n_experts: n_experts as u32,
            n_used: routing.n_used as u32,
            score: match routing.score {
                RouterScore::Softmax => args::RouterScore::Softmax,
                RouterScore::SoftmaxOfChosen => args::RouterScore::SoftmaxOfChosen,
                RouterScore::Sigmoid => args::RouterScore::SigmoidOfScore,
                RouterScore::RootOfSoftplus => args::RouterScore::RootOfSoftplus,
                RouterScore::SparseMixer => args::RouterScore::SparseMixer,
            } as u32,
            renormalise: u32::from(routing.renormalise),
            groups: routing.groups as u32,
            groups_used: routing.groups_used as u32,
            scale: routing.scale,
            sharing: routing.sharing as u32,
        };
        let shared = 4 * (n_experts + routing.groups);
        self.launch(&self.model.device.kernels.route, [self.shape.n, 1, 1], 32, shared, &args)
    }

    /// Each chosen expert of each token is a matrix times a vector. Where there is a `sum`, the result is added to that
    /// activation, times its factor.
    pub(crate) fn experts(&mut self, op: &Experts, sum: Option<(TensorId, f32)>) -> Result<()> {
        let (used, ffn, input) = (op.routing.n_used, op.ffn, self.input(op.x));
        let picks = self.shape.n * used;
        let weights = &self.model.weights;
        let one = |weight: Weight, rows: usize, out: Address| {
            let w = DeviceMatrix { rows: rows as u32, ..weights.matrix(weight) };
            Segment { w, out, bias: 0 }
        };
        let (gates, ups) = (self.scratch.expert_gate, self.scratch.expert_up);
        // Gate and up as one product, or one of them alone.
        let (is_joined, is_single) = (op.gate == Some(op.up), op.gate.is_none() || op.gate == Some(op.up));
        let stride = if is_joined { 2 * ffn } else { ffn };
        let gate = one(op.gate.unwrap_or(op.up), stride, gates);
        let up = if is_single { Segment::default() } else { one(op.up, ffn, ups) };
        let down = one(op.down, input.width, self.scratch.expert_out);
        let [of_gate, of_up, of_down] =
            std::array::from_fn(|i| (weights.vector(op.scales[i]), weights.vector(op.biases[i])));
        let of_first = if op.gate.is_some() { of_gate } else { of_up };
        let on_input = if op.routing.on_input { self.scratch.expert_weights } else { 0 };
        let (activation, [limit, up_limit]) = activation_code(op.activation);
        let glu = ExpertGluArgs {
            gate: gates,
            up: match op.gate {
                None => 0,
                Some(_) if is_joined => gates + 4 * ffn as Address,
                Some(_) => ups,
            },
            experts: self.scratch.experts,
            weights: on_input,
            factors: [of_first.0, of_up.0],
            biases: [of_first.1, of_up.1],
            n: (picks * ffn) as u64,
            ffn: ffn as u32,
            stride: stride as u32,
            activation,
            limit,
            up_limit,
            pad: 0,
        };
        let first = ProjectArgs {
            segments: [gate, up, Segment::default(), Segment::default()],
            n_segments: if is_single { 1 } else { 2 },
            cols: input.width as u32,
            activation,
            softcap: limit,
            x_divisor: used as u32,
            ..Default::default()
        };
        let second = ProjectArgs {
            segments: [down, Segment::default(), Segment::default(), Segment::default()],
            n_segments: 1,
            cols: ffn as u32,
            x_divisor: 1,
            ..Default::default()
        };
        // Biases are added where the products end, factors after them.
        let together = !is_single
            && gate.w.dtype == up.w.dtype
            && [on_input, of_gate.0, of_up.0] == [0; 3]
            && is_of_products(op.activation);
        let gated = ProductInput { address: gate.out, width: ffn, stride, norm: DeviceNorm::default() };
        let mut args = ProjectArgs {
            epilogue: if together { Epilogue::Glu } else { Epilogue::Store } as u32,
            x: input.address,
            x_stride: input.width as u32,
            experts: self.scratch.experts,
            norm: input.norm,
            ..first
        };
        if together {
            (args.segments[0].bias, args.segments[1].bias) = (of_gate.1, of_up.1);
        }
        let (x, x_stride) = (gate.out, stride as u32);
        let mut last = ProjectArgs { x, x_stride, experts: self.scratch.experts, ..second };
        let fits = self.fits_blocks(input, 1, &mut args) && self.fits_blocks(gated, 1, &mut last);
        if !fits || self.shape.n > FEW_TOKENS && !self.model.device.fixed {
            self.gathered(input, first, second, &glu, op)?;
        } else {
            self.gemv(&mut args, [picks, 1])?;
            if !together {
                self.expert_glu(&glu)?;
            }
            self.gemv(&mut last, [picks, 1])?;
        }
        self.combine(op, down.out, of_down, sum)
    }

    /// Adds the parts of the chosen experts; `factors`: of each expert's result, and its biases.
    fn combine(
        &mut self,
        op: &Experts,
        parts: Address,
        (factors, biases): (Address, Address),
        sum: Option<(TensorId, f32)>,
    ) -> Result<()> {
        let width = self.program.width(op.out);
        let args = CombineArgs {
            parts,
            weights: if op.routing.on_input { 0 } else { self.scratch.expert_weights },
            experts: self.scratch.experts,
            factors,
            biases,
            out: self.tensor(sum.map_or(op.out, |(x, _)| x)),
            width: width as u32,
            n_used: op.routing.n_used as u32,
            accumulate: u32::from(sum.is_some()),
            scale: sum.map_or(1.0, |(_, scale)| scale),
        };
        self.launch(&self.model.device.kernels.combine, [width.div_ceil(256), self.shape.n, 1], 256, 0, &args)
    }

    fn expert_glu(&mut self, args: &ExpertGluArgs) -> Result<()> {
        let blocks = (args.n as usize).div_ceil(256).min(4096);
        self.launch(&self.model.device.kernels.expert_glu, [blocks, 1, 1], 256, 0, args)
    }

    /// Each expert is a matrix times the rows of all tokens that chose it.
    fn gathered(
        &mut self,
        input: ProductInput,
        first: ProjectArgs,
        second: ProjectArgs,
        glu: &ExpertGluArgs,
        op: &Experts,
    ) -> Result<()> {
        let (n, stack) = (self.shape.n, op.stack());
        let picks = n * op.routing.n_used;
        let (order, starts) = (self.scratch.expert_order, self.scratch.expert_starts);
        let args = GroupArgs { experts: self.scratch.experts, order, starts, picks: picks as u32, pad: 0 };
        self.launch(&self.model.device.kernels.group, [stack, 1, 1], 256, 2 * 256 * 4, &args)?;
        // No token chooses an expert twice, but several that share their matrices.
        let (usual, grid) = (picks.div_ceil(stack), [picks.min(n * op.routing.sharing), stack]);
        let model = self.model;
        let tile = Tile::new(&model.device, usual, false);
        self.halves(input, first.segments[0].w.cols, n, &tile)?;
        self.gemm(&mut ProjectArgs { order, starts, ..first }, &tile, grid)?;
        self.expert_glu(glu)?;
        let (address, width, stride) = (glu.gate, glu.ffn as usize, glu.stride as usize);
        let input = ProductInput { address, width, stride, norm: DeviceNorm::default() };
        self.halves(input, second.segments[0].w.cols, picks, &tile)?;
        self.gemm(&mut ProjectArgs { order, starts, ..second }, &tile, grid)
    }
}
