//! The traits of a GPU backend: a driver opens devices, a device loads models, a model creates sequences, adapters,
//! executors, and transfers between executors and the host.
//!
//! `device` uses GPUs only through these traits. Objects of a backend return to it as trait objects, such as a sequence
//! with a step; `own` downcasts them, and fails for objects of another backend.

use std::any::Any;
use std::ops::Range;
use std::sync::{Arc, MutexGuard};

use super::pieces::Piece;
use super::verdict::Verdict;
use crate::error::{Error, Result};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::device_info::{DeviceInfo, Times};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::{Experts, Op, TensorId};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::{OpenStep, Sequences, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;
use crate::graph::weights::{LowRank, MatrixSource, Progress, Weights};
use crate::sampling::SamplingRule;
use crate::tensor::DType;

/// The driver of some GPUs.
pub trait GpuDriver: Sync {
    /// Lower-case prefix of its devices' names.
    fn name(&self) -> &'static str;

    /// True if a load that names no device may select its devices.
    fn is_automatic(&self) -> bool {
        true
    }

    /// Lists every GPU, or one unavailable entry with the reason why there is none.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// Opens GPU `ordinal` of the list for one model. With `LoadOptions::plan` memory is counted but not allocated.
    fn open(&self, ordinal: i32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>>;
}

/// A GPU without weights.
pub trait GpuDevice: Send + Sync {
    /// `GpuDriver::name`
    fn driver(&self) -> &'static str;

    /// Returns the index among the driver's devices.
    fn ordinal(&self) -> i32;

    fn info(&self) -> &DeviceInfo;

    /// Fails with the reason if the device does not support some ops of a program.
    fn supports(&self, program: &Program, weights: &Weights, ops: Range<usize>) -> Result<()>;

    /// Returns the number of bytes of weights on the device.
    fn weight_bytes(&self, weights: &Weights) -> Result<u64>;

    /// Returns the number of bytes of a KV cache on the device.
    fn cache_bytes(&self, cache: &SequenceSpec) -> Result<u64>;

    /// Returns the number of bytes of a KV cache and an executor.
    fn working_bytes(&self, program: &Program, cache: &SequenceSpec, limits: StepLimits) -> Result<u64>;

    /// Loads the weights of a program to the device.
    fn load(
        self: Arc<Self>,
        program: &Program,
        weights: &Weights,
        progress: &mut Progress,
    ) -> Result<Arc<dyn GpuModel>>;

    /// Returns the ops of a program that are executed together, as in `Fusions::groups`.
    fn groups(&self, program: &Program, weights: &Weights) -> Result<Vec<Vec<usize>>>;

    /// Returns the type in which matrices of type `dtype` are stored.
    fn stored_type(&self, dtype: DType) -> Result<DType>;

    /// True if results are batch-invariant.
    fn is_deterministic(&self) -> bool;

    /// True if memory is only counted.
    fn plans(&self) -> bool;

    /// True if steps can sample by a rule on the device.
    fn chooses(&self, rule: &SamplingRule) -> bool;

    /// Returns the memory bandwidth in bytes per second, and seconds per kernel launch; measured once per process. A
    /// device that is lost meanwhile becomes unavailable, because further measurements could hang as long.
    fn rates(&self) -> Result<(f64, f64)>;

    /// Identifies device, driver and kernels; `None` if the driver does not.
    fn identity(&self) -> Option<u64>;

    /// Self-test results and measurements of the device in this process.
    fn verdict(&self) -> MutexGuard<'_, Verdict>;

    /// Marks the device unavailable for the rest of the process; loaded models keep working.
    fn fail(&self, why: String) -> Error {
        self.verdict().failed.get_or_insert_with(|| why.clone());
        Error::DeviceUnavailable { device: format!("{}:{}", self.driver(), self.ordinal()), why }
    }

    /// Returns the prefix of the names of kernels that only some devices have; `None` without them, or after one has
    /// failed a self-test.
    fn optional_kernels(&self) -> Option<&'static str>;
}

/// A GPU with the weights of one model.
pub trait GpuModel: Any + Send + Sync {
    /// Returns the device that was opened for the model.
    fn device(&self) -> Arc<dyn GpuDevice>;

    fn weight_bytes(&self) -> u64;

    /// Pinned host bytes used while loading the weights.
    fn staging_bytes(&self) -> u64;

    /// Returns a digest of the weights as in their files.
    fn digest(&self) -> u64;

    /// Returns the number of bytes that the model, its caches and executors take now: on the device, and of pinned host
    /// memory.
    fn taken(&self) -> [u64; 2];

    /// Creates an empty KV cache.
    fn new_sequence(&self, spec: &SequenceSpec) -> Result<Box<dyn GpuSequence>>;

    /// Loads the factors of a LoRA adapter to the device.
    fn load_adapter(&self, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<Arc<dyn GpuAdapter>>;

    /// Creates an executor with scratch for `limits`.
    fn new_executor(self: Arc<Self>, program: &Arc<Program>, limits: StepLimits) -> Result<Box<dyn GpuExecutor>>;

    /// Creates a transfer of up to `bytes` bytes to executors of another model; `None` if the values go through the
    /// host.
    fn new_transfer(&self, to: &dyn GpuModel, bytes: usize) -> Result<Option<Box<dyn Transfer>>>;

    /// Creates transfers of up to `values` values to the host, and back.
    fn new_host_transfer(&self, values: [usize; 2]) -> Result<Box<dyn HostTransfer>>;

    /// Allocates device memory for pieces of host matrices, up to `bytes` bytes each.
    fn new_piece_stream(&self, bytes: usize) -> Result<Box<dyn PieceStream>>;
}

/// A LoRA adapter on a GPU.
pub trait GpuAdapter: Any + Send + Sync {
    fn digest(&self) -> u64;
}

/// The KV cache and recurrent states of one sequence on a GPU.
pub trait GpuSequence: Any + Send + Sync {
    fn spec(&self) -> &SequenceSpec;

    fn bytes(&self) -> u64;

    /// Returns the number of bytes per position of capacity; rings do not grow.
    fn token_bytes(&self) -> Result<u64>;

    /// Copies the first `len` positions (of rings, those they still hold), and some buffers of recurrent state.
    fn fork(&self, len: usize, buffers: &mut dyn Iterator<Item = usize>) -> Result<Box<dyn GpuSequence>>;

    /// Sets the adapters of every later step.
    fn set_adapters(&mut self, adapters: AdapterSet<dyn GpuAdapter>);

    /// Writes the rows of a layer's positions, in an order independent of the capacity.
    fn save(&self, layer: usize, positions: Range<usize>, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Reads positions of a layer in the order of `save`.
    fn load(
        &mut self,
        layer: usize,
        positions: Range<usize>,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()>;

    /// Writes a buffer of recurrent states.
    fn save_recurrent(&self, buffer: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Reads a buffer of recurrent states.
    fn load_recurrent(&mut self, buffer: usize, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
}

/// An executor of the steps of one program. `OpenStep` gives access to its open step.
pub trait GpuExecutor: OpenStep + Any + Send {
    /// Begins a step of a range of ops.
    fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<dyn GpuSequence>,
        ops: Range<usize>,
    ) -> Result<()>;

    /// Queues ops up to the next crossing or the end, or until `budget`, checked between launches, pauses; returns true
    /// if all are queued.
    fn advance(&mut self, budget: &StepBudget) -> Result<bool>;

    /// Waits for all queued work.
    fn finish(&mut self) -> Result<()>;

    /// Returns the maximum number of steps in flight before the oldest one is collected.
    fn ahead(&self) -> usize;

    /// True if a step can use the token that the previous step sampled on the device.
    fn follows(&self) -> bool;

    /// Ends the step without waiting for its work.
    fn submit(&mut self) -> Result<()>;

    /// Waits for the oldest submitted step, and returns the tokens sampled after its first outputs.
    fn collect(&mut self, tokens: &mut [u32]) -> Result<()>;

    /// Returns the next op, if the host executes part of it; everything before it is queued.
    fn crossing(&self) -> Option<Op>;

    /// Continues after the crossing.
    fn pass_crossing(&mut self);

    /// Returns the number of rows of an activation.
    fn rows(&self, tensor: TensorId) -> usize;

    /// Returns the names of the kernels that the step has launched, except those of a captured graph.
    fn kernels(&self) -> Vec<&'static str>;

    /// Returns the device memory that is allocated when steps of one token repeat, at most.
    fn graph_bytes(&self) -> u64;

    /// Times of the parts of steps since the last call; zeros if not measured.
    fn times(&mut self) -> Times;
}

/// Copies of activations to the next GPU of a pipeline.
pub trait Transfer: Send {
    /// Queues copies of activations of the open step.
    fn hand_on(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor, tensors: &[TensorId]) -> Result<()>;

    /// Queues a copy of the sampled tokens, for the next step's embedding lookup.
    fn hand_tokens(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor) -> Result<()>;
}

/// Copies of activations to the host and back, within a step.
pub trait HostTransfer: Send {
    /// Queues copies of two activations of the open step to the host; returns their number of rows.
    fn send(&mut self, executor: &dyn GpuExecutor, tensors: [TensorId; 2]) -> Result<usize>;

    /// Waits for the sent values; returns false if `budget` ends the wait.
    fn receive(&mut self, executor: &dyn GpuExecutor, out: [&mut [f32]; 2], budget: &StepBudget) -> Result<bool>;

    /// Queues a copy of values to an activation.
    fn send_back(&mut self, executor: &dyn GpuExecutor, tensor: TensorId, values: &[f32]) -> Result<()>;
}

/// Calls a function for each index below the first argument, on several threads; returns false if the step has no time
/// left and nothing was done.
pub type Each<'a> = dyn FnMut(usize, &(dyn Fn(usize) + Sync)) -> Result<bool> + 'a;

/// Uploads of pieces of host matrices, each multiplied once.
pub trait PieceStream: Send {
    /// Returns the maximum bytes of a piece.
    fn bytes(&self) -> usize;

    /// Packs some rows of a matrix on several threads, and queues their copy; returns false if `budget` ends the wait
    /// for the previous copy from the same memory, or if `each` did nothing.
    fn send(&mut self, of: &dyn MatrixSource, rows: Range<usize>, budget: &StepBudget, each: &mut Each)
    -> Result<bool>;

    /// Waits for all copies.
    fn finish(&self) -> Result<()>;

    /// Queues the routing for experts whose matrices follow in pieces.
    fn choose(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()>;

    /// Queues the products with the piece sent last.
    fn multiply(&self, executor: &mut dyn GpuExecutor, experts: &Experts, piece: &Piece) -> Result<()>;

    /// Queues the sum of the results of all pieces.
    fn combine(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()>;
}

/// Downcasts an object to the backend's own type.
///
/// # Errors
/// `Error::Mismatch` if another backend created it; `what` names the object.
pub fn own<'a, T: Any>(object: &'a dyn Any, what: &str) -> Result<&'a T> {
    object.downcast_ref().ok_or_else(|| wrong_backend(what))
}

/// Like `own`, for a mutable reference.
///
/// # Errors
/// As in `own`.
pub fn own_mut<'a, T: Any>(object: &'a mut dyn Any, what: &str) -> Result<&'a mut T> {
    object.downcast_mut().ok_or_else(|| wrong_backend(what))
}

/// Returns the error for an object of another backend; `what` names the object.
pub fn wrong_backend(what: &str) -> Error {
    Error::Mismatch(format!("{what} belongs to a GPU of another driver"))
}
