//! A GPU backend that implements the whole interface and fails in every call that would compute.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use realizar::error::{Error, Result};
use realizar::gpu::pieces::Piece;
use realizar::gpu::verdict::{Verdict, lock};
use realizar::gpu::*;
use realizar::graph::adapter_set::AdapterSet;
use realizar::graph::device_info::{DeviceInfo, DeviceKind, Times};
use realizar::graph::load_options::LoadOptions;
use realizar::graph::op::{Experts, Op, TensorId};
use realizar::graph::program::Program;
use realizar::graph::sequence_spec::SequenceSpec;
use realizar::graph::step::{OpenStep, Sequences, StepInputs, StepLimits};
use realizar::graph::step_budget::StepBudget;
use realizar::graph::weights::{LowRank, MatrixSource, Progress, Weights};
use realizar::sampling::SamplingRule;
use realizar::tensor::DType;

pub const NAME: &str = "stub";

fn refusal(call: &str) -> Error {
    Error::unsupported(format!("{call} of {NAME}:0, which computes nothing"))
}

fn info() -> DeviceInfo {
    DeviceInfo {
        name: format!("{NAME}:0"),
        id: String::new(),
        kind: DeviceKind::Gpu,
        isa: String::new(),
        memory_total: 1 << 40,
        memory_free: 1 << 40,
        unavailable: String::new(),
    }
}

/// Methods that fail.
macro_rules! refused {
    ($(fn $name:ident($self:ty $(, $argument:ty)*) -> $result:ty;)*) => {
        $(fn $name(self: $self, $(_: $argument),*) -> Result<$result> { Err(refusal(stringify!($name))) })*
    };
}
/// Methods that succeed.
macro_rules! answered {
    ($(fn $name:ident($self:ty $(, $argument:ty)*) -> $result:ty { $answer:expr })*) => {
        $(fn $name(self: $self, $(_: $argument),*) -> $result { $answer })*
    };
}

pub struct Stub;

impl GpuDriver for Stub {
    answered! {
        fn name(&Self) -> &'static str { NAME }
        fn devices(&Self) -> Vec<DeviceInfo> { vec![info()] }
    }

    fn open(&self, _ordinal: i32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>> {
        Ok(Arc::new(StubDevice { info: info(), plans: options.plan, verdict: Mutex::default() }))
    }
}

struct StubDevice {
    info: DeviceInfo,
    plans: bool,
    verdict: Mutex<Verdict>,
}

impl GpuDevice for StubDevice {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn verdict(&self) -> MutexGuard<'_, Verdict> {
        lock(&self.verdict)
    }

    fn plans(&self) -> bool {
        self.plans
    }

    answered! {
        fn driver(&Self) -> &'static str { NAME }
        fn ordinal(&Self) -> i32 { 0 }
        fn supports(&Self, &Program, &Weights, Range<usize>) -> Result<()> { Ok(()) }
        fn weight_bytes(&Self, &Weights) -> Result<u64> { Ok(0) }
        fn cache_bytes(&Self, &SequenceSpec) -> Result<u64> { Ok(0) }
        fn working_bytes(&Self, &Program, &SequenceSpec, StepLimits) -> Result<u64> { Ok(0) }
        fn identity(&Self) -> Option<u64> { None }
        fn is_deterministic(&Self) -> bool { false }
        fn chooses(&Self, &SamplingRule) -> bool { false }
        fn optional_kernels(&Self) -> Option<&'static str> { None }
    }
    refused! {
        fn load(Arc<Self>, &Program, &Weights, &mut Progress) -> Arc<dyn GpuModel>;
        fn groups(&Self, &Program, &Weights) -> Vec<Vec<usize>>;
        fn stored_type(&Self, DType) -> DType;
        fn rates(&Self) -> (f64, f64);
    }
}

/// All other objects that a backend creates.
pub struct StubObject(pub SequenceSpec);

