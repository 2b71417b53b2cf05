//! A loaded model: opens the file, picks architecture and backend. Shared and immutable after load.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::metrics::{Metrics, Phase};
use super::session::{self, CacheParams};
use super::{Cancel, LogLevel, Reservation, Runtime, RuntimeParams};
use crate::backend::split::{Plan, Split};
use crate::backend::{self, Backend, Batch, DeviceKind, Exec, KvSpec, Needs, Options};
use crate::error::{Error, Result};
use crate::format::{Access, Metadata, Source};
use crate::model::arch;
use crate::model::config::Config;
use crate::model::decoder::Forward;
use crate::model::weights::{self, Network};
use crate::quant;
use crate::text::{ChatTemplate, Tokenizer};

/// The processors of the host as a device.
const CPU: u32 = 1;
/// Tokens of a prompt that go through the network together, at most.
const MAX_STEP_TOKENS: usize = 512;
/// Scratch for them on the CPU, at most: wide models take fewer tokens at a time.
const STEP_BYTES: usize = 24 << 20;
/// Sequences whose logits one step can give.
pub(super) const MAX_STEP_OUTPUTS: usize = 64;

#[derive(Default)]
pub struct LoadParams<'a> {
    /// `None`: a runtime of its own with default parameters.
    pub runtime: Option<Arc<Runtime>>,
    /// 0: chosen here; n: entry n - 1 of `devices()`.
    pub device: u32,
    pub deterministic: bool,
    pub mmap: bool,
    pub text_only: bool,
    /// Measure the parts of steps on a GPU.
    pub profile: bool,
    /// Layers on a GPU, where the device is one, the last ones; 0: as many as fit.
    pub gpu_layers: u32,
    /// GGML type that float matrices are converted to; 0: none.
    pub quantize: u32,
    /// Called with bytes done and in all; false stops the load.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
    pub cancel: Option<&'a Cancel>,
}

/// What a host asks about a model.
#[derive(Clone, Debug, Default)]
pub struct ModelInfo {
    pub architecture: String,
    pub name: String,
    pub n_layers: u32,
    pub hidden_dim: u32,
    pub ffn_dim: u32,
    pub n_heads: u32,
    pub n_kv_heads: u32,
    pub head_dim: u32,
    pub vocab_size: u32,
    pub context_length: u32,
    pub n_params: u64,
    /// In memory, as packed.
    pub weight_bytes: u64,
    /// Index of its device, from 1.
    pub device: u32,
    /// Layers on a GPU.
    pub gpu_layers: u32,
    pub bos_token: Option<u32>,
    pub eos_token: Option<u32>,
}

pub struct Model {
    runtime: Arc<Runtime>,
    info: ModelInfo,
    metadata: Metadata,
    tokenizer: Result<Tokenizer, String>,
    chat_template: Option<ChatTemplate>,
    metrics: Metrics,
    /// `None` where only the text side was loaded.
    compute: Option<Compute>,
}

/// The network on its device.
struct Compute {
    network: Network,
    backend: Arc<dyn Backend>,
    execs: Execs,
    max_tokens: usize,
    /// Layers on a GPU, the last ones.
    gpu_layers: usize,
    _memory: Reservation,
}

