//! The interface of a GPU backend: a driver opens devices, a device loads models, a model makes sequences, adapters and
//! executors, and the ways of values between executors and the host.
//!
//! `device` knows GPUs by these traits alone. What a backend has made comes back to it as a trait object, such as a
//! sequence with a step; `own` returns the backend's own type, and refuses the object of another backend.

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
use crate::tensor::DType;

/// The driver of some GPUs.
pub trait GpuDriver: Sync {
    /// Prefix of the names of its devices, in lower case.
    fn name(&self) -> &'static str;

    /// Lists every GPU, or one unavailable entry that says why there is none.
    fn devices(&self) -> Vec<DeviceInfo>;

    /// Opens GPU `ordinal` of the list for one model. With `LoadOptions::plan` memory is counted and not taken.
    fn open(&self, ordinal: i32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>>;
}

/// A GPU without weights.
pub trait GpuDevice: Send + Sync {
    /// `GpuDriver::name`
    fn driver(&self) -> &'static str;

    /// Number of the device among those of the driver.
    fn ordinal(&self) -> i32;

    fn info(&self) -> &DeviceInfo;

    /// Fails with the reason why the device cannot execute some ops of a program.
    fn supports(&self, program: &Program, weights: &Weights, ops: Range<usize>) -> Result<()>;

    /// Bytes that weights take.
    fn weight_bytes(&self, weights: &Weights) -> Result<u64>;

    /// Bytes that a cache takes.
    fn cache_bytes(&self, cache: &SequenceSpec) -> Result<u64>;

    /// Bytes of a cache and of an executor.
    fn working_bytes(&self, program: &Program, cache: &SequenceSpec, limits: StepLimits) -> Result<u64>;

    /// Brings the weights of a program to the device.
    fn load(
        self: Arc<Self>,
        program: &Program,
        weights: &Weights,
        progress: &mut Progress,
    ) -> Result<Arc<dyn GpuModel>>;

    /// The ops of a program that are executed together, as `Fusions::groups` lists them.
    fn groups(&self, program: &Program, weights: &Weights) -> Result<Vec<Vec<usize>>>;

    /// The type in which matrices of a type are kept.
    fn stored_type(&self, dtype: DType) -> Result<DType>;

    /// True if the results of a row do not depend on the rest of the batch.
    fn is_deterministic(&self) -> bool;

    /// Tells whether memory is only counted.
    fn plans(&self) -> bool;

    /// Bytes a second that the device reads, and the seconds that a launch takes among others: measured once a process.
    /// A device that is lost meanwhile is unavailable from then on, because each further measurement might wait as
    /// long.
    fn rates(&self) -> Result<(f64, f64)>;

    /// A number that tells the device, its driver and its kernels from others; `None` where the driver does not say.
    fn identity(&self) -> Option<u64>;

    /// What the process has found out about the device.
    fn verdict(&self) -> MutexGuard<'_, Verdict>;

    /// Makes the device unavailable for as long as the process lasts; models that are loaded on it keep working.
    fn fail(&self, why: String) -> Error {
        self.verdict().failed.get_or_insert_with(|| why.clone());
        Error::DeviceUnavailable { device: format!("{}:{}", self.driver(), self.ordinal()), why }
    }

    /// Name of the kernel that only some devices have; `None` if this one has none, or it has failed a self-test.
    fn optional_kernel(&self) -> Option<&'static str>;
}

/// A GPU with the weights of one model.
pub trait GpuModel: Any + Send + Sync {
    /// The device that was opened for the model.
    fn device(&self) -> Arc<dyn GpuDevice>;

    fn weight_bytes(&self) -> u64;

    /// Page-locked bytes of the host that the load of the weights took.
    fn staging_bytes(&self) -> u64;

    /// A digest of the weights as their files have them.
    fn digest(&self) -> u64;

    /// Bytes of the device that the model, its caches and executors take now, and page-locked ones of the host.
    fn taken(&self) -> [u64; 2];

    /// An empty cache.
    fn new_sequence(&self, spec: &SequenceSpec) -> Result<Box<dyn GpuSequence>>;

    /// Brings the factors of an adapter to the device.
    fn load_adapter(&self, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<Arc<dyn GpuAdapter>>;

    /// An executor with scratch for `limits`.
    fn new_executor(self: Arc<Self>, program: &Arc<Program>, limits: StepLimits) -> Result<Box<dyn GpuExecutor>>;

    /// A way for at most so many bytes at a time to the executors of another model.
    fn new_transfer(&self, to: &dyn GpuModel, bytes: usize) -> Result<Box<dyn Transfer>>;

    /// A way for at most so many values to the host, and back.
    fn new_host_way(&self, values: [usize; 2]) -> Result<Box<dyn HostWay>>;

    /// Memory for pieces, of so many bytes, of matrices that the host has.
    fn new_piece_way(&self, bytes: usize) -> Result<Box<dyn PieceWay>>;
}

/// A low-rank adapter on a GPU.
pub trait GpuAdapter: Any + Send + Sync {
    fn digest(&self) -> u64;
}

/// Keys, values and recurrent states of one sequence on a GPU.
pub trait GpuSequence: Any + Send + Sync {
    fn spec(&self) -> &SequenceSpec;

    fn bytes(&self) -> u64;

    /// Memory that one more position of capacity takes, in bytes; rings do not grow.
    fn token_bytes(&self) -> Result<u64>;

    /// A copy of the first `len` positions, or of those of them that a ring keeps, and of some buffers of recurrent
    /// state.
    fn fork(&self, len: usize, buffers: &mut dyn Iterator<Item = usize>) -> Result<Box<dyn GpuSequence>>;

