//! The network of a model on its devices: the program, the weights, and the pools of executors.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::embedder::Embedder;
use super::executors::{Acquired, Counted, Executors};
use super::observed::{End, Observed};
use super::predictor::Predictor;
use super::step::Step;
use crate::device::{Backend, CPU_DEVICE, DeviceKind, Executor, Load, Sequence, StepBudget};
use crate::engine::cache::{self, CacheParams};
use crate::engine::cancel::Cancel;
use crate::engine::load_params::LoadParams;
use crate::engine::metrics::Metrics;
use crate::engine::runtime::{LogLevel, Reservation, Runtime};
use crate::error::{Error, Result};
use crate::graph::load_options::LoadOptions;
use crate::graph::op::TensorId;
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::{StepLimits, separable};
use crate::model::adapter::Adaptable;
use crate::model::{self, PredictorOf};
use crate::sampling::SamplingRule;

/// Maximum number of prompt tokens in a step.
const MAX_STEP_TOKENS: usize = 512;
/// Maximum number of prompt tokens in a step of a job on the CPU: large enough to amortize dequantized weights.
const JOB_STEP_TOKENS: usize = 256;
/// Maximum number of prompt tokens in a step of a call on the CPU while other calls wait.
const SHARED_STEP_TOKENS: usize = 128;
/// Default maximum number of prompt tokens in a step that also decodes, because decode latency grows with them.
const MIXED_PREFILL_TOKENS: usize = 64;
/// Bytes of scratch memory of a step on the CPU, at most; wide models get smaller steps.
const STEP_BYTES: usize = 24 << 20;
/// Minimum step size of models with bidirectional attention within an image: 256 image rows, plus decode tokens.
const MUTUAL_STEP_TOKENS: usize = 320;
/// Maximum number of outputs of a step; `Pass` has a bit for each.
const MAX_STEP_OUTPUTS: usize = 64;

/// Returns the load options, with the device that the network must be loaded to. KV caches on a GPU are visible only
/// within the context of their model, so a draft head that reads another model's KV cache is loaded on the CPU, and
/// `Network::copy_for` copies it to the target's device.
fn on_device<'a>(options: &LoadOptions<'a>, predictor: Option<&model::Predictor>) -> Result<LoadOptions<'a>> {
    match predictor.map(|predictor| &predictor.of) {
        Some(PredictorOf::SharedKv(_)) if options.named_devices().iter().all(|device| *device == CPU_DEVICE) => {
            Ok(LoadOptions { device: CPU_DEVICE, devices: &[], ..*options })
        }
        Some(PredictorOf::SharedKv(_)) => {
            let what =
                "a draft head that reads another model's cache cannot be loaded on a GPU: load it on the CPU, device 1";
            Err(Error::unsupported(format!("{what}; it drafts on the device of that model")))
        }
        _ => Ok(*options),
    }
}

pub struct Network {
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    pub program: Arc<Program>,
    pub backend: Backend,
    /// The range from the first to the last GPU layer whose experts are on the host, and the bytes of the experts of
    /// all GPU layers: on the host, on the GPUs.
    pub experts: (Range<usize>, [u64; 2]),
    executors: Executors,
    /// Maximum number of tokens and of outputs of a step.
    pub limits: StepLimits,
    /// Maximum number of prompt tokens in a step that also decodes.
    pub mixed_prefill_tokens: usize,
    /// True if the network uses M-RoPE: positions in time, row and column.
    pub has_rope_positions: bool,
    /// True if the rows of an image attend to each other in both directions.
    pub is_mutual: bool,
    /// True if the network has no weights for media rows.
    pub text_only_weights: bool,
    /// True if texts to embed are padded.
    pub fills_texts: bool,
    /// True if each text begins with an encoder output (encoder-decoder models).
    pub reads_source: bool,
    /// The context length that the file declares.
    pub context_length: u32,
    /// True if results are batch-invariant: bit-identical whatever other tokens are in the step.
    pub is_batch_invariant: bool,
    /// Tokens that are never sampled.
    pub suppressed: Vec<u32>,
    pub embedder: Embedder,
    /// The MTP head, if the load requested it. If the network was loaded from the file of a draft head, this is the
    /// head.
    predictor: Option<Predictor>,
    hidden: usize,
    /// The program that keeps hidden states for draft heads; `None` without such heads.
    observed: Mutex<Option<Arc<Observed>>>,
    ends: OnceLock<[Option<End>; 2]>,
    /// Copies, on this network's device, of draft heads that read its KV cache.
    copies: Mutex<Vec<(Weak<Network>, Backend)>>,
    /// The networks that have a copy of this draft head.
    targets: Mutex<Vec<Weak<Network>>>,
    /// The matrices that LoRA adapters can apply to.
    pub adaptable: Adaptable,
    /// True for a plan, which has no weights and does not count against the memory limit.
    is_plan: bool,
    _memory: Reservation,
}

