//! The network of a model on its devices: the program, the weights, and the executors that its steps are lent.

use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::embedder::Embedder;
use super::executors::{Counted, Executors, Lent};
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

/// Tokens of a prompt that go through the network together, at most.
const MAX_STEP_TOKENS: usize = 512;
/// Tokens of a prompt that a job computes together on the CPU, at most: unpacked weights are shared by as many.
const JOB_STEP_TOKENS: usize = 256;
/// The same of calls on the CPU while others wait for their turn.
const SHARED_STEP_TOKENS: usize = 128;
/// Tokens of prompts in a pass that has single tokens too, which wait for it, where the caller leaves it open.
const PROMPT_TOKENS_BESIDE: usize = 64;
/// Scratch for them on the CPU, at most: wide models take fewer tokens at a time.
const STEP_BYTES: usize = 24 << 20;
/// The least room of a step where rows of a picture see each other: 256 of them, and single tokens beside.
const MUTUAL_STEP_TOKENS: usize = 320;
/// Sequences whose logits one step can give; `Pass` has a bit for each.
const MAX_STEP_OUTPUTS: usize = 64;

/// Returns the options with the device of a network. The caches of a model on a GPU are visible only within the context
/// of that model, so a head that reads the caches of another model is loaded on the CPU, from which `Network::beside`
/// takes it.
fn on_device<'a>(options: &LoadOptions<'a>, predictor: Option<&model::Predictor>) -> Result<LoadOptions<'a>> {
    match predictor.map(|predictor| &predictor.of) {
        Some(PredictorOf::SharedKv(_)) if options.named_devices().iter().all(|device| *device == CPU_DEVICE) => {
            Ok(LoadOptions { device: CPU_DEVICE, devices: &[], ..*options })
        }
        Some(PredictorOf::SharedKv(_)) => {
            let what =
                "a head that looks at another model's cache on a GPU of its own: it is loaded on the CPU, device 1";
            Err(Error::unsupported(format!("{what}, and drafts on the device of that model")))
        }
        _ => Ok(*options),
    }
}

pub struct Network {
    runtime: Arc<Runtime>,
    metrics: Arc<Metrics>,
    pub program: Arc<Program>,
    pub backend: Backend,
    /// Layers on GPUs whose experts are on the host, from the first to the last, and the bytes of experts of layers on
    /// GPUs: on the host, and on the devices.
    pub experts: (Range<usize>, [u64; 2]),
    executors: Executors,
    /// The room of one step.
    pub limits: StepLimits,
    /// Tokens of prompts, at most, in a pass that has single tokens too.
    pub mixed_prefill_tokens: usize,
    /// The network turns by time, row and column of media, and not by places.
    pub has_turns: bool,
    /// Rows of a picture see each other.
    pub is_mutual: bool,
    /// There are no weights for the rows of a picture.
    pub text_alone: bool,
    /// Texts whose vectors are wanted are filled up with padding.
    pub fills_texts: bool,
    /// Each text begins with a source, which an encoder has read.
    pub reads_source: bool,
    /// The context that the file declares.
    pub context_length: u32,
    /// The other tokens of a step never change a bit of a result.
    pub has_same_bits: bool,
    /// Tokens that are never chosen.
    pub suppressed: Vec<u32>,
    pub embedder: Embedder,
    /// The layer that predicts a further token, where it was asked for, or a head of another network.
    predictor: Option<Predictor>,
    /// Width of the residual stream.
    hidden: usize,
    /// What heads of this network take of it; `None` without such heads.
    observed: Mutex<Option<Arc<Observed>>>,
    ends: OnceLock<[Option<End>; 2]>,
    /// Copies on this network's device of heads that read its keys and values.
    copies: Mutex<Vec<(Weak<Network>, Backend)>>,
    /// The networks that have a copy of this head.
    targets: Mutex<Vec<Weak<Network>>>,
    /// The places of adapters.
    pub adaptable: Adaptable,
    /// Without weights, for a plan, whose memory does not count against the ceiling.
    is_plan: bool,
    _memory: Reservation,
}

/// Logs why packed weights are in memory and not in the file that was wanted.
fn warn_of_memory(runtime: &Runtime, why: Option<&Error>) {
    if let Some(why) = why {
        runtime.log(LogLevel::Warning, &format!("the packed weights are kept in memory: {why}"));
    }
}

