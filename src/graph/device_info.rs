//! Description of a device for listings and measurements.

use std::time::Duration;

/// A device in listings.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub name: String,
    /// Identifier that is independent of other devices: "cpu", or a UUID; empty if unknown.
    pub id: String,
    pub kind: DeviceKind,
    /// Instruction set or compute capability.
    pub isa: String,
    pub memory_total: u64,
    pub memory_free: u64,
    /// Reason why the device cannot be used; empty if it can.
    pub unavailable: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    Cpu,
    Gpu,
}

/// A part of the work of a step, for measurements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Matrix products of layers, and ops fused with them.
    Products,
    /// Norms of heads, RoPE, KV cache, attention.
    Attention,
    /// MoE routing and experts.
    Experts,
    /// Logits and sampling.
    Head,
    /// Embeddings, and unfused norms, sums and gates.
    Other,
}

impl Part {
    pub const ALL: [Part; 5] = [Part::Products, Part::Attention, Part::Experts, Part::Head, Part::Other];
}

/// Number of calls and total time of each part, by `Part`.
pub type Times = [(u64, Duration); Part::ALL.len()];
