//! Features of ops for which there is no kernel, by name.

use crate::graph::op::{Attend, Experts, Op, RouterScore};
use crate::graph::program::Program;
use crate::graph::sequence_spec::KvLayer;

/// Maximum width of a key or value in `attend.wgsl`.
const MAX_DIM: usize = 768;

/// Maximum number of values per channel in `scan.wgsl`.
const MAX_STATE: usize = 256;

/// Maximum numbers of experts, and of chosen experts per token, in `route.wgsl`.
const MAX_EXPERTS: usize = 1024;
const MAX_USED: usize = 64;

/// Returns the feature of an op for which there is no kernel; `None` if kernels compute the op. Listed in
/// `docs/internals/gpu-portable.md`.
pub fn lacking(program: &Program, op: &Op) -> Option<&'static str> {
    match op {
        Op::EmbedNgrams(_) => Some("n-gram embeddings"),
        Op::Select(_) => Some("sparse attention"),
        Op::Pool(_) => Some("pooled positions"),
        Op::Scan(s) if s.state > MAX_STATE => Some("scans with more than 256 values per channel"),
        Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } => Some("experts on the host"),
        Op::Attend(a) => of_attention(program, a),
        Op::Experts(e) => of_experts(e),
        _ => None,
    }
}

fn of_attention(program: &Program, op: &Attend) -> Option<&'static str> {
    let KvLayer { head_dim, value_dim, pool, .. } = program.kv_layers[op.layer.0 as usize];
    match op {
        _ if head_dim.max(value_dim) > MAX_DIM => Some("heads wider than 768"),
        _ if pool > 1 => Some("compressed keys"),
        Attend { among: Some(_), .. } => Some("attention to chosen positions"),
        Attend { half: Some(_), .. } => Some("attention over two layers"),
        _ => None,
    }
}

fn of_experts(e: &Experts) -> Option<&'static str> {
    let routing = &e.routing;
    match routing.score {
        RouterScore::SoftmaxOfChosen if routing.bias.is_some() || routing.groups != 1 || routing.by_id.is_some() => {
            return Some("experts with this routing");
        }
        _ => {}
    }
    match e {
        _ if e.n_experts > MAX_EXPERTS || routing.n_used.max(routing.groups) > MAX_USED => {
            Some("more than 1024 experts")
        }
        _ if e.orders != [None; 3] => Some("experts with an order of columns"),
        _ => None,
    }
}