impl Model {
    pub fn load(path: &Path, mut params: LoadParams) -> Result<Arc<Model>> {
        let started = Instant::now();
        let runtime = match params.runtime.take() {
            Some(runtime) => runtime,
            None => Runtime::new(RuntimeParams::default())?,
        };
        Cancel::check(&[params.cancel])?;
        let mut source = Source::open(path, if params.mmap { Access::Map } else { Access::Read })?;
        let config = match arch::config(&source) {
            Ok(config) => Some(config),
            Err(_) if params.text_only => None,
            Err(e) => return Err(in_file(path, e)),
        };
        let tokenizer = tokenizer(&mut source.metadata, path)?;
        let chat_template = match &tokenizer {
            Ok(t) => ChatTemplate::from_metadata(&source.metadata, t)?,
            Err(_) => None,
        };
        let mut info = match &config {
            Some(config) => describe(config, &source),
            None => ModelInfo::default(),
        };
        if let Ok(t) = &tokenizer {
            if config.is_some() && !params.text_only && t.n_vocab() > info.vocab_size as usize {
                let what = format!("{} tokens in the vocabulary, {} rows of embeddings", t.n_vocab(), info.vocab_size);
                return Err(Error::format(path, what));
            }
            (info.bos_token, info.eos_token) = (t.bos(), t.eos());
            info.vocab_size = info.vocab_size.max(t.n_vocab() as u32);
        }
        let compute = match config {
            Some(config) if !params.text_only => {
                let device = if params.device == 0 { backend::default_device() } else { params.device };
                let compute = Compute::load(&runtime, &source, config, &mut params, device)?;
                let on_gpu = compute.gpu_layers;
                if compute.backend.device().kind == DeviceKind::Cuda && on_gpu < info.n_layers as usize {
                    let what = format!("{on_gpu} of {} layers are on {}", info.n_layers, compute.backend.device().name);
                    runtime.log(LogLevel::Info, &what);
                }
                info.weight_bytes = compute.backend.weight_bytes();
                info.device = device;
                info.gpu_layers = compute.gpu_layers as u32;
                Some(compute)
            }
            _ => None,
        };
        if let Some(compute) = &compute {
            let summary = summary(&info, &source, &compute.backend.device().name);
            runtime.log(LogLevel::Info, &format!("{summary}: {}", path.display()));
        }
        if let Err(why) = &tokenizer {
            runtime.log(LogLevel::Warning, &format!("no tokenizer: {why}: {}", path.display()));
        }
        let metrics = Metrics::new();
        metrics.record_phase(Phase::Load, started.elapsed());
        let metadata = source.metadata;
        Ok(Arc::new(Model { runtime, info, metadata, tokenizer, chat_template, metrics, compute }))
    }

    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().map_err(|why| Error::unsupported(format!("the model has no usable tokenizer: {why}")))
    }

    /// Whether a token ends a turn or a text.
    pub(super) fn ends(&self, token: u32) -> bool {
        self.tokenizer.as_ref().is_ok_and(|t| t.is_end(token))
    }

    /// The text of a chat, messages being pairs of role and content, as the model was trained to see it.
    pub fn render_chat(&self, messages: &[(&str, &str)], add_generation_prompt: bool) -> Result<String> {
        let template = self.chat_template.as_ref();
        let template = template.ok_or_else(|| Error::unsupported("the model has no chat template"))?;
        template.render(messages, add_generation_prompt, &serde_json::Map::new())
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    fn compute(&self) -> Result<&Compute> {
        self.compute.as_ref().ok_or_else(|| Error::invalid("the model was loaded without its weights"))
    }

    pub(super) fn config(&self) -> Result<&Config> {
        Ok(&self.compute()?.network.config)
    }

    pub(super) fn new_kv(&self, spec: &KvSpec) -> Result<Box<dyn backend::Kv>> {
        self.compute()?.backend.new_kv(spec)
    }

    /// Tokens that one step can take.
    pub(super) fn max_step_tokens(&self) -> Result<usize> {
        Ok(self.compute()?.max_tokens)
    }

    /// Runs one step; `after` reads its results while they are on the device.
    pub(super) fn forward<T>(
        &self,
        batch: &mut Batch,
        cancels: &[Option<&Cancel>],
        after: impl FnOnce(&mut dyn Exec) -> Result<T>,
    ) -> Result<T> {
        let started = Instant::now();
        let (result, first_share) = self.perform(|exec| {
            self.run(exec, batch, cancels)?;
            Ok((after(exec)?, exec.first_share()))
        })?;
        self.record(started.elapsed(), first_share)?;
        Ok(result)
    }

    /// Lends a performer of steps to `work`.
    pub(super) fn perform<T>(&self, work: impl FnOnce(&mut dyn Exec) -> Result<T>) -> Result<T> {
        let compute = self.compute()?;
        let mut exec = compute.execs.take(|| compute.new_exec())?;
        let result = work(exec.get());
        let ended = exec.get().end();
        self.metrics.record_parts(&exec.get().times());
        result.and_then(|value| ended.map(|()| value))
    }

    /// Gives a step to a performer.
    pub(super) fn run(&self, exec: &mut dyn Exec, batch: &mut Batch, cancels: &[Option<&Cancel>]) -> Result<()> {
        let mut forward = Forward::begin(&self.compute()?.network, exec, batch)?;
        loop {
            Cancel::check(cancels)?;
            if !forward.step(exec, batch)? {
                return Ok(());
            }
        }
    }

    /// Counts a step, of which the first of two devices that share the layers had its part.
    pub(super) fn record(&self, latency: Duration, first_share: Duration) -> Result<()> {
        let shares = [latency.saturating_sub(first_share), first_share];
        for (part, share) in parts(&self.compute()?.backend).iter().rev().zip(shares) {
            self.metrics.record_dispatch(part.device().kind, share, part.weight_bytes());
        }
        Ok(())
    }
}

