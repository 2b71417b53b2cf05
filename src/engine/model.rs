//! A loaded model: opens the file, picks architecture and backend. Shared and immutable after load.

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use twox_hash::XxHash64;

use super::advice::Advice;
use super::cache::{self, CacheParams};
use super::embedder::Embedder;
use super::executors::{Counted, Executors};
use super::metrics::{Metrics, Phase};
use super::predictor::Predictor;
use super::step::Step;
use super::{Cancel, LogLevel, Reservation, Runtime, RuntimeParams};
use crate::cpu::PackedAt;
use crate::cpu::kernels::Isa;
use crate::device::sequence::Sequence;
use crate::device::{self, Backend, DeviceKind, Executor, LoadOptions, MAX_GPUS, StepBudget};
use crate::error::{Error, Result, check_memory};
use crate::format::{Access, ByteSource, Metadata, Passed, Source};
use crate::grammar::{Grammar, Grammars, Kind as GrammarKind};
use crate::graph::program::Program;
use crate::graph::sequence_spec::SequenceSpec;
use crate::graph::step::StepLimits;
use crate::model::adapter::Adaptable;
use crate::model::{Hyper, Network, arch};
use crate::quant;
use crate::sampling::SamplingRule;
use crate::tensor::DType;
use crate::text::{Chat, ChatTemplate, MarkedText, Reply, ReplyForm, Tokenizer, find_reply_form};

/// Tokens of a prompt that go through the network together, at most.
const MAX_STEP_TOKENS: usize = 512;
/// Tokens of a prompt that a job computes together on the CPU, at most: unpacked weights are shared by as many.
const JOB_STEP_TOKENS: usize = 256;
/// The same of calls on the CPU while others wait for their turn.
const SHARED_STEP_TOKENS: usize = 128;
/// Scratch for them on the CPU, at most: wide models take fewer tokens at a time.
const STEP_BYTES: usize = 24 << 20;
/// Sequences whose logits one step can give.
const MAX_STEP_OUTPUTS: usize = 64;

/// The way to load a model with keys or tensors that are not known.
const WAY_OUT: &str = "RZ_MODEL_ALLOW_UNKNOWN loads the model without what is not known";

#[derive(Default)]
pub struct LoadParams<'a> {
    /// `None`: a runtime of its own with default parameters.
    pub runtime: Option<Arc<Runtime>>,
    /// 0: chosen here; n: entry n - 1 of `devices()`.
    pub device: u32,
    /// GPUs that share the layers in this order, in place of `device`; empty: there is no such list.
    pub devices: &'a [u32],
    /// Sizes of the parts of these in relation to one another; empty: by their free memory.
    pub shares: &'a [f32],
    pub deterministic: bool,
    pub mmap: bool,
    pub text_only: bool,
    /// Measure the parts of steps on a GPU.
    pub profile: bool,
    /// Load the layer that predicts a further token, for drafts.
    pub mtp: bool,
    /// Keys and tensors that are not known are passed over.
    pub allow_unknown: bool,
    /// Layers on GPUs, where the device is one, the last ones; 0: as many as fit.
    pub gpu_layers: u32,
    /// Instruction set of the CPU; `None`: the fastest.
    pub isa: Option<Isa>,
    /// GGML type that float matrices are converted to; 0: none.
    pub quantize: u32,
    /// File of packed weights, which is mapped, or made first; `None`: they are packed into memory.
    pub packed_path: Option<&'a Path>,
    /// Weights are not read: the model tells what it would take, and computes nothing.
    pub plan: bool,
    /// Called with bytes done and in all; false stops the load.
    pub progress: Option<&'a mut dyn FnMut(u64, u64) -> bool>,
    pub cancel: Option<&'a Cancel>,
}

/// Properties of a model that the C interface reports.
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
    /// Bytes of the weights in memory, as packed.
    pub weight_bytes: u64,
    /// Index of its device, from 1; of several the first.
    pub device: u32,
    /// Layers on GPUs.
    pub gpu_layers: u32,
    /// Index of each GPU that has layers, in their order, and the number of these.
    pub gpus: Vec<(u32, u32)>,
    pub bos_token: Option<u32>,
    pub eos_token: Option<u32>,
    /// Keys and tensors that were passed over because nobody knows them.
    pub n_unknown: u32,
}

