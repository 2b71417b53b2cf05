//! A loaded model: opens the file, selects architecture and backend. Shared and immutable after load.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use twox_hash::XxHash64;

use super::advice::Advice;
use super::cache::CacheParams;
use super::cancel::Cancel;
use super::load_params::LoadParams;
use super::metrics::{Metrics, Phase};
use super::network::Network;
use super::runtime::{LogLevel, Runtime, RuntimeParams};
use crate::device::{self, MAX_GPUS};
use crate::error::{Error, Result, check_memory};
use crate::format::{Access, ByteSource, Metadata, Passed, Source};
use crate::grammar::{Grammar, GrammarText, Grammars};
use crate::graph::load_options::LoadOptions;
use crate::model::pooling::Pooling;
use crate::model::{Hyper, arch};
use crate::quant;
use crate::text::{Chat, ChatTemplate, MarkedText, Reply, ReplyForm, Tokenizer, find_reply_form, render_chat};

/// Advice in errors about unknown keys or tensors.
pub(super) const WAY_OUT: &str = "RZ_MODEL_ALLOW_UNKNOWN loads the model without what is not known";

/// Maximum number of logged notes on ignored grammar keywords.
const MAX_NOTED: usize = 1000;

/// Model properties that the C interface reports.
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
    /// Bytes of the packed weights in memory.
    pub weight_bytes: u64,
    /// Index of its first device, from 1.
    pub device: u32,
    /// Number of layers on GPUs.
    pub gpu_layers: u32,
    /// Index and number of layers of each GPU, in layer order.
    pub gpus: Vec<(u32, u32)>,
    /// Range from the first to the last GPU layer with experts on the CPU. Bytes of the experts of all GPU layers: on
    /// the host, and on the devices.
    pub experts: (Range<u32>, [u64; 2]),
    /// Minimum rows of a step for which experts on the host are copied to a device; `None`: never copied.
    pub experts_copied_from: Option<u32>,
    pub bos_token: Option<u32>,
    pub eos_token: Option<u32>,
    /// Number of ignored unknown keys and tensors.
    pub n_unknown: u32,
    /// True if sessions of the model begin with a source (encoder-decoder).
    pub reads_source: bool,
    /// Instruction set of matrix products on the CPU; empty without any.
    pub isa: &'static str,
    /// True if the model computes logits.
    pub generates: bool,
    /// Size of a vector from `Model::embed`; 0: no embeddings.
    pub embedding_dim: usize,
    /// `None` if the file declares none.
    pub pooling: Option<Pooling>,
    /// Number of classifier scores; 0: no classifier.
    pub n_scores: usize,
}

pub struct Model {
    runtime: Arc<Runtime>,
    info: ModelInfo,
    advice: Advice,
    metadata: Metadata,
    tokenizer: Result<Tokenizer, String>,
    chat_template: Option<ChatTemplate>,
    /// Computed on first use.
    reply_form: OnceLock<Arc<ReplyForm>>,
    /// The vocabulary prepared for grammars, on first use.
    grammars: OnceLock<Grammars>,
    /// Digests of the grammar notes already logged.
    noted: Mutex<BTreeSet<u64>>,
    /// Digest of the vocabulary, on first use.
    vocabulary: OnceLock<Option<u64>>,
    metrics: Arc<Metrics>,
    /// `None` for a text-only load.
    network: Option<Arc<Network>>,
    /// `LoadOptions::tested_path`, which its encoders use too.
    tested_path: Option<PathBuf>,
}