impl Compute {
    fn load(
        runtime: &Arc<Runtime>,
        source: &Source,
        config: Config,
        params: &mut LoadParams,
        device: u32,
    ) -> Result<Compute> {
        let options = Options { fixed: params.deterministic, profile: params.profile };
        let mut backend = backend::open(device, &runtime.pool, options)?;
        let limits = weights::Limits { weight_bytes: runtime.memory_left() };
        let cancel = params.cancel;
        let progress = &mut params.progress;
        let mut report = |done: u64, total: u64| {
            Cancel::check(&[cancel])?;
            match progress.as_mut().is_none_or(|p| p(done, total)) {
                true => Ok(()),
                false => Err(Error::Cancelled),
            }
        };
        let quantize = (params.quantize != 0).then_some(crate::tensor::DType(params.quantize));
        let (widths, n_layers) = (config.widths(), config.layers.len());
        let (network, backend, gpu_layers) = match backend.device().kind {
            DeviceKind::Cpu => {
                let network = weights::load(source, config, backend.as_mut(), quantize, &limits, &mut report)?;
                (network, Arc::from(backend), 0)
            }
            DeviceKind::Cuda => {
                let needs = Needs {
                    kv: session::kv_spec(&config, &CacheParams::default(), MAX_STEP_TOKENS)?,
                    widths,
                    head_dim: config.head_dim,
                    max_tokens: MAX_STEP_TOKENS,
                    max_outputs: MAX_STEP_OUTPUTS,
                };
                let wanted = (params.gpu_layers != 0).then_some(params.gpu_layers as usize);
                let mut split = Split::new(
                    backend::open(CPU, &runtime.pool, options)?,
                    backend,
                    Plan { layers: n_layers, second: wanted, needs },
                );
                let network = weights::load(source, config, &mut split, quantize, &limits, &mut report)?;
                let (backend, gpu_layers) = split.finish();
                (network, backend, gpu_layers)
            }
        };
        let on_host = parts(&backend).iter().filter(|part| part.device().kind == DeviceKind::Cpu);
        let memory = runtime.reserve("the model's weights", on_host.map(|part| part.weight_bytes()).sum())?;
        let per_token = 4 * (3 * widths.hidden + 2 * (widths.q + widths.kv) + 2 * widths.ffn.max(widths.expert_ffn));
        let max_tokens = match gpu_layers == n_layers {
            true => MAX_STEP_TOKENS,
            false => (STEP_BYTES / per_token).clamp(32, MAX_STEP_TOKENS) / 32 * 32,
        };
        // Workers are shared by all steps, so a second step would only wait with scratch of its own.
        let limit = if runtime.pool.threads() > 1 { 1 } else { usize::MAX };
        let execs = Execs::new(limit);
        Ok(Compute { network, backend, execs, max_tokens, gpu_layers, _memory: memory })
    }

    fn new_exec(&self) -> Result<Box<dyn Exec>> {
        let config = &self.network.config;
        self.backend.clone().new_exec(&config.widths(), config.head_dim, self.max_tokens, MAX_STEP_OUTPUTS)
    }
}

