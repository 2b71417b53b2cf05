use super::batch::{Batch, StepLimits};
use super::op::Act;
use super::program::Program;
use super::state_spec::StateSpec;
use super::weights::{MatrixSource, Progress, Weights};
use super::{DeviceInfo, Times};
use crate::error::{Error, Result};
use std::ops::Range;
use std::sync::Arc;
pub fn devices() -> Vec<DeviceInfo> {
    vec![]
}
pub fn open(_ordinal: i32, _o: bool, _p: bool) -> Result<CudaDevice> {
    Err(Error::unsupported("stub"))
}
pub struct CudaDevice {
    info: DeviceInfo,
}
impl CudaDevice {
    pub fn info(&self) -> &DeviceInfo {
        &self.info
    }
    pub fn weight_bytes(&self, _w: &Weights) -> Result<u64> {
        Ok(0)
    }
    pub fn working_bytes(&self, _p: &Program, _w: &Weights, _s: &StateSpec, _l: StepLimits) -> Result<u64> {
        Ok(0)
    }
    pub fn load(self, _p: &Arc<Program>, _w: &Weights, _pr: &mut Progress) -> Result<CudaModel> {
        Ok(CudaModel { info: self.info })
    }
}
pub struct CudaModel {
    info: DeviceInfo,
}
impl CudaModel {
    pub fn device(&self) -> &DeviceInfo {
        &self.info
    }
    pub fn weight_bytes(&self) -> u64 {
        0
    }
    pub fn new_kv(&self, _s: &StateSpec) -> Result<CudaKv> {
        Ok(CudaKv)
    }
}
pub struct CudaKv;
impl CudaKv {
    pub fn bytes(&self) -> u64 {
        0
    }
    pub fn fork(&self, _l: usize) -> Result<CudaKv> {
        Ok(CudaKv)
    }
}
pub struct CudaExecutor;
impl CudaExecutor {
    pub fn new(_m: Arc<CudaModel>, _p: &Arc<Program>, _l: StepLimits) -> Result<CudaExecutor> {
        Ok(CudaExecutor)
    }
    pub fn begin(&mut self, _b: &Batch, _o: Range<usize>) -> Result<()> {
        Ok(())
    }
    pub fn advance(&mut self, _b: &mut Batch, _s: &dyn Fn() -> bool) -> Result<bool> {
        Ok(true)
    }
    pub fn argmax(&mut self, _i: usize) -> Result<u32> {
        Ok(0)
    }
    pub fn read_logits(&mut self, _i: usize, _o: &mut [f32]) -> Result<()> {
        Ok(())
    }
    pub fn write(&mut self, _a: Act, _v: &[f32]) -> Result<()> {
        Ok(())
    }
    pub fn read(&mut self, _a: Act, _o: &mut [f32]) -> Result<()> {
        Ok(())
    }
    pub fn end(&mut self) -> Result<()> {
        Ok(())
    }
    pub fn times(&mut self) -> Times {
        Times::default()
    }
    pub fn ahead(&self) -> usize {
        0
    }
    pub fn submit(&mut self) -> Result<()> {
        Ok(())
    }
    pub fn collect(&mut self) -> Result<u32> {
        Ok(0)
    }
    pub fn follows(&self) -> bool {
        false
    }
}
