use crate::error::Result;

pub struct CudaKv;
impl CudaKv {
    pub fn bytes(&self) -> u64 {
        0
    }
    pub fn fork(&self, _l: usize) -> Result<CudaKv> {
        Ok(CudaKv)
    }
}
