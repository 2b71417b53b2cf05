//! A model on a GPU, and the objects it creates: sequences, adapters, executors, and transfers of values between them.

use std::any::Any;
use std::sync::Arc;

use super::adapter::CudaAdapter;
use super::device::CudaModel;
use super::executor::CudaExecutor;
use super::host_transfer::CudaHostTransfer;
use super::piece_stream::CudaPieceStream;
use super::sequence::CudaSequence;
use super::transfer::CudaTransfer;
use crate::error::Result;
use crate::gpu::{GpuAdapter, GpuDevice, GpuExecutor, GpuModel, GpuSequence, HostTransfer, PieceStream, Transfer};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::graph::weights::{LowRank, MatrixSource};

impl GpuModel for CudaModel {
    fn device(&self) -> Arc<dyn GpuDevice> {
        self.device.clone()
    }

    fn weight_bytes(&self) -> u64 {
        self.weights.bytes()
    }

    fn staging_bytes(&self) -> u64 {
        self.weights.staging()
    }

    fn digest(&self) -> u64 {
        self.weights.digest()
    }

    fn taken(&self) -> [u64; 2] {
        self.device.context.taken()
    }

    fn new_sequence(&self, spec: &SequenceSpec) -> Result<Box<dyn GpuSequence>> {
        Ok(Box::new(CudaSequence::new(&self.device.context, &self.device.stream, spec)?))
    }

    fn load_adapter(&self, sources: &[&dyn MatrixSource], products: &[LowRank]) -> Result<Arc<dyn GpuAdapter>> {
        Ok(Arc::new(CudaAdapter::new(&self.device.context, sources, products)?))
    }

    fn new_executor(self: Arc<Self>, program: &Arc<Program>, limits: StepLimits) -> Result<Box<dyn GpuExecutor>> {
        Ok(Box::new(CudaExecutor::new(self, program, limits)?))
    }

    fn new_transfer(&self, to: &dyn GpuModel, bytes: usize) -> Result<Option<Box<dyn Transfer>>> {
        let Some(to) = (to as &dyn Any).downcast_ref::<CudaModel>() else { return Ok(None) };
        Ok(Some(Box::new(CudaTransfer::new(&self.device.context, &to.device.context, bytes)?)))
    }

    fn new_host_transfer(&self, values: [usize; 2]) -> Result<Box<dyn HostTransfer>> {
        Ok(Box::new(CudaHostTransfer::new(&self.device.context, values)?))
    }

    fn new_piece_stream(&self, bytes: usize) -> Result<Box<dyn PieceStream>> {
        Ok(Box::new(CudaPieceStream::new(&self.device.context, bytes)?))
    }
}
