//! Features of ops for which there is no kernel, by name.

use crate::graph::op::{Attend, Experts, Op, RouterScore};
use crate::graph::program::Program;
use crate::graph::sequence_spec::KvLayer;

/// Maximum width of a key or value in `attend.wgsl`.
const MAX_DIM: usize = 256;

/// Maximum numbers of experts, and of chosen experts per token, in `route.wgsl`.
const MAX_EXPERTS: usize = 512;
const MAX_USED: usize = 64;

/// Returns the feature of an op for which there is no kernel; `None` if kernels compute the op. Listed in
/// `docs/internals/gpu-portable.md`.
pub fn lacking(program: &Program, op: &Op) -> Option<&'static str> {
    match op {
        Op::EmbedNgrams(_) => Some("n-gram embeddings"),
        Op::Threshold { .. } | Op::Rescale { .. } => Some("thresholds and rescaling of activations"),
        Op::Mix(_) | Op::MixByScore { .. } | Op::Sinkhorn { .. } => Some("mixed residual streams"),
        Op::ProjectHeads { .. } => Some("products per head (MLA)"),
        Op::Select(_) => Some("sparse attention"),
        Op::Conv(_) | Op::Pool(_) | Op::DeltaRule(_) | Op::Scan(_) | Op::Wkv(_) => Some("recurrent layers"),
        Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } => Some("experts on the host"),
        Op::Attend(a) => of_attention(program, a),
        Op::Experts(e) => of_experts(e),
        _ => None,
    }
}

fn of_attention(program: &Program, op: &Attend) -> Option<&'static str> {
    let KvLayer { head_dim, value_dim, pool, .. } = program.kv_layers[op.layer.0 as usize];
    match op {
        _ if head_dim.max(value_dim) > MAX_DIM => Some("heads wider than 256"),
        _ if pool > 1 => Some("compressed keys"),
        Attend { among: Some(_), .. } => Some("attention to chosen positions"),
        Attend { half: Some(_), .. } => Some("attention over two layers"),
        _ => None,
    }
}

fn of_experts(e: &Experts) -> Option<&'static str> {
    let routing = &e.routing;
    match routing.score {
        RouterScore::SparseMixer => return Some("experts chosen by SparseMixer"),
        RouterScore::SoftmaxOfChosen if routing.bias.is_some() || routing.groups != 1 => {
            return Some("experts with this routing");
        }
        _ => {}
    }
    match e {
        _ if e.n_experts > MAX_EXPERTS || routing.n_used.max(routing.groups) > MAX_USED => {
            Some("more than 512 experts")
        }
        _ if routing.by_id.is_some() => Some("experts chosen by token ids"),
        _ if e.orders != [None; 3] => Some("experts with an order of columns"),
        _ => None,
    }
}