    /// Sets the adapters of every later step.
    fn set_adapters(&mut self, adapters: AdapterSet<dyn GpuAdapter>);

    /// Hands the rows of positions of a layer to `write`, in an order that does not depend on the capacity.
    fn save(&self, layer: usize, positions: Range<usize>, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Fills positions of a layer in the order of `save`.
    fn load(
        &mut self,
        layer: usize,
        positions: Range<usize>,
        read: &mut dyn FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()>;

    /// Hands a buffer of recurrent states to `write`.
    fn save_memory(&self, buffer: usize, write: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;

    /// Fills a buffer of recurrent states.
    fn load_memory(&mut self, buffer: usize, read: &mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>;
}

/// An executor of the steps of one program. `OpenStep` is the access to its open step.
pub trait GpuExecutor: OpenStep + Any + Send {
    /// Opens a step of a range of ops.
    fn begin(
        &mut self,
        inputs: &StepInputs,
        sequences: &dyn Sequences<dyn GpuSequence>,
        ops: Range<usize>,
    ) -> Result<()>;

    /// Queues ops up to the next crossing or the end, or until `budget`, asked between launches, pauses; true if all of
    /// them are queued.
    fn advance(&mut self, budget: &StepBudget) -> Result<bool>;

    /// Waits for the end of all queued work.
    fn finish(&mut self) -> Result<()>;

    /// Number of steps that may be submitted before the oldest is collected.
    fn ahead(&self) -> usize;

    /// True if a step can take the token that the previous step has chosen on the device.
    fn follows(&self) -> bool;

    /// Ends the step without waiting for its work.
    fn submit(&mut self) -> Result<()>;

    /// Waits for the oldest step that was submitted: the tokens after its first outputs.
    fn collect(&mut self, tokens: &mut [u32]) -> Result<()>;

    /// The next op, if the host executes part of it; everything before it is queued.
    fn crossing(&self) -> Option<Op>;

    /// Continues after the crossing.
    fn pass_crossing(&mut self);

    /// Number of rows that an activation has.
    fn rows(&self, tensor: TensorId) -> usize;

    /// Names of the kernels that the step has launched, but for those of a recorded step.
    fn kernels(&self) -> Vec<&'static str>;

    /// Times of the parts of steps since this was asked last; zeros where nothing is measured.
    fn times(&mut self) -> Times;
}

/// Copies of activations to the next GPU of a pipeline.
pub trait Transfer: Send {
    /// Queues copies of activations of the open step.
    fn hand_on(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor, tensors: &[TensorId]) -> Result<()>;

    /// Queues a copy of the tokens after the outputs, for the next step to look up.
    fn hand_tokens(&mut self, from: &dyn GpuExecutor, to: &dyn GpuExecutor) -> Result<()>;
}

/// Copies of activations to the host and back, within a step.
pub trait HostWay: Send {
    /// Has the device write two activations of the open step, and returns the number of their rows.
    fn send(&mut self, executor: &dyn GpuExecutor, tensors: [TensorId; 2]) -> Result<usize>;

    /// Waits for the values that were sent; false where `budget` ends that.
    fn receive(&mut self, executor: &dyn GpuExecutor, out: [&mut [f32]; 2], budget: &StepBudget) -> Result<bool>;

    /// Queues a copy of values to an activation.
    fn answer(&mut self, executor: &dyn GpuExecutor, tensor: TensorId, values: &[f32]) -> Result<()>;
}

/// Calls a function for each number below the first argument, on several threads; false if the step has no time left
/// and nothing was done.
pub type Each<'a> = dyn FnMut(usize, &(dyn Fn(usize) + Sync)) -> Result<bool> + 'a;

/// Uploads of pieces of host matrices, each multiplied by once.
pub trait PieceWay: Send {
    /// Bytes of a piece, at most.
    fn bytes(&self) -> usize;

    /// Queues the copy of some rows of a matrix, which threads lay down first; false where `budget` ends the wait for
    /// the copy before from this memory, or `each` did nothing.
    fn send(&mut self, of: &dyn MatrixSource, rows: Range<usize>, budget: &StepBudget, each: &mut Each)
    -> Result<bool>;

    /// Waits for the end of all copies.
    fn finish(&self) -> Result<()>;

    /// Queues the choice of experts whose matrices follow in pieces.
    fn choose(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()>;

    /// Queues the products with the piece that was sent last.
    fn multiply(&self, executor: &mut dyn GpuExecutor, experts: &Experts, piece: &Piece) -> Result<()>;

    /// Queues the sum of the results of all pieces.
    fn combine(&self, executor: &mut dyn GpuExecutor, experts: &Experts) -> Result<()>;
}

/// Downcasts an object to the backend's own type.
///
/// # Errors
/// `Error::Mismatch` if another backend made it; `what` names the object.
pub fn own<'a, T: Any>(object: &'a dyn Any, what: &str) -> Result<&'a T> {
    object.downcast_ref().ok_or_else(|| wrong_backend(what))
}

/// `own` for a mutable reference.
///
/// # Errors
/// Those of `own`.
pub fn own_mut<'a, T: Any>(object: &'a mut dyn Any, what: &str) -> Result<&'a mut T> {
    object.downcast_mut().ok_or_else(|| wrong_backend(what))
}

/// Returns the error for an object that another backend has made; `what` names the object.
pub fn wrong_backend(what: &str) -> Error {
    Error::Mismatch(format!("{what} belongs to a GPU of another driver"))
}
