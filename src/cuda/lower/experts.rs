//! The launches of MoE routers and experts.

use crate::cuda::args::{
    self, CombineArgs, DeviceMatrix, DeviceNorm, Epilogue, ExpertGluArgs, GEMV_THREADS, GroupArgs, OrderArgs,
    ProjectArgs, RouteArgs, Segment, SumPicksArgs,
};
use crate::cuda::lower::{Lowering, ProductInput, Tile, activation_code, has_blocks};
use crate::cuda::scratch::{FEW_TOKENS, gemv_shared, picks_shared, route_shared};
use crate::error::Result;
use crate::gpu::Address;
use crate::gpu::fuse::is_of_products;
use crate::gpu::pieces::Piece;
use crate::gpu::weight_layout::COLS;
use crate::graph::device_info::Part;
use crate::graph::op::{Experts, RouterScore, TensorId, Vector};

impl Lowering<'_> {
    fn route_args(&self, op: &Experts) -> RouteArgs {
        let routing = &op.routing;
        RouteArgs {
            scores: self.tensor(op.scores),
            experts: self.scratch.experts,
            weights: self.scratch.expert_weights,
            bias: self.model.weights.vector(routing.bias),
            slots: self.step.args.slots,
            kvs: if self.shape.padded { self.step.args.kvs } else { 0 },
            by_id: self.model.weights.vector(routing.by_id),
            ids: self.step.args.ids,
            following: self.scratch.tokens,
            n_experts: self.program.width(op.scores) as u32,
            n_used: routing.n_used as u32,
            score: match routing.score {
                RouterScore::Softmax => args::RouterScore::Softmax,
                RouterScore::SoftmaxOfChosen => args::RouterScore::SoftmaxOfChosen,
                RouterScore::Sigmoid => args::RouterScore::SigmoidOfScore,
                RouterScore::RootOfSoftplus => args::RouterScore::RootOfSoftplus,
                RouterScore::SparseMixer => args::RouterScore::SparseMixer,
            } as u32,
            renormalize: u32::from(routing.renormalize),
            groups: routing.groups as u32,
            groups_used: routing.groups_used as u32,
            scale: routing.scale,
            sharing: routing.sharing as u32,
        }
    }

    fn route(&mut self, op: &Experts) -> Result<()> {
        let args = self.route_args(op);
        self.launch(&self.model.device.kernels.route, [self.shape.n, 1, 1], 32, route_shared(&args), &args)
    }

    /// Selects experts and adds up their results. With `sum`, adds the result times a factor to an activation.
    pub(crate) fn experts(&mut self, op: &Experts, sum: Option<(TensorId, f32)>) -> Result<()> {
        let weights = &self.model.weights;
        let matrices = [op.gate.unwrap_or(op.up), op.up, op.down].map(|weight| weights.matrix(weight));
        let ExpertProducts { input, first, second, glu } = self.expert_products(op, matrices);
        if op.orders != [None; 3] {
            self.route(op)?;
            self.ordered(op, input, first, second, &glu)?;
            return self.combine(op, sum);
        }
        let picks = self.shape.n * op.routing.n_used;
        let [gate, up] = [first.segments[0], first.segments[1]];
        // The fused kernel adds biases before the activation, but cannot apply factors.
        let together = first.n_segments == 2
            && gate.w.dtype == up.w.dtype
            && [glu.weights, glu.factors[0], glu.factors[1]] == [0; 3]
            && is_of_products(op.activation);
        let mut args = ProjectArgs {
            epilogue: if together { Epilogue::Glu } else { Epilogue::Store } as u32,
            x: input.address,
            x_stride: input.width as u32,
            experts: self.scratch.experts,
            norm: input.norm,
            ..first
        };
        if together {
            (args.segments[0].bias, args.segments[1].bias) = (glu.biases[0], glu.biases[1]);
        }
        let gated = gated(&glu);
        let (x, x_stride) = (gated.address, gated.stride as u32);
        let mut last = ProjectArgs { x, x_stride, experts: self.scratch.experts, ..second };
        let fits = self.fits_blocks(input, 1, &mut args) && self.fits_blocks(gated, 1, &mut last);
        if !fits || self.shape.n > FEW_TOKENS && !self.model.device.is_batch_invariant {
            self.route(op)?;
            self.gathered(input, first, second, &glu, op)?;
            return self.combine(op, sum);
        }
        let route = self.route_args(op);
        match self.selects_in_product(&args, &route) {
            true => args.route = route,
            false => self.route(op)?,
        }
        self.gemv(&mut args, [picks, 1])?;
        if !together {
            self.expert_glu(&glu)?;
        }
        if self.sum_picks(op, &last, sum)? {
            return Ok(());
        }
        self.gemv(&mut last, [picks, 1])?;
        self.combine(op, sum)
    }

    /// True if the blocks of a product select its experts, which for few tokens costs less than a launch. The kernel
    /// for matrices of several types has no registers left.
    fn selects_in_product(&self, args: &ProjectArgs, route: &RouteArgs) -> bool {
        let segments = &args.segments[..args.n_segments as usize];
        let shared = gemv_shared(1, segments[0].w.cols as usize, args.forms & 1 != 0, args.forms & 2 != 0);
        self.shape.n <= FEW_TOKENS
            && segments.iter().all(|s| s.w.dtype == segments[0].w.dtype)
            && shared + route_shared(route) <= self.model.device.context.properties.shared_per_block as usize
    }

    /// Computes the last products of all experts of a token and their sum with one launch; false if the inputs of a
    /// token do not fit in shared memory. Depends on the model alone, so that results are batch-invariant.
    fn sum_picks(&mut self, op: &Experts, last: &ProjectArgs, sum: Option<(TensorId, f32)>) -> Result<bool> {
        let (w, model, used) = (last.segments[0].w, self.model, op.routing.n_used);
        let shared = picks_shared(w.dtype(), used, w.cols as usize);
        let properties = &model.device.context.properties;
        if shared > properties.shared_per_block as usize {
            return Ok(false);
        }
        let args = SumPicksArgs {
            w,
            x: last.x,
            weights: if op.routing.on_input { 0 } else { self.scratch.expert_weights },
            experts: self.scratch.experts,
            factors: model.weights.vector(op.scales[2]),
            biases: model.weights.vector(op.biases[2]),
            out: self.tensor(sum.map_or(op.out, |(x, _)| x)),
            cols: last.cols,
            x_stride: last.x_stride,
            n_used: used as u32,
            accumulate: u32::from(sum.is_some()),
            scale: sum.map_or(1.0, |(_, scale)| scale),
            pad: 0,
        };
        // Two blocks per multiprocessor, as in the kernel's launch bounds.
        let fill = (2 * properties.multiprocessors as usize).div_ceil(self.shape.n);
        let blocks = [self.shape.n, fill.min(w.rows as usize), 1];
        self.launch(model.device.kernels.sum_picks(w.dtype()), blocks, GEMV_THREADS as u32, shared, &args)?;
        Ok(true)
    }

    /// Returns the products of experts with some matrices: gate (or up if there is no gate), up and down.
    fn expert_products(&self, op: &Experts, [gate, up, down]: [DeviceMatrix; 3]) -> ExpertProducts {
        let (used, ffn, input) = (op.routing.n_used, op.ffn, self.input(op.x));
        let picks = self.shape.n * used;
        let weights = &self.model.weights;
        let one = |w: DeviceMatrix, rows: usize, out: Address| {
            let w = DeviceMatrix { rows: rows as u32, ..w };
            Segment { w, out, bias: 0 }
        };
        let (gates, ups) = (self.scratch.expert_gate, self.scratch.expert_up);
        // Whether gate and up share one matrix, and whether the first product has a single matrix.
        let (is_joined, is_single) = (op.gate == Some(op.up), op.gate.is_none() || op.gate == Some(op.up));
        let stride = if is_joined { 2 * ffn } else { ffn };
        let gate = one(gate, stride, gates);
        let up = if is_single { Segment::default() } else { one(up, ffn, ups) };
        let down = one(down, input.width, self.scratch.expert_out);
        let [of_gate, of_up] = [0, 1].map(|i| (weights.vector(op.scales[i]), weights.vector(op.biases[i])));
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
        ExpertProducts { input, first, second, glu }
    }

    /// Computes the products of experts whose inputs have a separate column order, after reordering the inputs.
    fn ordered(
        &mut self,
        op: &Experts,
        input: ProductInput,
        first: ProjectArgs,
        second: ProjectArgs,
        glu: &ExpertGluArgs,
    ) -> Result<()> {
        let [gate, up, down] = op.orders;
        self.group(op)?;
        let orders = [if op.gate.is_some() { gate } else { up }, up];
        for (i, order) in orders.into_iter().take(first.n_segments as usize).enumerate() {
            // `expert_out` is free until the results are written to it.
            let x = self.in_order(op, input, order, self.scratch.expert_out, op.routing.n_used)?;
            let mut args = first;
            args.take(&[first.segments[i]]);
            self.multiply_picks(op, x, args)?;
        }
        self.expert_glu(glu)?;
        let x = self.in_order(op, gated(glu), down, self.scratch.expert_up, 1)?;
        self.multiply_picks(op, x, second)
    }

    /// Writes the input of each pick to `out` in the column order of its expert's matrix; a row of `x` has `divisor`
    /// picks.
    fn in_order(
        &mut self,
        op: &Experts,
        x: ProductInput,
        order: Option<Vector>,
        out: Address,
        divisor: usize,
    ) -> Result<ProductInput> {
        let n = self.picks(op) * x.width;
        let args = OrderArgs {
            x: x.address,
            order: self.model.weights.vector(order),
            experts: self.scratch.experts,
            out,
            n: n as u64,
            width: x.width as u32,
            x_stride: x.stride as u32,
            divisor: divisor as u32,
            pad: 0,
        };
        self.launch(&self.model.device.kernels.order_inputs, [n.div_ceil(256).min(4096), 1, 1], 256, 0, &args)?;
        Ok(ProductInput { address: out, stride: x.width, ..x })
    }

    /// Computes the product of one input row per pick.
    fn multiply_picks(&mut self, op: &Experts, x: ProductInput, args: ProjectArgs) -> Result<()> {
        let (order, starts, picks) = (self.scratch.expert_order, self.scratch.expert_starts, self.picks(op));
        let mut own = ProjectArgs {
            x: x.address,
            x_stride: x.stride as u32,
            x_divisor: 1,
            experts: self.scratch.experts,
            ..args
        };
        if self.fits_blocks(x, 1, &mut own) && (self.shape.n <= FEW_TOKENS || self.model.device.is_batch_invariant) {
            return self.gemv(&mut own, [picks, 1]);
        }
        let (tile, grid) = self.expert_tile(op, has_blocks(&args));
        self.halves(x, args.segments[0].w.cols, picks, &tile)?;
        self.gemm(&mut ProjectArgs { x_divisor: 1, order, starts, ..args }, &tile, grid)
    }

    /// Adds up the results of the selected experts.
    fn combine(&mut self, op: &Experts, sum: Option<(TensorId, f32)>) -> Result<()> {
        let (width, weights) = (self.program.width(op.out), &self.model.weights);
        let args = CombineArgs {
            parts: self.scratch.expert_out,
            weights: if op.routing.on_input { 0 } else { self.scratch.expert_weights },
            experts: self.scratch.experts,
            factors: weights.vector(op.scales[2]),
            biases: weights.vector(op.biases[2]),
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

    /// Each expert is a GEMM with the rows of all its tokens.
    fn gathered(
        &mut self,
        input: ProductInput,
        first: ProjectArgs,
        second: ProjectArgs,
        glu: &ExpertGluArgs,
        op: &Experts,
    ) -> Result<()> {
        self.group(op)?;
        let (order, starts) = (self.scratch.expert_order, self.scratch.expert_starts);
        let (tile, grid) = self.expert_tile(op, has_blocks(&first));
        self.halves(input, first.segments[0].w.cols, self.shape.n, &tile)?;
        self.gemm(&mut ProjectArgs { order, starts, ..first }, &tile, grid)?;
        self.expert_glu(glu)?;
        let (tile, grid) = self.expert_tile(op, has_blocks(&second));
        self.halves(gated(glu), second.segments[0].w.cols, self.picks(op), &tile)?;
        self.gemm(&mut ProjectArgs { order, starts, ..second }, &tile, grid)
    }

    fn picks(&self, op: &Experts) -> usize {
        self.shape.n * op.routing.n_used
    }

    /// Sorts the picks by expert.
    fn group(&mut self, op: &Experts) -> Result<()> {
        let (order, starts) = (self.scratch.expert_order, self.scratch.expert_starts);
        let picks = self.picks(op) as u32;
        let args = GroupArgs { experts: self.scratch.experts, order, starts, picks, pad: 0 };
        self.launch(&self.model.device.kernels.group, [op.stack(), 1, 1], 256, 2 * 256 * 4, &args)
    }

    /// Selects experts whose matrices are streamed in pieces, and prepares the input of their products.
    pub(crate) fn choose_in_pieces(&mut self, op: &Experts) -> Result<()> {
        self.mark(Some(Part::Experts))?;
        self.route(op)?;
        self.group(op)?;
        let ExpertProducts { input, first, .. } = self.in_pieces(op);
        self.halves(input, first.segments[0].w.cols, self.shape.n, &self.expert_tile(op, false).0)?;
        self.mark(None)
    }

    /// Like `gathered`, for the experts of one piece, whose matrix is `w`.
    pub(crate) fn multiply_piece(&mut self, op: &Experts, piece: &Piece, w: DeviceMatrix) -> Result<()> {
        let ExpertProducts { first, second, glu, .. } = self.in_pieces(op);
        // Not in bytes, because the copies of pieces take longer than their products.
        let (tile, [most, _]) = self.expert_tile(op, false);
        self.mark(Some(Part::Experts))?;
        if piece.matrix == 2 && piece.experts.start == 0 {
            self.expert_glu(&glu)?;
            self.halves(gated(&glu), second.segments[0].w.cols, self.picks(op), &tile)?;
        }
        let (mut args, place) = if piece.matrix == 2 { (second, 0) } else { (first, piece.matrix) };
        let segment = args.segments[place];
        args.take(&[Segment { w: DeviceMatrix { rows: segment.w.rows, ..w }, ..segment }]);
        args.order = self.scratch.expert_order;
        args.starts = self.scratch.expert_starts + 4 * piece.experts.start as Address;
        self.gemm(&mut args, &tile, [most, piece.experts.len()])?;
        self.mark(None)
    }

    /// Adds up the results of the products with all pieces.
    pub(crate) fn combine_pieces(&mut self, op: &Experts) -> Result<()> {
        self.mark(Some(Part::Experts))?;
        self.combine(op, None)?;
        self.mark(None)
    }

    fn in_pieces(&self, op: &Experts) -> ExpertProducts {
        let of = |cols: usize| DeviceMatrix { cols: cols.next_multiple_of(COLS) as u32, ..DeviceMatrix::default() };
        let [of_input, of_gated] = [self.program.width(op.x), op.ffn].map(of);
        self.expert_products(op, [of_input, of_input, of_gated])
    }
}

impl<'a> Lowering<'a> {
    /// Returns the kernel for an expert's average number of rows, the maximum rows per expert, and the number of
    /// distinct experts. `has_blocks`: as for `Tile::new`.
    fn expert_tile(&self, op: &Experts, has_blocks: bool) -> (Tile<'a>, [usize; 2]) {
        let (n, stack, picks) = (self.shape.n, op.stack(), self.picks(op));
        // A token's picks by score may share matrices, but never repeat an expert; picks by token id may repeat.
        let alike = if op.routing.by_id.is_some() { op.routing.n_used } else { op.routing.sharing };
        let most = picks.min(n * alike);
        (Tile::new(&self.model.device, picks.div_ceil(stack), false, has_blocks), [most, stack])
    }
}

/// Arguments of the launches of experts; the caller adds the source of each input.
struct ExpertProducts {
    input: ProductInput,
    /// Products with gate and up.
    first: ProjectArgs,
    glu: ExpertGluArgs,
    /// Products with down.
    second: ProjectArgs,
}

/// Returns the output of the activation function as the input of the last product.
fn gated(glu: &ExpertGluArgs) -> ProductInput {
    let (address, width, stride) = (glu.gate, glu.ffn as usize, glu.stride as usize);
    ProductInput { address, width, stride, norm: DeviceNorm::default() }
}
