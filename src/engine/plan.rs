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
    /// Layers on a GPU.
    pub gpu_layers: u32,
    pub weights: Bytes,
    /// One cache with room for all its tokens.
    pub cache: Bytes,
    /// Keys and values of a token.
    pub cache_token: u64,
    pub scratch: Bytes,
    /// Bytes of the host.
    pub load_peak: u64,
    pub total: Bytes,
}

/// Bytes of the host and of a GPU.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd, Debug)]
pub struct Bytes {
    pub host: u64,
    pub device: u64,
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
        let backend = model.backend()?;
        let mut made = (before, [0; 2]);
        let mut taken = || {
            let (held_before, [device_before, pinned_before]) = std::mem::replace(&mut made, (held(), backend.taken()));
            let (held, [device, pinned]) = made;
            let host = u64::try_from(held - held_before).unwrap_or(0) + (pinned - pinned_before);
            Bytes { host, device: device - device_before }
        };
        let rest = taken();
        let on_host = backend.weight_bytes().filter(|(kind, _)| *kind == DeviceKind::Cpu);
        let on_host: u64 = on_host.map(|(_, bytes)| bytes).sum();
        // Vectors are there already.
        let packed = on_host.saturating_sub(backend.vector_bytes());
        let session = Session::new(&model, cache)?;
        let cache = taken();
        let cache_token = session.token_bytes()?;
        let executor = model.new_executor(model.program()?, model.limits()?)?;
        let predictor = model.predictor().ok();
        let beside = predictor.map(|predictor| model.new_executor(&predictor.program, predictor.limits)).transpose()?;
        let scratch = taken();
        drop((executor, beside, session));
        let model_bytes = rest.host + packed;
        let total = |rest: u64, scratch: u64, cache: u64| rest + scratch + cache * u64::from(n_caches);
        Ok(Plan {
            gpu_layers: model.info().gpu_layers,
            weights: Bytes { host: on_host, device: rest.device },
            cache,
            cache_token,
            scratch,
            load_peak: (model_bytes + backend.staging_bytes()).max(u64::try_from(opening).unwrap_or(0)),
            total: Bytes {
                host: total(model_bytes, scratch.host, cache.host),
                device: total(rest.device, scratch.device, cache.device),
            },
        })
    }
}