pub struct Model {
    runtime: Arc<Runtime>,
    info: ModelInfo,
    advice: Advice,
    metadata: Metadata,
    tokenizer: Result<Tokenizer, String>,
    chat_template: Option<ChatTemplate>,
    /// Found when first needed.
    reply_form: OnceLock<Arc<ReplyForm>>,
    /// The vocabulary prepared for grammars, by the first of them.
    grammars: OnceLock<Grammars>,
    /// A digest of the vocabulary, once somebody has asked for it.
    vocabulary: OnceLock<Option<u64>>,
    metrics: Metrics,
    /// `None` where only the text side was loaded.
    compute: Option<Compute>,
}

/// The network on its device.
struct Compute {
    program: Arc<Program>,
    backend: Backend,
    executors: Executors,
    limits: StepLimits,
    context_length: u32,
    /// The other tokens of a step never change a bit of a result.
    has_same_bits: bool,
    /// `None` where layers are on a GPU.
    embedder: Option<Embedder>,
    /// `None` where it was not asked for.
    predictor: Option<Predictor>,
    adaptable: Adaptable,
    _memory: Reservation,
}

impl Model {
    pub fn load(path: &Path, params: LoadParams) -> Result<Arc<Model>> {
        Model::open(params, |access| Source::open(path, access))
    }

    /// Loads a model whose files are bytes of the caller, which are read during the call only.
    pub fn load_from(sources: &[ByteSource], params: LoadParams) -> Result<Arc<Model>> {
        Model::open(params, |access| Source::open_from(sources, access))
    }

    pub(super) fn open(mut params: LoadParams, open: impl FnOnce(Access) -> Result<Source>) -> Result<Arc<Model>> {
        let started = Instant::now();
        let runtime = match params.runtime.take() {
            Some(runtime) => runtime,
            None => Runtime::new(RuntimeParams::default())?,
        };
        Cancel::check(&[params.cancel])?;
        check_devices(&params)?;
        if params.mmap && params.packed_path.is_some() {
            return Err(Error::invalid(
                "weights that are mapped as the model's files have them, and packed in another",
            ));
        }
        let mut source = open(if params.mmap { Access::Map } else { Access::Read })?;
        let path = &source.path().to_owned();
        let check = |passed: &Passed| if params.allow_unknown { Ok(()) } else { passed.check(WAY_OUT) };
        check(source.passed())?;
        let tokenizer = tokenizer(&mut source.metadata, path)?;
        Cancel::check(&[params.cancel])?;
        let chat_template = match &tokenizer {
            Ok(t) => ChatTemplate::from_metadata(&source.metadata, t)?,
            Err(_) => None,
        };
        let quantize = (params.quantize != 0).then_some(DType(params.quantize));
        let network = match params.text_only {
            true => None,
            false => Some(arch::network(&source, quantize, params.mtp).map_err(|e| in_file(path, e))?),
        };
        let passed: Vec<&Passed> = [source.passed()].into_iter().chain(network.as_ref().map(|n| &n.passed)).collect();
        passed.iter().try_for_each(|passed| check(passed)).map_err(|e| in_file(path, e))?;
        let n_unknown = passed.iter().map(|passed| passed.n_unknown).sum::<usize>() as u32;
        for what in passed.iter().filter(|_| !params.plan).flat_map(|p| p.notes.iter().chain(&p.unknown)) {
            runtime.log(LogLevel::Warning, &format!("{what}: {}", path.display()));
        }
        let hyper = match &network {
            Some(network) => Some(network.hyper.clone()),
            None => arch::hyper(&source).ok(),
        };
        let mut info = hyper.map_or_else(ModelInfo::default, |hyper| describe(hyper, &source));
        info.n_unknown = n_unknown;
        if let Ok(t) = &tokenizer {
            if network.is_some() && t.n_vocab() > info.vocab_size as usize {
                let what = format!("{} tokens in the vocabulary, {} rows of embeddings", t.n_vocab(), info.vocab_size);
                return Err(Error::format(path, what));
            }
            (info.bos_token, info.eos_token) = (t.bos(), t.eos());
            info.vocab_size = info.vocab_size.max(t.n_vocab() as u32);
        }
        let compute = match network {
            Some(network) => {
                let compute = Compute::load(&runtime, network, source.stamp(), &mut params)?;
                let named = params.devices.first().copied().or((params.device != 0).then_some(params.device));
                info.device = named.unwrap_or_else(|| compute.backend.device_number());
                let gpus = compute.backend.gpus(info.n_layers as usize);
                info.gpus = gpus.iter().map(|&(device, layers)| (device, layers as u32)).collect();
                info.gpu_layers = info.gpus.iter().map(|(_, layers)| layers).sum();
                if info.device != device::CPU_DEVICE && info.gpu_layers < info.n_layers {
                    let (on_gpu, names) = (info.gpu_layers, compute.backend.device_names());
                    runtime.log(LogLevel::Info, &format!("{on_gpu} of {} layers are on {names}", info.n_layers));
                }
                info.weight_bytes = compute.backend.weight_bytes().map(|(_, bytes)| bytes).sum();
                Some(compute)
            }
            None => None,
        };
        if let Some(compute) = compute.as_ref().filter(|_| !params.plan) {
            let summary = summary(&info, &source, &compute.backend.device_names());
            runtime.log(LogLevel::Info, &format!("{summary}: {}", path.display()));
        }
        match &tokenizer {
            Err(why) => runtime.log(LogLevel::Warning, &format!("no tokenizer: {why}: {}", path.display())),
            Ok(tokenizer) => {
                for note in tokenizer.notes() {
                    runtime.log(LogLevel::Warning, &format!("{note}: {}", path.display()));
                }
            }
        }
        let advice = Advice::read(&source.metadata, &mut |what| {
            runtime.log(LogLevel::Warning, &format!("{what}: {}", path.display()));
        })?;
        let metrics = Metrics::new();
        metrics.record_phase(Phase::Load, started.elapsed());
        let metadata = source.metadata;
        Ok(Arc::new(Model {
            runtime,
            info,
            advice,
            metadata,
            tokenizer,
            chat_template,
            reply_form: OnceLock::new(),
            grammars: OnceLock::new(),
            vocabulary: OnceLock::new(),
            metrics,
            compute,
        }))
    }

    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// What the model's makers advise for sampling.
    pub fn advice(&self) -> &Advice {
        &self.advice
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().map_err(|why| Error::unsupported(format!("the model has no usable tokenizer: {why}")))
    }

