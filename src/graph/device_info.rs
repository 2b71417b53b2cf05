//! A device as listings and measurements show it.

use std::time::Duration;

/// A device as listings show it.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    pub name: String,
    /// What names the device on this machine whatever others there are: "cpu", or a UUID; empty where unknown.
    pub id: String,
    pub kind: DeviceKind,
    /// Instruction set or compute capability.
    pub isa: String,
    pub memory_total: u64,
    pub memory_free: u64,
    /// The reason why it cannot be used, empty where it can.
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
    /// Matrix products of layers, with what shares their kernels.
    Products,
    /// Norms and rotation of heads, the cache, attention.
    Attention,
    /// The choice of experts, and experts.
    Experts,
    /// Logits and their arg-max.
    Head,
    /// Embeddings, norms, sums and gates that stand alone.
    Other,
}

impl Part {
    pub const ALL: [Part; 5] = [Part::Products, Part::Attention, Part::Experts, Part::Head, Part::Other];
}

/// Calls and total time of each part, by `Part`.
pub type Times = [(u64, Duration); Part::ALL.len()];