impl Model {
    pub fn load<'a>(path: &Path, params: impl Into<LoadParams<'a>>) -> Result<Arc<Model>> {
        Model::open(params.into(), |access| Source::open(path, access))
    }

    /// Loads a model from files in the caller's memory, which is read only during the call.
    pub fn load_from<'a>(sources: &[ByteSource], params: impl Into<LoadParams<'a>>) -> Result<Arc<Model>> {
        Model::open(params.into(), |access| Source::open_from(sources, access))
    }

    pub(super) fn open(mut params: LoadParams, open: impl FnOnce(Access) -> Result<Source>) -> Result<Arc<Model>> {
        let started = Instant::now();
        let runtime = match params.runtime.take() {
            Some(runtime) => runtime,
            None => Runtime::new(RuntimeParams::default())?,
        };
        let options = params.options;
        Cancel::check(&[params.cancel])?;
        check_devices(&options)?;
        if options.mmap && options.packed_path.is_some() {
            return Err(Error::invalid("RZ_MODEL_MMAP and rz_model_params.packed_path are both set; set one"));
        }
        let mut source = open(if options.mmap { Access::Map } else { Access::Read })?;
        let path = &source.path().to_owned();
        let check = |passed: &Passed| if options.allow_unknown { Ok(()) } else { passed.check(WAY_OUT) };
        check(source.passed())?;
        let tokenizer = tokenizer(&mut source.metadata, path)?;
        Cancel::check(&[params.cancel])?;
        if tokenizer.is_ok() && !options.plan {
            runtime.start_deep()?;
        }
        let chat_template = chat_template(&params, &runtime, &source.metadata, &tokenizer)?;
        let network = match options.text_only {
            true => None,
            false => Some(arch::network(&source, options.quantize, options.mtp).map_err(|e| in_file(path, e))?),
        };
        let passed: Vec<&Passed> = [source.passed()].into_iter().chain(network.as_ref().map(|n| &n.passed)).collect();
        passed.iter().try_for_each(|passed| check(passed)).map_err(|e| in_file(path, e))?;
        let n_unknown = passed.iter().map(|passed| passed.n_unknown).sum::<usize>() as u32;
        for what in passed.iter().filter(|_| !options.plan).flat_map(|p| p.notes.iter().chain(&p.unknown)) {
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
        let metrics = Arc::new(Metrics::new());
        let network = match network {
            Some(network) => {
                let suppressed = tokenizer.as_ref().map_or(&[][..], Tokenizer::suppressed);
                let network = Network::load(&runtime, &metrics, network, suppressed, source.stamp(), &mut params)?;
                describe_place(&mut info, &network, options.named_devices().first().copied(), &runtime);
                info.reads_source = network.reads_source;
                info.isa = network.backend.isa();
                describe_results(&mut info, &network);
                Some(Arc::new(network))
            }
            None => None,
        };
        if let Some(network) = network.as_ref().filter(|_| !options.plan) {
            let summary = summary(&info, &source, &network.backend.device_names());
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
            noted: Mutex::new(BTreeSet::new()),
            vocabulary: OnceLock::new(),
            metrics,
            network,
            tested_path: options.tested_path.map(Path::to_owned),
        }))
    }

    pub fn info(&self) -> &ModelInfo {
        &self.info
    }

    /// Returns the authors' recommended sampling parameters.
    pub fn advice(&self) -> &Advice {
        &self.advice
    }

    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    pub fn tokenizer(&self) -> Result<&Tokenizer> {
        self.tokenizer.as_ref().map_err(|why| Error::unsupported(format!("the model has no usable tokenizer: {why}")))
    }

    /// True if the token ends a turn or a text.
    pub(super) fn ends(&self, token: u32) -> bool {
        self.tokenizer.as_ref().is_ok_and(|t| t.is_end(token))
    }

    /// Renders a chat with the model's template; the chat's own text is marked.
    pub fn render_chat(&self, chat: &Chat) -> Result<MarkedText> {
        let calls = if chat.has_calls() { self.reply_form()?.calls.as_ref() } else { None };
        render_chat(self.chat_template()?, calls, chat)
    }

    pub fn chat_template(&self) -> Result<&ChatTemplate> {
        self.chat_template.as_ref().ok_or_else(|| Error::unsupported("the model has no chat template"))
    }

    /// Returns the possible replies to a chat.
    pub fn reply(&self, chat: &Chat) -> Result<Reply> {
        self.reply_to(chat, &self.render_chat(chat)?)
    }

    /// Returns the possible replies to a chat rendered as `prompt`.
    pub(super) fn reply_to(&self, chat: &Chat, prompt: &MarkedText) -> Result<Reply> {
        Reply::new(self.reply_form()?.clone(), chat, prompt)
    }

    /// Returns the form of replies, derived from the chat template.
    pub(super) fn reply_form(&self) -> Result<&Arc<ReplyForm>> {
        match self.reply_form.get() {
            Some(form) => Ok(form),
            None => {
                let form = find_reply_form(self.chat_template()?)?;
                Ok(self.reply_form.get_or_init(|| Arc::new(form)))
            }
        }
    }

    /// Compiles a grammar for this model's vocabulary.
    pub fn grammar(&self, source: &GrammarText) -> Result<Grammar> {
        self.noted(self.grammars()?.compile(source, self.tokenizer()?)?)
    }

    /// Compiles the grammar of a reply: reasoning, then tool calls or content, which may follow a grammar.
    /// `white_space`: true to allow white space between the parts of the calls' JSON.
    pub(super) fn reply_grammar(
        &self,
        reply: &Reply,
        content: Option<&GrammarText>,
        white_space: bool,
    ) -> Result<Grammar> {
        let (grammars, tokenizer) = (self.grammars()?, self.tokenizer()?);
        self.noted(grammars.compile_reply(reply, content, white_space, tokenizer)?)
    }

    /// Logs the notes of a grammar on ignored keywords, each distinct note once.
    fn noted(&self, grammar: Grammar) -> Result<Grammar> {
        for note in grammar.notes() {
            let mut hasher = XxHash64::default();
            hasher.write(note.as_bytes());
            let is_new = {
                let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
                noted.len() < MAX_NOTED && noted.insert(hasher.finish())
            };
            // Outside the lock: the host's callback may compile another grammar.
            if is_new {
                self.runtime().log(LogLevel::Warning, note);
            }
        }
        Ok(grammar)
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

    /// Runs template or grammar work on a thread of the runtime, like `Runtime::run_deep`. A model without a tokenizer
    /// has no templates and no grammars, so it needs no such thread.
    pub fn run_deep<T: Send>(&self, cancels: &[Option<&Cancel>], work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        self.tokenizer()?;
        self.runtime.run_deep(cancels, work)
    }

    pub(crate) fn tested_path(&self) -> Option<&Path> {
        self.tested_path.as_deref()
    }

    pub(crate) fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// Returns the network; an error for a text-only load.
    pub(super) fn network(&self) -> Result<&Arc<Network>> {
        self.network.as_ref().ok_or_else(|| Error::invalid("the model was loaded without its weights"))
    }

    /// True if the rows of an image attend to each other in both directions.
    pub fn is_mutual(&self) -> bool {
        self.network.as_ref().is_some_and(|network| network.is_mutual)
    }

    /// Returns the context length in tokens for `params`.
    pub(super) fn capacity_of(&self, params: &CacheParams) -> Result<usize> {
        Ok(params.capacity_or_default(self.network()?.context_length))
    }

    /// Identifies the model, including the types of its weights.
    pub(super) fn fingerprint(&self) -> Result<u64> {
        let network = self.network()?;
        let mut hash = XxHash64::with_seed(network.backend.digest());
        // Ring sizes of sliding-window caches depend on the step size.
        hash.write_u64(network.limits.max_tokens as u64);
        let prefixes = [self.info.architecture.as_str(), "realizar"];
        let counts = |key: &str| key.split_once('.').is_some_and(|(prefix, _)| prefixes.contains(&prefix));
        for (key, value) in self.metadata.iter().filter(|(key, _)| counts(key)) {
            hash.write(format!("{key} = {value:?}\n").as_bytes());
        }
        Ok(hash.finish())
    }

    /// Identifies the vocabulary; `None` without a tokenizer.
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
}

