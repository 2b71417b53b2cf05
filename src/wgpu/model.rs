//! A model on a GPU, and the objects that it creates.

use std::sync::Arc;

use super::adapter::WgpuAdapter;
use super::device::WgpuModel;
use super::executor::WgpuExecutor;
use super::sequence::WgpuSequence;
use crate::error::{Error, Result};
use crate::gpu::{GpuAdapter, GpuDevice, GpuExecutor, GpuModel, GpuSequence, HostTransfer, PieceStream, Transfer};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::weights::{LowRank, MatrixSource};

fn refusal<T>(what: &str) -> Result<T> {
    Err(Error::unsupported(format!("{what} are not supported on this GPU")))
}

impl GpuModel for WgpuModel {
    fn device(&self) -> Arc<dyn GpuDevice> {
        self.device.clone()
    }

    fn weight_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    fn staging_bytes(&self) -> u64 {
        0
    }

    fn digest(&self) -> u64 {
        self.weights.digest()
    }

    fn taken(&self) -> [u64; 2] {
        [self.device.context.taken(), 0]
    }

    fn new_sequence(&self, spec: &SequenceSpec) -> Result<Box<dyn GpuSequence>> {
        Ok(Box::new(WgpuSequence::new(&self.device.context, &self.device.kernels, spec)?))
    }

    fn load_adapter(&self, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<Arc<dyn GpuAdapter>> {
        Ok(Arc::new(WgpuAdapter::new(&self.device.context, sources, products)?))
    }

    fn new_executor(self: Arc<Self>, program: &Arc<Program>, limits: StepLimits) -> Result<Box<dyn GpuExecutor>> {
        Ok(Box::new(WgpuExecutor::new(self, program, limits)?))
    }

    fn new_transfer(&self, _to: &dyn GpuModel, _bytes: usize) -> Result<Option<Box<dyn Transfer>>> {
        Ok(None)
    }

    fn new_host_transfer(&self, _values: [usize; 2]) -> Result<Box<dyn HostTransfer>> {
        refusal("experts on the host")
    }

    fn new_piece_stream(&self, _bytes: usize) -> Result<Box<dyn PieceStream>> {
        refusal("experts on the host")
    }
}
