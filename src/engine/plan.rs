//! Predicts the memory of a model: runs a load without weights and measures the allocator.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::cache::{CacheParams, state_spec};
use super::load_params::LoadParams;
use super::model::Model;
use super::session::Session;
use crate::cpu::kv::CpuKv;
use crate::device::DeviceKind;
use crate::error::{Error, Result};
use crate::format::{ByteSource, Source};
use crate::memory::{held, with_peak};

/// Granularity, in tokens, of the small cache that is measured.
const SMALL: usize = 4096;

/// Bytes of a model and its caches.
#[derive(Clone, Default, Debug)]
pub struct Plan {
    /// Number of layers on GPUs.
    pub gpu_layers: u32,
    pub weights: Bytes,
    /// One cache at full context length.
    pub cache: Bytes,
    /// KV cache bytes per token.
    pub cache_token: u64,
    pub scratch: Bytes,
    /// Peak host bytes of the load.
    pub load_peak: u64,
    pub total: Bytes,
    /// Bytes per GPU, in layer order.
    pub gpus: Vec<GpuPlan>,
    /// Range from the first to the last GPU layer with experts on the CPU, and bytes of the experts of all GPU layers.
    pub expert_layers: Range<u32>,
    pub experts: Bytes,
}

/// Bytes of one GPU.
#[derive(Clone, Copy, Default, PartialEq, Debug)]
pub struct GpuPlan {
    /// Device index, from 1.
    pub device: u32,
    pub layers: u32,
    pub weights: u64,
    pub cache: u64,
    pub scratch: u64,
    /// Memory that is allocated when steps of one token repeat, at most.
    pub graphs: u64,
    pub total: u64,
}

/// Bytes of the host and of all GPUs.
#[derive(Clone, Copy, Default, PartialEq, PartialOrd, Debug)]
pub struct Bytes {
    pub host: u64,
    pub device: u64,
}

/// Measured bytes that a load keeps after probing a short chat template.
const FOUND: u64 = 33 << 10;

impl Plan {
    /// Plans the load of a file or a folder, and `n_caches` caches.
    pub fn of_path<'a>(
        path: &Path,
        params: impl Into<LoadParams<'a>>,
        cache: &CacheParams,
        n_caches: u32,
    ) -> Result<Plan> {
        Plan::new(params.into(), cache, n_caches, |params| Model::open(params, |access| Source::open(path, access)))
    }

    pub fn of_sources<'a>(
        sources: &[ByteSource],
        params: impl Into<LoadParams<'a>>,
        cache: &CacheParams,
        n_caches: u32,
    ) -> Result<Plan> {
        Plan::new(params.into(), cache, n_caches, |params| {
            Model::open(params, |access| Source::open_from(sources, access))
        })
    }

    /// Plans a load by `open`.
    fn new(
        mut params: LoadParams,
        cache: &CacheParams,
        n_caches: u32,
        open: impl FnOnce(LoadParams) -> Result<Arc<Model>>,
    ) -> Result<Plan> {
        params.options.plan = true;
        let before = held();
        let (model, opening) = with_peak(|| open(params));
        let model = model?;
        let network = model.network()?.clone();
        let backend = &network.backend;
        let mut made = (before, vec![[0; 2]; model.info().gpus.len()]);
        // Returns the bytes taken on the host and on each GPU since the last call.
        let mut taken = || {
            let (held_before, gpus_before) = std::mem::replace(&mut made, (held(), backend.taken()));
            let mut host = u64::try_from(made.0 - held_before).unwrap_or(0);
            let mut on_gpus = Vec::with_capacity(gpus_before.len());
            for ([device, pinned], [device_before, pinned_before]) in made.1.iter().zip(gpus_before) {
                host += pinned.saturating_sub(pinned_before);
                on_gpus.push(device.saturating_sub(device_before));
            }
            (Bytes { host, device: on_gpus.iter().sum() }, on_gpus)
        };
        let (rest, weights_on) = taken();
        let on_host = backend.weight_bytes().filter(|(kind, _)| *kind == DeviceKind::Cpu);
        let on_host: u64 = on_host.map(|(_, bytes)| bytes).sum();
        // Vectors are loaded already.
        let packed = on_host.saturating_sub(backend.vector_bytes());
        let (session, (cache, cache_on)) = match Session::new(&model, cache) {
            // If the cache does not fit this machine: measure a smaller one, longer than all attention windows, and add
            // the bytes per token.
            Err(Error::OutOfMemory { .. }) => {
                let spec = state_spec(&network.program, network.context_length, cache, network.limits);
                let windows = (0..spec.layers.len()).filter(|&i| spec.layers[i].window > 0);
                let beyond = windows.map(|i| spec.kept(i)).max().unwrap_or(0).saturating_add(1);
                let capacity = spec.capacity.min(beyond.next_multiple_of(SMALL)) as u32;
                taken();
                let session = Session::new(&model, &CacheParams { capacity, ..*cache })?;
                let (mut bytes, mut on_gpus) = taken();
                let more = spec.capacity as u64 - u64::from(capacity);
                let grow = |bytes: &mut u64, by: u64| *bytes = more.saturating_mul(by).saturating_add(*bytes);
                let state = session.sequence();
                let host = state.cpu_kv().map_or(0, CpuKv::token_bytes) + size_of::<u32>() as u64;
                grow(&mut bytes.host, host);
                for (on_gpu, kv) in on_gpus.iter_mut().zip(state.gpus()) {
                    grow(on_gpu, kv.token_bytes()?);
                }
                bytes.device = on_gpus.iter().sum();
                (session, (bytes, on_gpus))
            }
            session => (session?, taken()),
        };
        let cache_token = session.token_bytes()?;
        let executor = network.new_executor(&network.program, network.limits)?;
        let predictor = network.predictor().ok();
        let draft = predictor.map(|of| network.executor_on(&of.backend, &of.program, of.limits)).transpose()?;
        let (scratch, scratch_on) = taken();
        let mut graphs_on = vec![0; scratch_on.len()];
        for executor in [Some(&executor), draft.as_ref()].into_iter().flatten() {
            graphs_on.iter_mut().zip(executor.step.executor.graph_bytes()).for_each(|(sum, bytes)| *sum += bytes);
        }
        drop((executor, draft, session));
        // A load renders conversations after loading the weights.
        let [rendering, found] = model.chat_template().map_or([0, 0], |template| [template.reserve() as u64, FOUND]);
        let model_bytes = rest.host + packed + found;
        let total =
            |rest: u64, scratch: u64, cache: u64| cache.saturating_mul(n_caches.into()).saturating_add(rest + scratch);
        let part = |(i, &(device, layers)): (usize, &(u32, u32))| {
            let (weights, cache, scratch, graphs) = (weights_on[i], cache_on[i], scratch_on[i], graphs_on[i]);
            let total = total(weights, scratch + graphs, cache);
            GpuPlan { device, layers, weights, cache, scratch, graphs, total }
        };
        let (expert_layers, [host, device]) = model.info().experts.clone();
        Ok(Plan {
            expert_layers,
            experts: Bytes { host, device },
            gpus: model.info().gpus.iter().enumerate().map(part).collect(),
            gpu_layers: model.info().gpu_layers,
            weights: Bytes { host: on_host, device: rest.device },
            cache,
            cache_token,
            scratch,
            load_peak: (model_bytes + backend.staging_bytes().max(rendering)).max(u64::try_from(opening).unwrap_or(0)),
            total: Bytes {
                host: total(model_bytes, scratch.host, cache.host),
                device: total(rest.device, scratch.device + graphs_on.iter().sum::<u64>(), cache.device),
            },
        })
    }
}