    /// True for a token that ends a turn or a text.
    pub(super) fn ends(&self, token: u32) -> bool {
        self.tokenizer.as_ref().is_ok_and(|t| t.is_end(token))
    }

    /// Tokens that are never chosen.
    pub(super) fn suppressed(&self) -> &[u32] {
        self.tokenizer.as_ref().map_or(&[], Tokenizer::suppressed)
    }

    /// Makes the logits of tokens that are never chosen minus infinity.
    pub(super) fn suppress(&self, logits: &mut [f32]) {
        for &id in self.suppressed() {
            if let Some(logit) = logits.get_mut(id as usize) {
                *logit = f32::NEG_INFINITY;
            }
        }
    }

    /// The text of a chat as the model was trained to see it, what the chat says being marked.
    pub fn render_chat(&self, chat: &Chat) -> Result<MarkedText> {
        self.chat_template()?.render(chat)
    }

    pub fn chat_template(&self) -> Result<&ChatTemplate> {
        self.chat_template.as_ref().ok_or_else(|| Error::unsupported("the model has no chat template"))
    }

    /// The possible replies to a chat.
    pub fn reply(&self, chat: &Chat) -> Result<Reply> {
        let prompt = self.render_chat(chat)?;
        let form = match self.reply_form.get() {
            Some(form) => form,
            None => {
                let form = find_reply_form(self.chat_template()?)?;
                self.reply_form.get_or_init(|| Arc::new(form))
            }
        };
        Reply::new(form.clone(), chat, &prompt)
    }

    /// Compiles a grammar for this model's vocabulary. `white_space`: the parts of JSON may have some between them.
    pub fn grammar(&self, kind: GrammarKind, white_space: bool, text: &str) -> Result<Grammar> {
        self.grammars()?.compile(kind, white_space, text, self.tokenizer()?)
    }

    /// Compiles the grammar of the reply to a chat with tools. `white_space`: as in `grammar`.
    pub fn tool_grammar(&self, chat: &Chat, white_space: bool) -> Result<Grammar> {
        self.grammars()?.compile_tools(&self.reply(chat)?, white_space, self.tokenizer()?)
    }