/// Logs why packed weights are in memory instead of the requested file.
fn warn_of_memory(runtime: &Runtime, why: Option<&Error>) {
    if let Some(why) = why {
        runtime.log(LogLevel::Warning, &format!("the packed weights are kept in memory: {why}"));
    }
}

impl Network {
    /// Loads the weights. `files` identifies the weight files.
    pub fn load(
        runtime: &Arc<Runtime>,
        metrics: &Arc<Metrics>,
        network: model::Network,
        suppressed: &[u32],
        files: u64,
        params: &mut LoadParams,
    ) -> Result<Network> {
        let (cancel, progress) = (params.cancel, &mut params.progress);
        let mut report = |done: u64, total: u64| {
            Cancel::check(&[cancel])?;
            match progress.as_mut().is_none_or(|p| p(done, total)) {
                true => Ok(()),
                false => Err(Error::Cancelled),
            }
        };
        let (program, context_length) = (Arc::new(network.program.clone()), network.hyper.context_length);
        let reads_source = program.reads_source();
        // The program of the draft head or of the encoder. Its matrices are loaded together with the main program's.
        let predictor = network.predictor.as_ref().map(|predictor| &predictor.program);
        let companion = predictor.or(reads_source.then_some(&network.states));
        let full = StepLimits { max_tokens: MAX_STEP_TOKENS, max_outputs: MAX_STEP_OUTPUTS };
        let options = on_device(&params.options, network.predictor.as_ref())?;
        let cache = cache::state_spec(&program, context_length, &CacheParams::default(), full);
        let load = Load {
            isa: params.isa,
            host_bytes: if options.plan { u64::MAX } else { runtime.memory_left() },
            files,
            companions: companion.map(|program| Arc::new(program.clone())).into_iter().collect(),
            ..Load::new(&options, full, cache)
        };
        network.states.check(&network.weights())?;
        let hidden = network.hyper.hidden;
        let has_rope_positions = network.weights().ropes.iter().any(|rope| !rope.axes.is_empty());
        let traits = network.hyper.traits;
        let is_mutual = traits.mutual_media;
        let backend = Backend::load(&program, &network.weights(), &runtime.pool, &load, &mut report)
            .map_err(|e| runtime.with_limit(e))?;
        warn_of_memory(runtime, backend.unwritten().filter(|_| !options.plan));
        let experts = backend.experts(&program, &network.weights())?;
        let on_host = backend.weight_bytes().filter(|(kind, _)| *kind == DeviceKind::Cpu);
        let on_host: u64 = on_host.map(|(_, bytes)| bytes).sum();
        let max_tokens = match backend.is_on_cpu() {
            true => {
                let least = if is_mutual { MUTUAL_STEP_TOKENS } else { 32 };
                (STEP_BYTES / (4 * program.scratch_width())).clamp(least, MAX_STEP_TOKENS) / 32 * 32
            }
            false => MAX_STEP_TOKENS,
        };
        let limits = StepLimits { max_tokens, ..full };
        let adaptable = network.adaptable()?;
        let pauses = backend.is_on_cpu();
        let embedder = Embedder::new(network.states, network.embeddings, &runtime.pool, max_tokens, pauses)?;
        let predictor = |predictor| Predictor::new(predictor, &backend, &runtime.pool, limits.max_tokens);
        let predictor = network.predictor.map(predictor).transpose()?;
        let bytes = on_host + embedder.bytes();
        let memory = runtime.reserve("the model's weights", if options.plan { 0 } else { bytes })?;
        let executors = Executors::new(&runtime.pool, limits, backend.is_on_cpu());
        let is_batch_invariant = options.deterministic || matches!(backend, Backend::Cpu(_));
        Ok(Network {
            runtime: runtime.clone(),
            metrics: metrics.clone(),
            suppressed: suppressed.to_vec(),
            program,
            backend,
            experts,
            executors,
            limits,
            mixed_prefill_tokens: match options.mixed_prefill_tokens as usize {
                0 => MIXED_PREFILL_TOKENS,
                n => n.min(limits.max_tokens),
            },
            has_rope_positions,
            is_mutual,
            text_only_weights: traits.text_only_weights,
            fills_texts: traits.fills_texts,
            reads_source,
            context_length,
            is_batch_invariant,
            embedder,
            predictor,
            hidden,
            observed: Mutex::new(None),
            ends: OnceLock::new(),
            copies: Mutex::default(),
            targets: Mutex::default(),
            adaptable,
            is_plan: options.plan,
            _memory: memory,
        })
    }

    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Sets the logits of suppressed tokens to minus infinity.
    pub fn suppress(&self, logits: &mut [f32]) {
        for &id in &self.suppressed {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    pub fn predictor(&self) -> Result<&Predictor> {
        let predictor = self.predictor.as_ref();
        predictor.ok_or_else(|| Error::unsupported("RZ_DRAFT_MTP needs a model that was loaded with RZ_MODEL_MTP"))
    }

    /// Fails if the network is a draft head for another model: such a head cannot generate text by itself.
    pub fn check_whole(&self) -> Result<()> {
        let what = "text of a head of another model, which is of use as RZ_DRAFT_MODEL alone";
        let is_whole = !self.predictor.as_ref().is_some_and(Predictor::is_of_other);
        if is_whole { Ok(()) } else { Err(Error::unsupported(what)) }
    }

    pub fn vocab(&self) -> usize {
        match &self.predictor {
            Some(Predictor { of: PredictorOf::Other(other), .. }) => other.vocab,
            _ => self.program.vocab,
        }
    }

    /// Makes passes that observe (`Pass::acquire_unqueued`) keep the inputs of `layers` for a draft head, which reads
    /// `width` values of each input. Returns the tensor of each input.
    pub fn observe(&self, layers: &[usize], width: usize) -> Result<Vec<TensorId>> {
        let n = self.program.layers.len();
        if let Some(layer) = layers.iter().find(|layer| **layer >= n) {
            let what = format!("the draft model reads the input of layer {layer}, the model has {n} layers");
            return Err(Error::Mismatch(what));
        }
        self.keep(layers, width)
    }

    /// Makes passes that observe keep the final hidden states of their outputs (the input of the output matrix).
    /// Returns the tensor of these states.
    pub fn observe_end(&self, width: usize) -> Result<TensorId> {
        let kept = self.keep(&[self.program.layers.len()], width)?;
        kept.first().copied().ok_or_else(|| Error::invalid("a head that reads nothing"))
    }

    fn keep(&self, layers: &[usize], width: usize) -> Result<Vec<TensorId>> {
        let hidden = self.hidden;
        if width != hidden {
            let what = format!("the draft model reads hidden states of {width} values, the model has {hidden}");
            return Err(Error::Mismatch(what));
        }
        let mut observed = self.observed.lock().unwrap_or_else(PoisonError::into_inner);
        let executors = || Executors::new(&self.runtime.pool, self.limits, self.backend.is_on_cpu());
        if let Some(more) = Observed::new(&self.program, observed.as_deref(), layers, hidden, executors)? {
            *observed = Some(Arc::new(more));
        }
        let states = layers.iter().map(|layer| observed.as_ref().and_then(|observed| observed.states(*layer)));
        states.collect::<Option<_>>().ok_or_else(|| Error::invalid("hidden states that are not kept"))
    }

    /// Returns the program that keeps hidden states for draft heads.
    pub fn observed(&self) -> Option<Arc<Observed>> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the embedding table and the output matrix, for draft heads that share them.
    pub fn ends(&self) -> &[Option<End>; 2] {
        let (program, backend, pool) = (&self.program, &self.backend, &self.runtime.pool);
        let new = || [End::embeddings(program, backend, pool, MAX_STEP_TOKENS), End::head(program, backend, pool)];
        self.ends.get_or_init(new)
    }

    /// Copies this network, a draft head on the CPU, to the device of `target`, whose KV cache `program` reads. All
    /// jobs share one copy on a GPU. The copy is freed with either network.
    pub fn copy_for(self: &Arc<Network>, target: &Arc<Network>, program: &Program) -> Result<Backend> {
        let mut copies = target.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, copy)) = copies.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(self))) {
            return Ok(copy.clone());
        }
        let copy = self.backend.copy_for(&target.backend, program)?;
        copies.push((Arc::downgrade(self), copy.clone()));
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|target| target.strong_count() > 0);
        targets.push(Arc::downgrade(target));
        Ok(copy)
    }

    /// Creates an executor of the network's program, or of another program with the same layers.
    pub fn new_executor(&self, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        self.executor_on(&self.backend, program, limits)
    }

    /// Creates an executor of a program on a device that has its weights.
    pub fn executor_on(&self, backend: &Backend, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        self.counted(backend.executor_bytes(program, limits), limits, || backend.new_executor(program, limits))
    }

    /// Creates an executor of a program that reads the KV cache of `target`, on a backend from `copy_for`.
    pub fn executor_reading(
        &self,
        target: &Network,
        backend: &Backend,
        program: &Arc<Program>,
        limits: StepLimits,
    ) -> Result<Counted> {
        let new = || backend.new_executor_reading(&target.backend, program, limits);
        self.counted(backend.executor_bytes(program, limits), limits, new)
    }

    /// Counts memory of sessions and steps against the runtime's memory limit.
    pub(in crate::engine) fn reserve(&self, what: &'static str, bytes: u64) -> Result<Reservation> {
        self.runtime.reserve(what, if self.is_plan { 0 } else { bytes })
    }

    fn counted(&self, bytes: u64, limits: StepLimits, new: impl FnOnce() -> Result<Executor>) -> Result<Counted> {
        let memory = self.reserve("scratch memory", bytes)?;
        Ok(Counted { step: Step::new(new()?, limits.max_tokens)?, _memory: memory })
    }

    pub fn new_sequence(&self, spec: &SequenceSpec) -> Result<Sequence> {
        self.backend.new_sequence(spec)
    }

    /// Returns the number of prompt tokens per step of a call. On a CPU the number is smaller while other calls wait;
    /// results do not depend on it.
    pub fn call_piece(&self) -> usize {
        match self.backend {
            Backend::Cpu(_) if self.is_waited_for() => self.limits.max_tokens.min(SHARED_STEP_TOKENS),
            _ => self.limits.max_tokens,
        }
    }

    /// True if another call waits for an executor.
    pub fn is_waited_for(&self) -> bool {
        self.executors.is_waited_for()
    }

    /// Returns the number of prompt tokens per step of a job. On a CPU the number is small, so that each chunk of work
    /// is short. On a GPU the number is the same as in `Session::prefill`, because results depend on it.
    pub fn job_piece(&self) -> usize {
        match self.backend {
            Backend::Cpu(_) => self.limits.max_tokens.min(JOB_STEP_TOKENS),
            _ => self.limits.max_tokens,
        }
    }

    /// Returns the maximum number of tokens, starting at `position`, that one step can verify with results identical to
    /// single-token steps.
    pub fn separable(&self, position: usize) -> usize {
        if self.is_batch_invariant { usize::MAX } else { separable(position) }
    }

    /// True if the device can sample by this rule.
    pub fn chooses(&self, rule: &SamplingRule) -> bool {
        self.backend.chooses(rule)
    }

    /// Acquires an executor for a step of up to `tokens` tokens; `None` if `budget` ends the wait.
    pub fn acquire(&self, tokens: usize, budget: &StepBudget) -> Result<Option<Acquired>> {
        self.executors.acquire(tokens, budget, |limits| self.new_executor(&self.program, limits))
    }

    /// Acquires an executor without a permit, to keep for any time. With `observed` the executor runs the program that
    /// keeps hidden states for draft heads.
    pub fn acquire_unqueued(&self, observed: Option<&Observed>) -> Result<Acquired> {
        let (executors, program) =
            observed.map_or((&self.executors, &self.program), |observed| (&observed.executors, &observed.program));
        executors.acquire_unqueued(|limits| self.new_executor(program, limits))
    }

    /// Calls `work` on each item. At most `most` items must take long. If `most` is above 1 and the workers are free,
    /// the workers share the items; otherwise this thread processes all items.
    pub fn for_each<T: Send>(&self, items: &mut [T], most: usize, work: impl Fn(&mut T) + Sync) -> Result<()> {
        let pool = &self.runtime.pool;
        let Some(team) = (most > 1).then(|| pool.try_enter(most)).flatten() else {
            items.iter_mut().for_each(work);
            return Ok(());
        };
        team.chunks_mut(items, 1, |_, items| items.iter_mut().for_each(&work));
        drop(team);
        pool.take_fault()
    }

    /// Returns the number of compute threads, at least one.
    pub fn threads(&self) -> usize {
        self.runtime.pool.threads()
    }

    /// Records the latency of a step. `first_share`: time of the CPU's layers, if layers are divided among CPU and
    /// GPUs.
    pub fn record(&self, latency: Duration, first_share: Duration) {
        let shares = [latency.saturating_sub(first_share), first_share];
        for ((kind, bytes), share) in self.backend.weight_bytes().zip(shares) {
            self.metrics.record_dispatch(kind, share, bytes);
        }
    }
}

impl Drop for Network {
    /// Frees the copies of a draft head.
    fn drop(&mut self) {
        let targets = self.targets.get_mut().unwrap_or_else(PoisonError::into_inner);
        for target in targets.iter().filter_map(Weak::upgrade) {
            let mut copies = target.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.retain(|(of, _)| of.strong_count() > 0);
        }
    }
}