impl Network {
    /// `files`: a number that tells the files of the weights from others.
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
        // A further program, whose matrices are loaded with those of this one.
        let predictor = network.predictor.as_ref().map(|predictor| &predictor.program);
        let beside = predictor.or(reads_source.then_some(&network.states));
        let full = StepLimits { max_tokens: MAX_STEP_TOKENS, max_outputs: MAX_STEP_OUTPUTS };
        let options = on_device(&params.options, network.predictor.as_ref())?;
        let cache = cache::state_spec(&program, context_length, &CacheParams::default(), full);
        let load = Load {
            isa: params.isa,
            host_bytes: if options.plan { u64::MAX } else { runtime.memory_left() },
            files,
            beside: beside.map(|program| Arc::new(program.clone())).into_iter().collect(),
            ..Load::new(&options, full, cache)
        };
        network.states.check(&network.weights())?;
        let hidden = network.hyper.hidden;
        let has_turns = network.weights().ropes.iter().any(|rope| !rope.axes.is_empty());
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
        let has_same_bits = options.deterministic || matches!(backend, Backend::Cpu(_));
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
                0 => PROMPT_TOKENS_BESIDE,
                n => n.min(limits.max_tokens),
            },
            has_turns,
            is_mutual,
            text_alone: traits.text_alone,
            fills_texts: traits.fills_texts,
            reads_source,
            context_length,
            has_same_bits,
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

    /// Makes the logits of tokens that are never chosen minus infinity.
    pub fn suppress(&self, logits: &mut [f32]) {
        for &id in &self.suppressed {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    pub fn predictor(&self) -> Result<&Predictor> {
        let predictor = self.predictor.as_ref();
        predictor.ok_or_else(|| Error::unsupported("multi-token prediction by a model loaded without RZ_MODEL_MTP"))
    }

    /// Refuses a head of another network, which computes no text.
    pub fn check_whole(&self) -> Result<()> {
        let what = "text of a head of another model, which is of use as RZ_DRAFT_MODEL alone";
        let is_whole = !self.predictor.as_ref().is_some_and(Predictor::is_of_other);
        if is_whole { Ok(()) } else { Err(Error::unsupported(what)) }
    }

    /// Number of tokens that it knows.
    pub fn vocab(&self) -> usize {
        match &self.predictor {
            Some(Predictor { of: PredictorOf::Other(other), .. }) => other.vocab,
            _ => self.program.vocab,
        }
    }

    /// Has passes that ask for it (`observed`) keep the inputs of some layers from now on, for a head that takes such
    /// of some width: the activation of each.
    pub fn observe(&self, layers: &[usize], width: usize) -> Result<Vec<TensorId>> {
        let n = self.program.layers.len();
        if let Some(layer) = layers.iter().find(|layer| **layer >= n) {
            let what = format!("the draft model reads the input of layer {layer}, the model has {n} layers");
            return Err(Error::Mismatch(what));
        }
        self.keep(layers, width)
    }

    /// Has such passes keep the hidden states of outputs, which the model's output matrix multiplies, from now on.
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

    /// The program that keeps what heads read.
    pub fn observed(&self) -> Option<Arc<Observed>> {
        self.observed.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The embeddings of tokens and the head, for heads in files of their own, where they are common ones.
    pub fn ends(&self) -> &[Option<End>; 2] {
        let (program, backend, pool) = (&self.program, &self.backend, &self.runtime.pool);
        let new = || [End::embeddings(program, backend, pool, MAX_STEP_TOKENS), End::head(program, backend, pool)];
        self.ends.get_or_init(new)
    }

    /// This network, a head on the CPU, on the device of another one, whose keys and values `program` reads. A copy on
    /// a GPU serves all jobs, and is freed with either network.
    pub fn beside(self: &Arc<Network>, target: &Arc<Network>, program: &Program) -> Result<Backend> {
        let mut copies = target.copies.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, copy)) = copies.iter().find(|(of, _)| std::ptr::eq(of.as_ptr(), Arc::as_ptr(self))) {
            return Ok(copy.clone());
        }
        let copy = self.backend.beside(&target.backend, program)?;
        copies.push((Arc::downgrade(self), copy.clone()));
        let mut targets = self.targets.lock().unwrap_or_else(PoisonError::into_inner);
        targets.retain(|target| target.strong_count() > 0);
        targets.push(Arc::downgrade(target));
        Ok(copy)
    }

    /// An executor of this program or another one of the same layers.
    pub fn new_executor(&self, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        self.executor_on(&self.backend, program, limits)
    }

    /// An executor of a program on a device that has its weights.
    pub fn executor_on(&self, backend: &Backend, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        self.counted(backend.executor_bytes(program, limits), limits, || backend.new_executor(program, limits))
    }

    /// An executor of a program that reads the keys and values of `target`, on a backend that is `beside` that.
    pub fn executor_beside(
        &self,
        target: &Network,
        backend: &Backend,
        program: &Arc<Program>,
        limits: StepLimits,
    ) -> Result<Counted> {
        let new = || backend.new_executor_beside(&target.backend, program, limits);
        self.counted(backend.executor_bytes(program, limits), limits, new)
    }

    /// Counts memory of sessions and steps against the ceiling of the runtime.
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

    /// Number of tokens of a prompt that a call computes together: on a CPU fewer while other calls wait for their
    /// turn, which changes no result.
    pub fn call_piece(&self) -> usize {
        match self.backend {
            Backend::Cpu(_) if self.is_waited_for() => self.limits.max_tokens.min(SHARED_STEP_TOKENS),
            _ => self.limits.max_tokens,
        }
    }

    /// True where another call waits for an executor.
    pub fn is_waited_for(&self) -> bool {
        self.executors.is_waited_for()
    }

    /// Number of tokens of a prompt that a job computes together: on a CPU few, so that no share of an op is long; on a
    /// GPU as many as `Session::prefill`, because the results depend on it.
    pub fn job_piece(&self) -> usize {
        match self.backend {
            Backend::Cpu(_) => self.limits.max_tokens.min(JOB_STEP_TOKENS),
            _ => self.limits.max_tokens,
        }
    }

    /// Number of tokens from a position on, that of a draft and the one before it, whose choices are those of single
    /// tokens.
    pub fn separable(&self, position: usize) -> usize {
        if self.has_same_bits { usize::MAX } else { separable(position) }
    }

    /// True where steps choose tokens by a rule.
    pub fn chooses(&self, rule: &SamplingRule) -> bool {
        self.backend.chooses(rule)
    }

    /// Lends an executor for a step of so many tokens, or of some; `None` where `budget` ends the wait for one.
    pub fn lend(&self, tokens: usize, budget: &StepBudget) -> Result<Option<Lent>> {
        self.executors.take(tokens, budget, |limits| self.new_executor(&self.program, limits))
    }

    /// Lends an executor that the caller keeps for as long as it likes, of the program that keeps what heads read where
    /// that is given.
    pub fn lend_apart(&self, observed: Option<&Observed>) -> Result<Lent> {
        let (executors, program) =
            observed.map_or((&self.executors, &self.program), |observed| (&observed.executors, &observed.program));
        executors.take_apart(|limits| self.new_executor(program, limits))
    }

    /// Does `work` on each of some items, of which `most` take long: on the workers, if these are several and no other
    /// step has them, else on this thread.
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

    /// Number of threads that compute, at least one.
    pub fn threads(&self) -> usize {
        self.runtime.pool.threads()
    }

    /// Counts a step, of which the CPU had a part where it shares the layers with GPUs.
    pub fn record(&self, latency: Duration, first_share: Duration) {
        let shares = [latency.saturating_sub(first_share), first_share];
        for ((kind, bytes), share) in self.backend.weight_bytes().zip(shares) {
            self.metrics.record_dispatch(kind, share, bytes);
        }
    }
}

impl Drop for Network {
    /// Frees the copies of a head.
    fn drop(&mut self) {
        let targets = self.targets.get_mut().unwrap_or_else(PoisonError::into_inner);
        for target in targets.iter().filter_map(Weak::upgrade) {
            let mut copies = target.copies.lock().unwrap_or_else(PoisonError::into_inner);
            copies.retain(|(of, _)| of.strong_count() > 0);
        }
    }
}
