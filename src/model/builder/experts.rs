//! MoE: the file's routing, routed experts, and the shared expert.

use super::Builder;
use crate::error::{Error, Result};
use crate::graph::op::{Activation, Experts, Op, RouterScore, Routing, TensorId, Vector};

/// Parameters of experts.
#[derive(Clone, Copy)]
pub struct Moe {
    pub n_experts: usize,
    pub ffn: usize,
    pub routing: Routing,
    pub activation: Activation,
}

impl Builder<'_> {
    /// Returns the experts of a file that has any, with softmax routing over all. `renormalize`: default of weight
    /// renormalization, which folders may override.
    pub fn moe(&self, renormalize: bool) -> Result<Option<Moe>> {
        match self.keys.size("expert_gating_func")? {
            None | Some(1) => self.any_moe(renormalize),
            Some(_) => Err(self.keys.unknown("expert_gating_func", &["1 (softmax)"])),
        }
    }

    fn any_moe(&self, renormalize: bool) -> Result<Option<Moe>> {
        let keys = &self.keys;
        let Some(n_experts) = keys.size("expert_count")? else { return Ok(None) };
        let n_used = keys.require_size("expert_used_count")?;
        let ffn = keys.size("expert_feed_forward_length")?.unwrap_or(self.hyper.ffn);
        if n_experts > 4096 || n_used > n_experts || ffn == 0 || ffn > 1 << 20 {
            return Err(Error::unsupported(format!(
                "{n_experts} experts of width {ffn} with {n_used} per token are not supported"
            )));
        }
        // The tensors determine which layers have experts, and their widths.
        for key in ["leading_dense_block_count", "interleave_moe_layer_step", "expert_shared_count"] {
            keys.get(key);
        }
        keys.get("expert_shared_feed_forward_length");
        // This key affects folders, and only those GGUF networks that read it.
        let declared = keys.flag("expert_weights_norm")?.filter(|_| self.is_folder());
        let renormalize = declared.unwrap_or(renormalize);
        let routing = Routing::new(RouterScore::Softmax, n_used, renormalize);
        Ok(Some(Moe { n_experts, ffn, routing, activation: Activation::Silu }))
    }

    /// Like `moe`, with the routing declared by the file.
    pub fn declared_moe(&self, default: RouterScore) -> Result<Option<Moe>> {
        let Some(mut moe) = self.any_moe(false)? else { return Ok(None) };
        let (keys, routing) = (&self.keys, &mut moe.routing);
        routing.score = match keys.size("expert_gating_func")? {
            None => default,
            Some(1) => RouterScore::Softmax,
            Some(2) => RouterScore::Sigmoid,
            Some(4) => RouterScore::RootOfSoftplus,
            Some(_) => {
                let known = ["1 (softmax)", "2 (sigmoid)", "4 (root of softplus)"];
                return Err(keys.unknown("expert_gating_func", &known));
            }
        };
        routing.renormalize = keys.flag("expert_weights_norm")?.unwrap_or(false);
        routing.scale = keys.float("expert_weights_scale")?.unwrap_or(1.0);
        routing.groups = keys.size("expert_group_count")?.unwrap_or(1);
        routing.groups_used = keys.size("expert_group_used_count")?.unwrap_or(routing.groups);
        let (groups, used) = (routing.groups, routing.groups_used);
        if !moe.n_experts.is_multiple_of(groups) || used > groups || routing.n_used > moe.n_experts / groups * used {
            return Err(keys.unsupported("expert_group_count"));
        }
        Ok(Some(moe))
    }

    /// The feed-forward block of a layer: MoE if the layer has a router, otherwise dense.
    pub fn moe_ffn(&mut self, x: TensorId, moe: Option<Moe>) -> Result<TensorId> {
        self.moe_ffn_by(x, moe, Activation::Silu)
    }

    /// Like `moe_ffn`, with `activation` for dense blocks and the shared expert.
    pub fn moe_ffn_by(&mut self, x: TensorId, moe: Option<Moe>, activation: Activation) -> Result<TensorId> {
        let Some(moe) = moe.filter(|_| self.has("ffn_gate_inp.weight")) else {
            return self.gated_ffn(x, activation);
        };
        let out = self.experts(x, moe)?;
        if self.has("ffn_up_shexp.weight") {
            let shared = self.shared_expert(x, activation)?;
            self.program.push(Op::Add { x: out, delta: shared, scale: 1.0 });
        }
        Ok(out)
    }

    /// Returns the experts that a layer selects by token id, for `Routing::by_id`.
    pub fn experts_by_id(&mut self, moe: Moe) -> Result<Vector> {
        let (name, vocab) = (self.name("ffn_gate_tid2eid.weight"), self.hyper.vocab);
        let experts = self.tensors.values(&name, vocab, moe.routing.n_used)?;
        if let Some(x) = experts.iter().find(|x| !(0.0..moe.n_experts as f32).contains(*x)) {
            return Err(self.tensors.damaged(format!("the tensor {name} names expert {x} of {}", moe.n_experts)));
        }
        Ok(self.vector(experts))
    }

    /// The weighted sum of the selected experts.
    pub fn experts(&mut self, x: TensorId, moe: Moe) -> Result<TensorId> {
        let scores = self.project(x, "ffn_gate_inp", moe.n_experts)?;
        self.scored_experts(x, scores, moe)
    }

    /// Like `experts`, with router scores `[n, n_experts]`.
    pub fn scored_experts(&mut self, x: TensorId, scores: TensorId, moe: Moe) -> Result<TensorId> {
        self.named_experts(x, scores, moe, "exps")
    }

    /// Like `scored_experts`, with tensor names of their own.
    pub fn named_experts(&mut self, x: TensorId, scores: TensorId, moe: Moe, ending: &str) -> Result<TensorId> {
        let (hidden, Moe { n_experts, ffn, mut routing, activation }) = (self.program.width(x), moe);
        let bias = self.name(if self.has("exp_probs_b") { "exp_probs_b" } else { "exp_probs_b.bias" });
        routing.bias = self.tensors.vector_if_present(&bias, n_experts)?.map(|bias| self.vector(bias));
        let n = n_experts / routing.sharing;
        let [gate, up, down, both] =
            ["gate", "up", "down", "gate_up"].map(|part| format!("ffn_{part}_{ending}.weight"));
        let matrix = |b: &mut Self, part: &str, rows: usize, cols: usize| {
            b.ordered_matrix(&b.name(part), rows, (0..rows).into(), cols)
        };
        let (gate, up) = if self.has(&both) {
            let both = matrix(self, &both, n * 2 * ffn, hidden)?;
            (Some(both), both)
        } else {
            let gate = if self.has(&gate) { Some(matrix(self, &gate, n * ffn, hidden)?) } else { None };
            (gate, matrix(self, &up, n * ffn, hidden)?)
        };
        let down = matrix(self, &down, n * hidden, ffn)?;
        let orders = [gate.unwrap_or(up), up, down].map(|weight| self.order_of(weight));
        let (mut biases, mut scales) = ([None; 3], [None; 3]);
        for (i, (part, rows)) in [("gate", ffn), ("up", ffn), ("down", hidden)].into_iter().enumerate() {
            let [bias, scale] = ["bias", "scale"].map(|of| self.name(&format!("ffn_{part}_{ending}.{of}")));
            biases[i] = self.tensors.values_if_present(&bias, n, rows)?.map(|bias| self.vector(bias));
            scales[i] = self.tensors.vector_if_present(&scale, n)?.map(|scale| self.vector(scale));
        }
        let out = self.program.tensor(hidden);
        self.program.push(Op::Experts(Experts {
            x,
            scores,
            out,
            gate,
            up,
            down,
            biases,
            scales,
            orders,
            n_experts,
            ffn,
            routing,
            activation,
        }));
        Ok(out)
    }

    /// The shared expert, times the sigmoid of one value if the file has its weights.
    pub fn shared_expert(&mut self, x: TensorId, activation: Activation) -> Result<TensorId> {
        let rows = self.tensors.rows(&self.name("ffn_up_shexp.weight"))?;
        let declared = self.keys.size("expert_shared_feed_forward_length")?;
        let halves = if self.has("ffn_gate_shexp.weight") {
            Some(("ffn_gate_shexp", 0..rows, 0..rows))
        } else {
            // One tensor for both.
            declared.filter(|width| rows == 2 * width).map(|width| ("ffn_up_shexp", 0..width, width..rows))
        };
        let inner = if let Some((part, gate, up)) = halves {
            let parts = [self.part(part, rows, gate, x)?, self.part("ffn_up_shexp", rows, up, x)?];
            let [gate, up] = self.push_projections(x, parts);
            self.program.push(Op::Glu { gate, up: Some(up), activation });
            gate
        } else {
            let up = self.project(x, "ffn_up_shexp", rows)?;
            self.program.push(Op::Glu { gate: up, up: None, activation });
            up
        };
        let out = self.project(inner, "ffn_down_shexp", self.program.width(x))?;
        if self.has("ffn_gate_inp_shexp.weight") {
            let gate = self.project(x, "ffn_gate_inp_shexp", 1)?;
            self.program.push(Op::Gate { x: out, gate, sigmoid: true });
        }
        Ok(out)
    }
}