    fn grammars(&self) -> Result<&Grammars> {
        match self.grammars.get() {
            Some(grammars) => Ok(grammars),
            None => {
                let grammars = Grammars::new(self.tokenizer()?, self.info.vocab_size as usize)?;
                Ok(self.grammars.get_or_init(|| grammars))
            }
        }
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

    /// A number that tells the model from others, and from itself with weights of other types.
    pub(super) fn fingerprint(&self) -> Result<u64> {
        let compute = self.compute()?;
        let mut hash = XxHash64::with_seed(compute.backend.digest());
        // Rings of caches depend on the room of a step.
        hash.write_u64(compute.limits.max_tokens as u64);
        let prefixes = [self.info.architecture.as_str(), "realizar"];
        let counts = |key: &str| key.split_once('.').is_some_and(|(prefix, _)| prefixes.contains(&prefix));
        for (key, value) in self.metadata.iter().filter(|(key, _)| counts(key)) {
            hash.write(format!("{key} = {value:?}\n").as_bytes());
        }
        Ok(hash.finish())
    }

    /// A number that tells its vocabulary from others; `None` without a tokenizer.
    pub(super) fn vocabulary(&self) -> Result<Option<u64>> {
        if let Some(known) = self.vocabulary.get() {
            return Ok(*known);
        }
        let mut digest = None;
        if let Ok(tokenizer) = &self.tokenizer {
            let mut hash = XxHash64::with_seed(0);
            for id in 0..tokenizer.n_vocab() as u32 {
                check_memory("a vocabulary")?;
                let bytes = tokenizer.decode_token(id, true)?;
                hash.write_usize(bytes.len());
                hash.write(&bytes);
            }
            digest = Some(hash.finish());
        }
        Ok(*self.vocabulary.get_or_init(|| digest))
    }

    /// True where the other tokens of a step never change a bit of a result.
    pub(super) fn has_same_bits(&self) -> Result<bool> {
        Ok(self.compute()?.has_same_bits)
    }

    /// The context that the file declares.
    pub(super) fn context_length(&self) -> Result<u32> {
        Ok(self.compute()?.context_length)
    }

    pub(super) fn program(&self) -> Result<&Arc<Program>> {
        Ok(&self.compute()?.program)
    }

    /// The capacity of caches above which rotations are those of long contexts, where the network has such.
    pub(super) fn long_rope_above(&self) -> Option<usize> {
        self.compute.as_ref().and_then(|compute| compute.program.long_rope_above())
    }

    pub(super) fn embedder(&self) -> Result<&Embedder> {
        let embedder = self.compute()?.embedder.as_ref();
        embedder
            .ok_or_else(|| Error::unsupported("embeddings of a model that has layers on a GPU; device 1 is the CPU"))
    }

    pub(super) fn predictor(&self) -> Result<&Predictor> {
        let predictor = self.compute()?.predictor.as_ref();
        predictor.ok_or_else(|| Error::unsupported("multi-token prediction by a model loaded without RZ_MODEL_MTP"))
    }

    /// An executor of another program of the model.
    pub(super) fn new_executor(&self, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        self.compute()?.new_executor(&self.runtime, program, limits)
    }

    pub(super) fn new_sequence(&self, spec: &SequenceSpec) -> Result<Sequence> {
        self.compute()?.backend.new_sequence(spec)
    }

    pub(super) fn backend(&self) -> Result<&Backend> {
        Ok(&self.compute()?.backend)
    }

    /// The places of adapters.
    pub(super) fn adaptable(&self) -> Result<&Adaptable> {
        Ok(&self.compute()?.adaptable)
    }

    /// The room of one step.
    pub(super) fn limits(&self) -> Result<StepLimits> {
        Ok(self.compute()?.limits)
    }

    /// Number of tokens of a prompt that a call computes together: on a CPU fewer while other calls wait for their
    /// turn, which changes no result.
    pub(super) fn call_piece(&self) -> Result<usize> {
        let Compute { backend, executors, limits, .. } = self.compute()?;
        Ok(match backend {
            Backend::Cpu(_) if executors.is_waited_for() => limits.max_tokens.min(SHARED_STEP_TOKENS),
            _ => limits.max_tokens,
        })
    }

    /// True where another call waits for an executor.
    pub(super) fn is_waited_for(&self) -> bool {
        self.compute.as_ref().is_some_and(|compute| compute.executors.is_waited_for())
    }

    /// Number of tokens of a prompt that a job computes together: on a CPU few, so that no share of an op is long; on a
    /// GPU as many as `Session::prefill`, because the results depend on it.
    pub(super) fn piece(&self) -> Result<usize> {
        let Compute { backend, limits, .. } = self.compute()?;
        Ok(match backend {
            Backend::Cpu(_) => limits.max_tokens.min(JOB_STEP_TOKENS),
            _ => limits.max_tokens,
        })
    }

    /// Runs one step; `after` reads its results while they are on the device.
    pub(super) fn forward<T>(
        &self,
        step: &mut Step,
        sequences: &mut [&mut Sequence],
        rules: &[Option<SamplingRule>],
        cancels: &[Option<&Cancel>],
        after: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<T> {
        let stop = || Cancel::check(cancels).is_err();
        let budget = StepBudget::new(&stop);
        let lent = self.lend(step.len(), &budget, |executor| {
            let started = Instant::now();
            if !self.run(executor, step, sequences, (rules, 0), &budget)? {
                return Err(Cancel::reason(cancels));
            }
            Ok((after(executor)?, started.elapsed(), executor.first_share()))
        })?;
        let (result, time, first_share) = lent.ok_or_else(|| Cancel::reason(cancels))?;
        self.record(time, first_share)?;
        Ok(result)
    }

    /// An executor that the caller keeps for as long as it likes; `give_back` is where it goes.
    pub(super) fn take_executor(&self) -> Result<Counted> {
        let compute = self.compute()?;
        compute.executors.take_apart(|limits| compute.new_executor(&self.runtime, &compute.program, limits))
    }

    /// True where steps choose tokens by a rule.
    pub(super) fn chooses(&self, rule: &SamplingRule) -> bool {
        self.compute.as_ref().is_some_and(|compute| compute.backend.chooses(rule))
    }

    /// Takes an executor back, whose step has ended.
    pub(super) fn give_back(&self, executor: Counted) {
        if let Some(compute) = &self.compute {
            compute.executors.give_back(executor);
        }
    }

    /// Lends an executor for steps of so many tokens to `work`; `None` where `budget` ends the wait for one.
    pub(super) fn lend<T>(
        &self,
        tokens: usize,
        budget: &StepBudget,
        work: impl FnOnce(&mut Executor) -> Result<T>,
    ) -> Result<Option<T>> {
        let compute = self.compute()?;
        let make = |limits| compute.new_executor(&self.runtime, &compute.program, limits);
        let Some(mut executor) = compute.executors.take(tokens, budget, make)? else { return Ok(None) };
        let result = work(executor.get());
        let ended = executor.get().end();
        self.metrics.record_parts(&executor.get().times());
        result.and_then(|value| ended.map(|()| Some(value)))
    }

    /// Executes a step; true when all is done, false where `budget` has paused it.
    pub(super) fn run(
        &self,
        executor: &mut Executor,
        step: &mut Step,
        sequences: &mut [&mut Sequence],
        rules: (&[Option<SamplingRule>], usize),
        budget: &StepBudget,
    ) -> Result<bool> {
        step.run(executor, sequences, 0..self.program()?.ops.len(), rules, |_| Ok(()), budget)
    }

    /// Counts a step, of which the CPU had a part where it shares the layers with GPUs.
    pub(super) fn record(&self, latency: Duration, first_share: Duration) -> Result<()> {
        let shares = [latency.saturating_sub(first_share), first_share];
        for ((kind, bytes), share) in self.compute()?.backend.weight_bytes().zip(shares) {
            self.metrics.record_dispatch(kind, share, bytes);
        }
        Ok(())
    }
}

impl Compute {
    /// `files`: a number that tells the files of the weights from others.
    fn load(runtime: &Arc<Runtime>, network: Network, files: u64, params: &mut LoadParams) -> Result<Compute> {
        let (cancel, progress) = (params.cancel, &mut params.progress);
        let mut report = |done: u64, total: u64| {
            Cancel::check(&[cancel])?;
            match progress.as_mut().is_none_or(|p| p(done, total)) {
                true => Ok(()),
                false => Err(Error::Cancelled),
            }
        };
        let program = Arc::new(network.program.clone());
        let context_length = network.hyper.context_length;
        let full = StepLimits { max_tokens: MAX_STEP_TOKENS, max_outputs: MAX_STEP_OUTPUTS };
        let options = LoadOptions {
            devices: match params.devices {
                [] => (params.device != 0).then_some(params.device).into_iter().collect(),
                devices => devices.to_vec(),
            },
            shares: params.shares.to_vec(),
            deterministic: params.deterministic,
            profile: params.profile,
            gpu_layers: (params.gpu_layers != 0).then_some(params.gpu_layers as usize),
            host_bytes: if params.plan { u64::MAX } else { runtime.memory_left() },
            packed_at: params.packed_path.map(|path| PackedAt { path: path.to_owned(), files }),
            plan: params.plan,
            beside: network.predictor.as_ref().map(|predictor| Arc::new(predictor.program.clone())),
            isa: params.isa,
            limits: full,
            cache: cache::state_spec(&program, context_length, &CacheParams::default(), full),
        };
        network.states.check(&network.weights())?;
        let backend = Backend::load(&program, &network.weights(), &runtime.pool, &options, &mut report)
            .map_err(|e| runtime.with_limit(e))?;
        let on_host = backend.weight_bytes().filter(|(kind, _)| *kind == DeviceKind::Cpu);
        let on_host: u64 = on_host.map(|(_, bytes)| bytes).sum();
        let max_tokens = match backend.is_on_cpu() {
            true => (STEP_BYTES / (4 * program.scratch_width())).clamp(32, MAX_STEP_TOKENS) / 32 * 32,
            false => MAX_STEP_TOKENS,
        };
        let limits = StepLimits { max_tokens, ..full };
        let adaptable = network.adaptable()?;
        let embedder = match &backend {
            Backend::Cpu(_) => Some(Embedder::new(network.states, network.embeddings, &runtime.pool, max_tokens)?),
            _ => None,
        };
        let predictor = network.predictor.map(|predictor| Predictor::new(predictor, &runtime.pool, limits.max_tokens));
        let bytes = on_host + embedder.as_ref().map_or(0, Embedder::bytes);
        let memory = runtime.reserve("the model's weights", if params.plan { 0 } else { bytes })?;
        let executors = Executors::new(&runtime.pool, limits, backend.is_on_cpu());
        let has_same_bits = params.deterministic || matches!(backend, Backend::Cpu(_));
        Ok(Compute {
            program,
            backend,
            executors,
            limits,
            context_length,
            has_same_bits,
            embedder,
            predictor,
            adaptable,
            _memory: memory,
        })
    }

    fn new_executor(&self, runtime: &Arc<Runtime>, program: &Arc<Program>, limits: StepLimits) -> Result<Counted> {
        let memory = runtime.reserve("scratch memory", self.backend.executor_bytes(program, limits))?;
        Ok(Counted { executor: self.backend.new_executor(program, limits)?, _memory: memory })
    }
}

/// Refuses lists of devices and shares that do not fit one another.
fn check_devices(params: &LoadParams) -> Result<()> {
    let LoadParams { device, devices, shares, .. } = params;
    if *device != 0 && !devices.is_empty() {
        return Err(Error::invalid(format!("device {device}, and a list of devices")));
    }
    if devices.len() > MAX_GPUS {
        return Err(Error::invalid(format!("{} devices, {MAX_GPUS} are the most", devices.len())));
    }
    if !shares.is_empty() && shares.len() != devices.len() {
        return Err(Error::invalid(format!("{} shares for {} devices", shares.len(), devices.len())));
    }
    if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share > 0.0)) {
        return Err(Error::invalid(format!("a share of {share}")));
    }
    Ok(())
}

/// A tokenizer that is not supported leaves the model usable by ids; a damaged one is an error.
fn tokenizer(metadata: &mut Metadata, path: &Path) -> Result<Result<Tokenizer, String>> {
    if !Tokenizer::is_in(metadata) {
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

fn describe(hyper: Hyper, source: &Source) -> ModelInfo {
    ModelInfo {
        n_layers: hyper.n_layers as u32,
        hidden_dim: hyper.hidden as u32,
        ffn_dim: hyper.ffn as u32,
        n_heads: hyper.heads.n_heads as u32,
        n_kv_heads: hyper.heads.n_kv_heads as u32,
        head_dim: hyper.heads.head_dim as u32,
        vocab_size: hyper.vocab as u32,
        context_length: hyper.context_length,
        n_params: source.tensors().map(|t| t.shape.n_elements()).fold(0, u64::saturating_add),
        architecture: hyper.architecture,
        name: hyper.name,
        ..ModelInfo::default()
    }
}
