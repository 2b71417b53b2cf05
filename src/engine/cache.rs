//! The shape of a session's KV cache from the caller's parameters.

use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::quant;
use crate::tensor::DType;

/// Default context length in tokens, unless the model declares less.
const DEFAULT_CAPACITY: u32 = 8192;

pub struct CacheParams {
    /// Context length in tokens; 0: the model's, at most 8,192.
    pub capacity: u32,
    pub k_type: DType,
    pub v_type: DType,
}

impl Default for CacheParams {
    fn default() -> Self {
        CacheParams { capacity: 0, k_type: quant::F16, v_type: quant::F16 }
    }
}

impl CacheParams {
    /// Returns the context length in tokens, for a model that declares `context`.
    pub fn capacity_or_default(&self, context: u32) -> usize {
        let tokens = if self.capacity == 0 { context.clamp(1, DEFAULT_CAPACITY) } else { self.capacity };
        tokens as usize
    }
}

/// Returns the shape of a KV cache for `program` and steps up to `limits`.
pub fn state_spec(program: &Program, context: u32, params: &CacheParams, limits: StepLimits) -> SequenceSpec {
    SequenceSpec {
        layers: program.kv_layers.clone(),
        recurrent: program.recurrent.clone(),
        capacity: params.capacity_or_default(context),
        k_type: params.k_type,
        v_type: params.v_type,
        max_step: limits.max_tokens,
    }
}