impl GpuModel for StubObject {
    answered! {
        fn device(&Self) -> Arc<dyn GpuDevice> { Arc::new(StubDevice { info: info(), plans: false, verdict: Mutex::default() }) }
        fn weight_bytes(&Self) -> u64 { 0 }
        fn staging_bytes(&Self) -> u64 { 0 }
        fn digest(&Self) -> u64 { 0 }
        fn taken(&Self) -> [u64; 2] { [0; 2] }
    }
    refused! {
        fn new_sequence(&Self, &SequenceSpec) -> Box<dyn GpuSequence>;
        fn load_adapter(&Self, &[&dyn MatrixSource], &[LowRank]) -> Arc<dyn GpuAdapter>;
        fn new_executor(Arc<Self>, &Arc<Program>, StepLimits) -> Box<dyn GpuExecutor>;
        fn new_transfer(&Self, &dyn GpuModel, usize) -> Option<Box<dyn Transfer>>;
        fn new_host_transfer(&Self, [usize; 2]) -> Box<dyn HostTransfer>;
        fn new_piece_stream(&Self, usize) -> Box<dyn PieceStream>;
    }
}

impl GpuAdapter for StubObject {
    answered! { fn digest(&Self) -> u64 { 0 } }
}
impl GpuSequence for StubObject {
    fn spec(&self) -> &SequenceSpec {
        &self.0
    }

    answered! {
        fn bytes(&Self) -> u64 { 0 }
        fn set_adapters(&mut Self, AdapterSet<dyn GpuAdapter>) -> () { () }
    }
    refused! {
        fn token_bytes(&Self) -> u64;
        fn fork(&Self, usize, &mut dyn Iterator<Item = usize>) -> Box<dyn GpuSequence>;
        fn save(&Self, usize, Range<usize>, &mut dyn FnMut(&[u8]) -> Result<()>) -> ();
        fn load(&mut Self, usize, Range<usize>, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> ();
        fn save_recurrent(&Self, usize, &mut dyn FnMut(&[u8]) -> Result<()>) -> ();
        fn load_recurrent(&mut Self, usize, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> ();
    }
}

impl OpenStep for StubObject {
    refused! {
        fn token(&mut Self, usize) -> u32;
        fn read_logits(&mut Self, usize, &mut [f32]) -> ();
        fn write(&mut Self, TensorId, &[f32]) -> ();
        fn read(&mut Self, TensorId, &mut [f32]) -> ();
        fn read_rows(&mut Self, TensorId, usize, &mut [f32]) -> ();
        fn end(&mut Self) -> ();
    }
}

impl GpuExecutor for StubObject {
    answered! {
        fn ahead(&Self) -> usize { 0 }
        fn follows(&Self) -> bool { false }
        fn crossing(&Self) -> Option<Op> { None }
        fn pass_crossing(&mut Self) -> () { () }
        fn rows(&Self, TensorId) -> usize { 0 }
        fn kernels(&Self) -> Vec<&'static str> { Vec::new() }
        fn graph_bytes(&Self) -> u64 { 0 }
        fn times(&mut Self) -> Times { Times::default() }
    }
    refused! {
        fn begin(&mut Self, &StepInputs, &dyn Sequences<dyn GpuSequence>, Range<usize>) -> ();
        fn advance(&mut Self, &StepBudget) -> bool;
        fn finish(&mut Self) -> ();
        fn submit(&mut Self) -> ();
        fn collect(&mut Self, &mut [u32]) -> ();
    }
}

impl Transfer for StubObject {
    refused! {
        fn hand_on(&mut Self, &dyn GpuExecutor, &dyn GpuExecutor, &[TensorId]) -> ();
        fn hand_tokens(&mut Self, &dyn GpuExecutor, &dyn GpuExecutor) -> ();
    }
}

impl HostTransfer for StubObject {
    refused! {
        fn send(&mut Self, &dyn GpuExecutor, [TensorId; 2]) -> usize;
        fn receive(&mut Self, &dyn GpuExecutor, [&mut [f32]; 2], &StepBudget) -> bool;
        fn send_back(&mut Self, &dyn GpuExecutor, TensorId, &[f32]) -> ();
    }
}

impl PieceStream for StubObject {
    answered! { fn bytes(&Self) -> usize { 0 } }
    refused! {
        fn send(&mut Self, &dyn MatrixSource, Range<usize>, &StepBudget, &mut Each) -> bool;
        fn finish(&Self) -> ();
        fn choose(&Self, &mut dyn GpuExecutor, &Experts) -> ();
        fn multiply(&Self, &mut dyn GpuExecutor, &Experts, &Piece) -> ();
        fn combine(&Self, &mut dyn GpuExecutor, &Experts) -> ();
    }
}