/// The two that a model is divided between, or the one.
fn parts(backend: &Arc<dyn Backend>) -> &[Arc<dyn Backend>] {
    match backend.parts() {
        [] => std::slice::from_ref(backend),
        parts => parts,
    }
}

/// Performers of steps that wait for work, made as they are needed.
struct Execs {
    state: Mutex<ExecState>,
    returned: Condvar,
    limit: usize,
}

struct ExecState {
    idle: Vec<Box<dyn Exec>>,
    made: usize,
}

impl Execs {
    fn new(limit: usize) -> Execs {
        Execs { state: Mutex::new(ExecState { idle: Vec::new(), made: 0 }), returned: Condvar::new(), limit }
    }

    fn take(&self, make: impl FnOnce() -> Result<Box<dyn Exec>>) -> Result<ExecGuard<'_>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(exec) = state.idle.pop() {
                return Ok(ExecGuard { execs: self, exec: Some(exec) });
            }
            if state.made < self.limit {
                break;
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.made += 1;
        drop(state);
        // The guard gives the place back should `make` fail.
        let mut guard = ExecGuard { execs: self, exec: None };
        guard.exec = Some(make()?);
        Ok(guard)
    }
}

struct ExecGuard<'a> {
    execs: &'a Execs,
    exec: Option<Box<dyn Exec>>,
}

impl ExecGuard<'_> {
    fn get(&mut self) -> &mut dyn Exec {
        self.exec.as_mut().expect("present until the guard is dropped").as_mut()
    }
}

impl Drop for ExecGuard<'_> {
    fn drop(&mut self) {
        // What a panic interrupted is in an unknown state.
        let exec = self.exec.take().filter(|_| !std::thread::panicking());
        let mut state = self.execs.state.lock().unwrap_or_else(PoisonError::into_inner);
        match exec {
            Some(exec) => state.idle.push(exec),
            None => state.made -= 1,
        }
        drop(state);
        self.execs.returned.notify_one();
    }
}

/// A tokenizer that is not supported leaves the model usable by ids; a damaged one is an error.
fn tokenizer(metadata: &mut Metadata, path: &Path) -> Result<Result<Tokenizer, String>> {
    if !["tokenizer.ggml.model", "tokenizer.huggingface.json"].iter().any(|key| metadata.get(key).is_some()) {
        return Ok(Err("the file holds none".to_owned()));
    }
    match Tokenizer::from_metadata(metadata) {
        Ok(t) => Ok(Ok(t)),
        Err(Error::Unsupported(why)) => Ok(Err(why)),
        Err(e) => Err(in_file(path, e)),
    }
}

/// Names the file in errors that know only a key or a value.
fn in_file(path: &Path, e: Error) -> Error {
    match e {
        Error::InvalidArgument(what) => Error::format(path, what),
        Error::Unsupported(what) => Error::unsupported(format!("{what}: {}", path.display())),
        other => other,
    }
}

/// One line for the log: the network, its layers, its types of tensors with their numbers, its device.
fn summary(info: &ModelInfo, source: &Source, device: &str) -> String {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in source.tensors() {
        *types.entry(quant::format(tensor.dtype).map_or("?", |format| format.name)).or_default() += 1;
    }
    let types: Vec<String> = types.iter().map(|(name, n)| format!("{n} {name}")).collect();
    format!("{}, {} layers, {} on {device}", info.architecture, info.n_layers, types.join(" + "))
}

fn describe(config: &Config, source: &Source) -> ModelInfo {
    ModelInfo {
        architecture: config.architecture.clone(),
        name: config.name.clone(),
        n_layers: config.layers.len() as u32,
        hidden_dim: config.hidden as u32,
        ffn_dim: config.ffn as u32,
        n_heads: config.n_heads as u32,
        n_kv_heads: config.n_kv_heads as u32,
        head_dim: config.head_dim as u32,
        vocab_size: config.vocab as u32,
        context_length: config.context_length,
        n_params: source.tensors().map(|t| t.shape.n_elements()).fold(0, u64::saturating_add),
        ..ModelInfo::default()
    }
}
