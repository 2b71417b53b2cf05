//! The place of `cuda` on systems that no driver exists for: one unavailable device, and types that have no values.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::gpu::pieces::Piece;
use crate::graph::adapter_set::AdapterSet;
use crate::graph::device_info::{DeviceInfo, DeviceKind, Times};
use crate::graph::op::{Experts, Op, TensorId};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::{Sequences, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::{LowRank, MatrixSource, Progress, Weights};
use crate::tensor::DType;

const WHY: &str = "there is no CUDA for this system";

enum Never {}

#[derive(Clone, Copy, Default, Debug)]
pub struct Uses {
    pub deterministic: bool,
    pub profile: bool,
    pub plan: bool,
}

/// The name of the kernel that a device may go without.
pub const WGMMA: &str = "wgmma_256";

/// A file of the tests that devices have passed.
#[derive(Clone, Debug)]
pub struct Kept {
    pub path: PathBuf,
}

impl Kept {
    pub fn recall(&self, device: &Arc<CudaDevice>) {
        match device.0 {}
    }

    pub fn keep(&self, device: &Arc<CudaDevice>) {
        match device.0 {}
    }
}

pub struct DeviceMatrix(Never);
pub struct CudaDevice(Never);
pub struct CudaModel(Never);
pub struct CudaAdapter(Never);
pub struct CudaSequence(Never);
pub struct CudaExecutor(Never);
pub struct Transfer(Never);
pub struct HostWay(Never);
pub struct Pieces(Never);

/// Executes work for the numbers below the first.
pub type Each<'a> = dyn FnMut(usize, &(dyn Fn(usize) + Sync)) -> Result<bool> + 'a;

pub fn devices() -> Vec<DeviceInfo> {
    vec![DeviceInfo {
        name: "cuda:0".to_owned(),
        id: String::new(),
        kind: DeviceKind::Gpu,
        isa: String::new(),
        memory_total: 0,
        memory_free: 0,
        unavailable: WHY.to_owned(),
    }]
}

pub fn open(ordinal: i32, _uses: Uses) -> Result<Arc<CudaDevice>> {
    Err(Error::DeviceUnavailable { device: format!("cuda:{ordinal}"), why: WHY.to_owned() })
}

impl CudaExecutor {
    pub fn new(model: Arc<CudaModel>, _program: &Arc<Program>, _limits: StepLimits) -> Result<CudaExecutor> {
        match model.0 {}
    }
}

impl Transfer {
    pub fn new(from: &CudaExecutor, _to: &CudaExecutor, _bytes: usize) -> Result<Transfer> {
        match from.0 {}
    }
}

impl HostWay {
    pub fn new(executor: &CudaExecutor, _values: [usize; 2]) -> Result<HostWay> {
        match executor.0 {}
    }
}

impl Pieces {
    pub fn of(executor: &CudaExecutor) -> Result<Option<Pieces>> {
        match executor.0 {}
    }

    pub fn on(model: &CudaModel, _bytes: usize) -> Result<Pieces> {
        match model.0 {}
    }
}

impl CudaSequence {
    pub fn fork(&self, _len: usize, _buffers: impl Iterator<Item = usize>) -> Result<CudaSequence> {
        match self.0 {}
    }
}

/// Methods of types without values.
macro_rules! absent {
    ($($type:ident { $(fn $name:ident($self:ty $(, $argument:ty)*) -> $result:ty;)* })*) => {
        $(impl $type {
            $(pub fn $name(self: $self, $(_: $argument),*) -> $result {
                match self.0 {}
            })*
        })*
    };
}

absent! {
    CudaDevice {
        fn info(&Self) -> &DeviceInfo;
        fn ordinal(&Self) -> i32;
        fn cache_bytes(&Self, &SequenceSpec) -> Result<u64>;
        fn supports(&Self, &Program, &Weights, Range<usize>) -> Result<()>;
        fn weight_bytes(&Self, &Weights) -> Result<u64>;
        fn working_bytes(&Self, &Program, &SequenceSpec, StepLimits) -> Result<u64>;
        fn load(&Arc<Self>, &Program, &Weights, &mut Progress) -> Result<CudaModel>;
        fn groups(&Self, &Program, &Weights) -> Result<Vec<Vec<usize>>>;
        fn stored_type(&Self, DType) -> Result<DType>;
        fn is_deterministic(&Self) -> bool;
        fn plans(&Self) -> bool;
        fn rates(&Self) -> Result<(f64, f64)>;
        fn has_passed(&Self, u64) -> bool;
        fn pass(&Self, u64) -> ();
        fn passed(&Self) -> Vec<u64>;
        fn identity(&Self) -> Option<u64>;
        fn leaves_out_wgmma(&Self) -> bool;
        fn fail(&Self, String) -> Error;
        fn has_wgmma(&Self) -> bool;
        fn leave_out_wgmma(&Self) -> ();
    }
    CudaModel {
        fn device(&Self) -> &DeviceInfo;
        fn opened(&Self) -> &Arc<CudaDevice>;
        fn ordinal(&Self) -> i32;
        fn weight_bytes(&Self) -> u64;
        fn staging_bytes(&Self) -> u64;
        fn digest(&Self) -> u64;
        fn bytes_of(&Self, &Weights) -> Result<u64>;
        fn taken(&Self) -> [u64; 2];
        fn new_sequence(&Self, &SequenceSpec) -> Result<CudaSequence>;
        fn load_adapter(&Self, &[&dyn MatrixSource], &[LowRank]) -> Result<CudaAdapter>;
    }
    CudaAdapter {
        fn digest(&Self) -> u64;
    }
    CudaSequence {
        fn spec(&Self) -> &SequenceSpec;
        fn bytes(&Self) -> u64;
        fn set_adapters(&mut Self, AdapterSet<CudaAdapter>) -> ();
        fn token_bytes(&Self) -> Result<u64>;
        fn save(&Self, usize, Range<usize>, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
        fn load(&mut Self, usize, Range<usize>, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
        fn save_memory(&Self, usize, &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
        fn load_memory(&mut Self, usize, &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
    }
    CudaExecutor {
        fn begin(&mut Self, &StepInputs, &dyn Sequences<CudaSequence>, Range<usize>) -> Result<()>;
        fn advance(&mut Self, &StepBudget) -> Result<bool>;
        fn token(&mut Self, usize) -> Result<u32>;
        fn read_logits(&mut Self, usize, &mut [f32]) -> Result<()>;
        fn write(&mut Self, TensorId, &[f32]) -> Result<()>;
        fn read(&mut Self, TensorId, &mut [f32]) -> Result<()>;
        fn read_rows(&mut Self, TensorId, usize, &mut [f32]) -> Result<()>;
        fn end(&mut Self) -> Result<()>;
        fn kernels(&Self) -> std::iter::Empty<&'static str>;
        fn times(&mut Self) -> Times;
        fn ahead(&Self) -> usize;
        fn follows(&Self) -> bool;
        fn submit(&mut Self) -> Result<()>;
        fn collect(&mut Self, &mut [u32]) -> Result<()>;
        fn finish(&mut Self) -> Result<()>;
        fn crossing(&Self) -> Option<Op>;
        fn pass_crossing(&mut Self) -> ();
        fn rows(&Self, TensorId) -> usize;
        fn choose_experts(&mut Self, &Experts) -> Result<()>;
        fn multiply_piece(&mut Self, &Experts, &Pieces, &Piece, DeviceMatrix) -> Result<()>;
        fn combine_experts(&mut Self, &Experts) -> Result<()>;
    }
    HostWay {
        fn send(&mut Self, &CudaExecutor, [TensorId; 2]) -> Result<usize>;
        fn receive(&mut Self, &CudaExecutor, [&mut [f32]; 2], &StepBudget) -> Result<bool>;
        fn answer(&mut Self, &CudaExecutor, TensorId, &[f32]) -> Result<()>;
    }
    Pieces {
        fn send(&mut Self, &dyn MatrixSource, Range<usize>, &StepBudget, &mut Each) -> Result<Option<DeviceMatrix>>;
        fn bytes(&Self) -> usize;
        fn finish(&Self) -> Result<()>;
    }
    Transfer {
        fn hand_on(&mut Self, &CudaExecutor, &CudaExecutor, &[TensorId]) -> Result<()>;
        fn hand_tokens(&mut Self, &CudaExecutor, &CudaExecutor) -> Result<()>;
    }
}
