//! The shape of a session's cache from the choices of a caller.

use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::quant;
use crate::tensor::DType;

/// Tokens of a cache whose capacity the caller left open, unless the model declares fewer.
const DEFAULT_CAPACITY: u32 = 8192;

pub struct CacheParams {
    /// Tokens; 0: what the model declares, at most 8,192.
    pub capacity: u32,
    pub k_type: DType,
    pub v_type: DType,
}

impl Default for CacheParams {
    fn default() -> Self {
        CacheParams { capacity: 0, k_type: quant::F16, v_type: quant::F16 }
    }
}

/// The shape of a cache for a program whose steps have some room.
pub fn state_spec(program: &Program, context: u32, params: &CacheParams, limits: StepLimits) -> SequenceSpec {
    let capacity = match params.capacity {
        0 => context.clamp(1, DEFAULT_CAPACITY),
        n => n,
    };
    SequenceSpec {
        layers: program.kv_layers.clone(),
        recurrent: program.recurrent.clone(),
        capacity: capacity as usize,
        k_type: params.k_type,
        v_type: params.v_type,
        max_step: limits.max_tokens,
    }
}