/// Rejects inconsistent lists of devices and shares.
fn check_devices(options: &LoadOptions) -> Result<()> {
    let LoadOptions { device, devices, shares, .. } = options;
    if *device != 0 && !devices.is_empty() {
        return Err(Error::invalid(format!("device is {device} and devices are set; set one of them")));
    }
    if devices.len() > MAX_GPUS {
        return Err(Error::invalid(format!("{} devices, {MAX_GPUS} are the most", devices.len())));
    }
    if !shares.is_empty() && shares.len() != devices.len() {
        return Err(Error::invalid(format!("device_split has {} shares; devices has {}", shares.len(), devices.len())));
    }
    if let Some(share) = shares.iter().find(|share| !(share.is_finite() && **share > 0.0)) {
        return Err(Error::invalid(format!("a share of {share}")));
    }
    Ok(())
}

/// Returns the caller's chat template, or the model's own.
fn chat_template(
    params: &LoadParams,
    runtime: &Runtime,
    metadata: &Metadata,
    tokenizer: &std::result::Result<Tokenizer, String>,
) -> Result<Option<ChatTemplate>> {
    match (tokenizer, params.options.chat_template) {
        (Ok(t), Some(source)) => runtime.run_deep(&[params.cancel], || ChatTemplate::given(source, t)).map(Some),
        (Ok(t), None) => ChatTemplate::from_metadata(metadata, t),
        (Err(_), None) => Ok(None),
        (Err(why), Some(_)) => {
            let what = format!("rz_model_params.chat_template needs a model with a tokenizer: {why}");
            Err(Error::unsupported(what))
        }
    }
}

