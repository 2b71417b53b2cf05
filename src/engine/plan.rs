//! The memory that a model will take: made like a load, but for the weights, and measured by the allocator.

use std::path::Path;
use std::sync::Arc;

use super::cache::CacheParams;
use super::model::{LoadParams, Model};
use super::session::Session;
use crate::backend::DeviceKind;
use crate::error::Result;
use crate::format::{ByteSource, Source};
use crate::memory::{held, with_peak};

/// Bytes of a model and its caches.
#[derive(Clone, Copy, Default, Debug)]
pub struct Plan {
    pub weights: u64,
    /// One cache with room for all its tokens.
    pub cache: u64,
    /// Keys and values of a token.
    pub cache_token: u64,
    pub scratch: u64,
    pub load_peak: u64,
    pub total: u64,
}

impl Plan {
    /// Plans the load of a file or a folder, and of some caches.
    pub fn of_path(path: &Path, params: LoadParams, cache: &CacheParams, n_caches: u32) -> Result<Plan> {
        Plan::new(params, cache, n_caches, |params| Model::open(params, |access| Source::open(path, access)))
    }

    pub fn of_sources(sources: &[ByteSource], params: LoadParams, cache: &CacheParams, n_caches: u32) -> Result<Plan> {
        Plan::new(params, cache, n_caches, |params| Model::open(params, |access| Source::open_from(sources, access)))
    }

    fn new(
        params: LoadParams,
        cache: &CacheParams,
        n_caches: u32,
        open: impl FnOnce(LoadParams) -> Result<Arc<Model>>,
    ) -> Result<Plan> {
        let before = held();
        let (model, opening) = with_peak(|| open(LoadParams { plan: true, ..params }));
        let model = model?;
        let mut made = before;
        let mut taken = || {
            let last = std::mem::replace(&mut made, held());
            u64::try_from(made - last).unwrap_or(0)
        };
        let rest = taken();
        let backend = model.backend()?;
        let on_host = backend.weight_bytes().filter(|(kind, _)| *kind == DeviceKind::Cpu);
        let weights: u64 = on_host.map(|(_, bytes)| bytes).sum();
        // Vectors are there already.
        let packed = weights.saturating_sub(backend.vector_bytes());
        let session = Session::new(&model, cache)?;
        let cache = taken();
        let cache_token = session.token_bytes();
        let executor = model.new_executor(model.program()?, model.limits()?)?;
        let predictor = model.predictor().ok();
        let beside = predictor.map(|predictor| model.new_executor(&predictor.program, predictor.limits)).transpose()?;
        let scratch = taken();
        drop((executor, beside, session));
        let model_bytes = rest + packed;
        Ok(Plan {
            weights,
            cache,
            cache_token,
            scratch,
            load_peak: (model_bytes + backend.staging_bytes()).max(u64::try_from(opening).unwrap_or(0)),
            total: model_bytes + scratch + cache * u64::from(n_caches),
        })
    }
}