/// Reads the tokenizer. An unsupported one leaves the model usable by token ids; a damaged one is an error.
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

/// Adds the file name to errors about a key or a value.
pub(super) fn in_file(path: &Path, e: Error) -> Error {
    match e {
        Error::InvalidArgument(what) => Error::format(path, what),
        Error::Unsupported(what) => Error::unsupported(format!("{what}: {}", path.display())),
        other => other,
    }
}

/// Returns one log line: network, layers, number of tensors by type, device.
fn summary(info: &ModelInfo, source: &Source, device: &str) -> String {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for tensor in source.tensors() {
        *types.entry(quant::format(tensor.dtype).map_or("?", |format| format.name)).or_default() += 1;
    }
    let types: Vec<String> = types.iter().map(|(name, n)| format!("{n} {name}")).collect();
    format!("{}, {} layers, {} on {device}", info.architecture, info.n_layers, types.join(" + "))
}

/// Fills in the placement of layers; `named`: the first device that the caller named.
fn describe_place(info: &mut ModelInfo, network: &Network, named: Option<u32>, runtime: &Runtime) {
    info.device = named.unwrap_or_else(|| network.backend.device_number());
    let gpus = network.backend.gpus(info.n_layers as usize);
    info.gpus = gpus.iter().map(|&(device, layers)| (device, layers as u32)).collect();
    info.gpu_layers = info.gpus.iter().map(|(_, layers)| layers).sum();
    if info.device != device::CPU_DEVICE && info.gpu_layers < info.n_layers {
        let (on_gpu, names) = (info.gpu_layers, network.backend.device_names());
        runtime.log(LogLevel::Info, &format!("{on_gpu} of {} layers are on {names}", info.n_layers));
    }
    let (layers, bytes) = &network.experts;
    info.experts = (layers.start as u32..layers.end as u32, *bytes);
    let copied_from = network.backend.copied_from();
    info.experts_copied_from = copied_from.map(|rows| u32::try_from(rows).unwrap_or(u32::MAX));
    if !layers.is_empty() {
        let (first, last) = (layers.start, layers.end - 1);
        runtime.log(LogLevel::Info, &format!("experts of layers {first} to {last} are on the CPU"));
        if let Some(from) = info.experts_copied_from {
            let what = format!("steps of {from} tokens or more copy them to the GPU");
            runtime.log(LogLevel::Info, &what);
        }
    }
    info.weight_bytes = network.backend.weight_bytes().map(|(_, bytes)| bytes).sum();
}

/// Fills in the kinds of results.
fn describe_results(info: &mut ModelInfo, network: &Network) {
    // A draft head generates nothing by itself.
    if network.check_whole().is_ok() {
        let embedder = &network.embedder;
        info.generates = network.program.vocab > 0;
        info.embedding_dim = embedder.width(Pooling::Mean);
        info.pooling = embedder.head.pooling;
        info.n_scores = embedder.head.ranker.as_ref().map_or(0, |_| embedder.width(Pooling::Rank));
    }
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
