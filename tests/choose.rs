//! Sampling on a GPU: for the same logits, the tokens and every draw equal the host sampler's. On the emulation of
//! `cuda_shim/`, or on a GPU if the emulation is not available.
#![cfg(cuda)]
#![allow(unsafe_code)]

mod gpu;
#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use realizar::cuda;
use realizar::device::Batch;
use realizar::device::sequence::Sequence;
use realizar::device::{Backend, Executor, StepBudget};
use realizar::engine::{
    self, Chooser, Filter, GrammarKind, GrammarText, Job, JobParams, LoadOptions, Model, Request, SamplerParams,
    Session, step_jobs,
};
use realizar::error::{Error, Result};
use realizar::gpu::GpuDevice;
use realizar::graph::op::{Op, TensorId, Weight};
use realizar::graph::program::{Program, ProgramBuilder};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{StepInputs, StepLimits};
use realizar::graph::weights::{MatrixSource, Weights};
use realizar::quant;
use realizar::sampling::{NO_TOKEN, NOT_A_NUMBER, SamplingRule, Scratch, choose};
use realizar::tensor::DType;

use it::support::models;
use it::support::save::save;
use it::support::shim::Shim;
use it::support::tiny::{self, PROMPT, Rng, Tiny};

const GPU: u32 = 2;

fn below(rng: &mut Rng, n: usize) -> usize {
    (rng.next() % n as u64) as usize
}

fn pick<T: Copy>(rng: &mut Rng, of: &[T]) -> T {
    of[below(rng, of.len())]
}

/// A head whose columns are rows of logits.
struct Head {
    vocab: usize,
    columns: Vec<Vec<f32>>,
}

const WIDTH: usize = 32;

impl MatrixSource for Head {
    fn name(&self) -> &str {
        "a head"
    }
    fn dtype(&self) -> DType {
        quant::F32
    }
    fn rows(&self) -> usize {
        self.vocab
    }
    fn cols(&self) -> usize {
        WIDTH
    }
    fn read(&self, rows: std::ops::Range<usize>, out: &mut [u8]) -> Result<()> {
        let value = |row: usize, col: usize| self.columns.get(col).map_or(0.0, |column| column[row]);
        let values = rows.flat_map(|row| (0..WIDTH).map(move |col| (row, col)));
        out.as_chunks_mut().0.iter_mut().zip(values).for_each(|(to, (row, col))| *to = value(row, col).to_le_bytes());
        Ok(())
    }
}

/// A network that is a head alone.
struct Choosing {
    program: Arc<Program>,
    backend: Backend,
    x: TensorId,
    state: Sequence,
}

const ROWS: usize = 8;
const LIMITS: StepLimits = StepLimits { max_tokens: ROWS, max_outputs: ROWS };

impl Choosing {
    fn new(head: &Head) -> Choosing {
        let mut b = ProgramBuilder::default();
        let layer = KvLayer { n_kv_heads: 1, head_dim: 4, value_dim: 4, window: 0, is_latent: false, pool: 1 };
        b.kv_layer(layer);
        let x = b.tensor(WIDTH);
        b.push(Op::Logits { x, head: Weight(0), bias: None, scale: 1.0, softcap: 0.0 });
        let program = Arc::new(b.finish(head.vocab, &[x]));
        let weights = Weights { matrices: vec![head], ..Weights::default() };
        program.check(&weights).unwrap();
        let device = cuda::open(0, &LoadOptions::default()).unwrap();
        let backend = Backend::Gpu(device.load(&program, &weights, &mut |_, _| Ok(())).unwrap());
        let layers = program.kv_layers.clone();
        let (k_type, v_type) = (quant::F32, quant::F32);
        let spec = SequenceSpec { layers, recurrent: [].into(), capacity: ROWS, k_type, v_type, max_step: ROWS };
        let state = backend.new_sequence(&spec).unwrap();
        Choosing { program, backend, x, state }
    }

    fn executor(&self) -> Executor {
        self.backend.new_executor(&self.program, LIMITS).unwrap()
    }

    /// A step whose logits are those columns of the head, chosen from by rules.
    fn step(&mut self, executor: &mut Executor, columns: &[usize], rules: &[Option<SamplingRule>]) {
        let n = columns.len();
        let positions: Vec<u32> = (0..n as u32).collect();
        let (ids, slots, states) = (vec![0; n], vec![0; n], &mut [&mut self.state]);
        let batch = &mut Batch {
            inputs: StepInputs {
                ids: &ids,
                positions: &positions,
                outputs: &positions,
                rules,
                sequences: &slots,
                ..Default::default()
            },
            sequences: states,
        };
        executor.begin(batch, 0..self.program.ops.len()).unwrap();
        let mut x = vec![0.0; n * WIDTH];
        columns.iter().enumerate().for_each(|(row, column)| x[row * WIDTH + column] = 1.0);
        executor.write(self.x, &x).unwrap();
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
    }
}

/// Rows of logits as networks make them, with ties, all equal, with wide gaps, and with few that are possible.
fn columns(vocab: usize, rng: &mut Rng) -> Vec<Vec<f32>> {
    let mut make = |f: &mut dyn FnMut(&mut Rng, usize) -> f32| (0..vocab).map(|i| f(rng, i)).collect::<Vec<f32>>();
    vec![
        make(&mut |rng, _| 3.0 * rng.normal() as f32),
        make(&mut |rng, _| (rng.normal() * 2.0).round() as f32),
        make(&mut |_, _| -2.5),
        make(&mut |rng, _| 1e30 * rng.normal() as f32),
        make(&mut |rng, _| 1e-3 * rng.normal() as f32),
        make(&mut |rng, i| if i % 97 == 3 { 20.0 + rng.uniform() as f32 } else { rng.normal() as f32 }),
        make(&mut |rng, _| 12.0 * rng.uniform() as f32 - 20.0),
        make(&mut |rng, i| if rng.next().is_multiple_of(3) { 0.0 } else { [-0.0, 1.5, f32::MAX, f32::MIN][i % 4] }),
    ]
}

/// A column that no product with zeros would leave as it is.
fn odd_column(vocab: usize, kind: usize, rng: &mut Rng) -> Vec<f32> {
    let odd = [f32::NAN, f32::NEG_INFINITY, f32::INFINITY, f32::MAX];
    let one = |_| match kind {
        0 => f32::NAN,
        1 => f32::NEG_INFINITY,
        2 => pick(rng, &odd[..2]),
        3 => pick(rng, &odd),
        5 => pick(rng, &[f32::NEG_INFINITY, f32::MAX]),
        6 if rng.next().is_multiple_of(2) => pick(rng, &odd[1..]),
        4 if rng.next().is_multiple_of(2) => pick(rng, &odd[..2]),
        _ => 4.0 * rng.normal() as f32,
    };
    (0..vocab).map(one).collect()
}

/// A sampler, what it has seen, and the tokens that a grammar would allow.
struct Trial {
    params: SamplerParams,
    history: Vec<u32>,
    allowed: Option<Vec<u32>>,
    banned: Vec<u32>,
}

fn trial(vocab: usize, rng: &mut Rng) -> Trial {
    let on = |rng: &mut Rng| rng.next().is_multiple_of(3);
    let mut params = SamplerParams { seed: rng.next(), ..Default::default() };
    params.temperature = pick(rng, &[0.0, 0.05, 0.7, 1.0, 1.0, 1.3, 5.0, 1e-30]);
    if on(rng) {
        params.top_k = pick(rng, &[1, 2, 40, 200, 3000, (vocab as u32).saturating_sub(1), vocab as u32, u32::MAX]);
    }
    if on(rng) {
        params.top_p = pick(rng, &[1e-6, 0.1, 0.5, 0.9, 0.95, 0.999, 0.999_999_94, 1.0]);
    }
    if on(rng) {
        params.min_p = pick(rng, &[1e-9, 0.01, 0.05, 0.5, 1.0]);
    }
    if on(rng) {
        params.repeat_penalty = pick(rng, &[0.5, 1.0, 1.1, 2.0]);
        params.presence_penalty = pick(rng, &[0.0, 0.4, -0.3]);
        params.frequency_penalty = pick(rng, &[0.0, 0.1, 7.7]);
        params.penalty_window = pick(rng, &[64, 1, 5, 300]);
    }
    if on(rng) {
        let bias = |rng: &mut Rng| pick(rng, &[0.5, -1.25, 3.3, f32::NEG_INFINITY, 1e38, -1e38]);
        params.logit_biases = (0..below(rng, 50)).map(|_| (below(rng, vocab) as u32, bias(rng))).collect();
    }
    // Few of them, so that tokens come again, and some beyond the vocabulary.
    let some = 1 + below(rng, vocab.min(30) + 2);
    let history = (0..below(rng, 120)).map(|_| below(rng, some) as u32 * 7 % (vocab as u32 + 2)).collect();
    let dense = pick(rng, &[1, 2, 30]);
    let allowed = on(rng).then(|| {
        let mut bits = vec![0; vocab.div_ceil(32)];
        (0..vocab).filter(|_| rng.next().is_multiple_of(dense)).for_each(|id| bits[id / 32] |= 1 << (id % 32));
        bits
    });
    let banned = if on(rng) { (0..below(rng, 9)).map(|_| below(rng, vocab) as u32).collect() } else { Vec::new() };
    Trial { params, history, allowed, banned }
}

impl Trial {
    fn rule(&self) -> SamplingRule<'_> {
        SamplingRule {
            params: &self.params,
            random: self.params.seed,
            recent: [&self.history, &[]],
            banned: &self.banned,
            allowed: self.allowed.as_deref(),
            none: NO_TOKEN,
            ..Default::default()
        }
    }
}

/// Steps of eight rows, each with its own rule.
fn agree(shim: Option<&Shim>, head: &Head, steps: usize, rng: &mut Rng) -> usize {
    let mut choosing = Choosing::new(head);
    let mut executor = choosing.executor();
    let mut draws = 0;
    let all: Vec<Vec<f32>> = (0..head.columns.len())
        .map(|column| {
            let mut logits = vec![f32::NAN; head.vocab];
            choosing.step(&mut executor, &[column], &[]);
            executor.read_logits(0, &mut logits).unwrap();
            executor.end().unwrap();
            logits
        })
        .collect();
    for step in 0..steps {
        shim.iter().for_each(|shim| shim.order(step as i32 % 3));
        let rows = 1 + step % ROWS;
        let columns: Vec<usize> = (0..rows).map(|_| below(rng, head.columns.len())).collect();
        let trials: Vec<Trial> = (0..rows).map(|_| trial(head.vocab, rng)).collect();
        let rules: Vec<_> = trials.iter().map(|trial| (!rng.next().is_multiple_of(9)).then(|| trial.rule())).collect();
        choosing.step(&mut executor, &columns, &rules);
        for (i, (trial, rule)) in trials.iter().zip(&rules).enumerate() {
            let logits = &all[columns[i]];
            let got = executor.token(i).unwrap();
            // Biases may make more of them infinite.
            let is_unchanged = rule.as_ref().is_none_or(|rule| rule.entries() == 0);
            if logits.iter().any(|logit| logit.is_nan() || is_unchanged && *logit == f32::INFINITY) {
                assert_eq!(got, NOT_A_NUMBER, "{} tokens, column {}", head.vocab, columns[i]);
                continue;
            }
            if rule.is_none() {
                let best = (0..)
                    .zip(logits)
                    .fold((NO_TOKEN, f32::NEG_INFINITY), |best, (i, &v)| if v > best.1 { (i, v) } else { best });
                assert_eq!(got, best.0, "{} tokens, column {}", head.vocab, columns[i]);
                continue;
            }
            let expected = choose(&trial.rule(), logits, &mut Scratch::default()).unwrap().token;
            let expected = expected.unwrap_or(NO_TOKEN);
            draws += usize::from(expected != NO_TOKEN && trial.params.temperature > 0.0);
            let Trial { params, history, allowed, .. } = trial;
            assert_eq!(
                got,
                expected,
                "{} tokens, column {}, {params:?}, behind {} tokens, a mask: {}",
                head.vocab,
                columns[i],
                history.len(),
                allowed.is_some()
            );
        }
        executor.end().unwrap();
    }
    draws
}

#[test]
fn a_gpu_chooses_as_the_host_does() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let mut rng = Rng(11);
    let mut draws = 0;
    for (vocab, steps) in [(1, 12), (2, 40), (31, 100), (32, 60), (33, 100), (1000, 160), (5000, 60)] {
        let head = Head { vocab, columns: columns(vocab, &mut rng) };
        draws += agree(gpu.0.as_ref(), &head, steps, &mut rng);
    }
    println!("{draws} draws");
    assert!(draws > 1000);
}

#[test]
fn a_gpu_chooses_from_large_vocabularies() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let mut rng = Rng(12);
    for (vocab, steps) in [(50_257, 9), (151_936, 4)] {
        let head = Head { vocab, columns: columns(vocab, &mut rng) };
        agree(gpu.0.as_ref(), &head, steps, &mut rng);
    }
}

#[test]
fn a_gpu_tells_what_is_nan() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let mut rng = Rng(13);
    for (vocab, kind) in [1, 33, 1500].into_iter().flat_map(|vocab| (0..7).map(move |kind| (vocab, kind))) {
        let head = Head { vocab, columns: vec![odd_column(vocab, kind, &mut rng)] };
        agree(gpu.0.as_ref(), &head, 16, &mut rng);
    }
}

// ---- generation

fn load(path: &Path, gpu_layers: u32) -> Arc<Model> {
    Model::load(path, LoadOptions { device: GPU, gpu_layers, deterministic: true, ..Default::default() }).unwrap()
}

fn samplers() -> Vec<SamplerParams> {
    let warm = SamplerParams { temperature: 0.8, seed: 5, ..Default::default() };
    let penalties =
        SamplerParams { repeat_penalty: 1.3, frequency_penalty: 0.2, penalty_window: 9, ..Default::default() };
    vec![
        warm.clone(),
        SamplerParams { top_k: 20, top_p: 0.9, min_p: 0.01, seed: 9, ..warm.clone() },
        penalties.clone(),
        SamplerParams {
            temperature: 1.2,
            top_p: 0.8,
            logit_biases: vec![(3, f32::NEG_INFINITY), (7, 2.0)],
            ..penalties
        },
        // What a device does not follow.
        SamplerParams { order: Filter::TEMPERATURE_FIRST.to_vec(), top_p: 0.8, xtc_probability: 0.5, ..warm.clone() },
        SamplerParams { mirostat_tau: 3.0, typical_p: 0.9, top_n_sigma: 2.0, temperature_range: 0.3, ..warm.clone() },
        SamplerParams { no_repeat_ngram_size: 2, dry_multiplier: 0.8, dry_window: 20, ..Default::default() },
        SamplerParams { banned_sequences: vec![vec![203], vec![13, 1]], ..Default::default() },
        // More than a device takes.
        SamplerParams { penalty_window: 5000, presence_penalty: 0.5, ..warm },
    ]
}

/// The tokens that follow five of the prompt, each chosen by the host from the logits of the device.
fn by_the_host(model: &Arc<Model>, params: &SamplerParams, n: usize) -> Vec<u32> {
    let (mut s, mut sampler) = (models::session(model), Chooser::new(params.clone()).unwrap());
    PROMPT[..5].iter().for_each(|token| s.prefill(&[*token], None).unwrap());
    let (mut token, mut tokens) = (PROMPT[5], Vec::new());
    for _ in 0..n {
        s.prefill(&[token], None).unwrap();
        token = sampler.sample(s.logits().unwrap(), s.tokens()).unwrap();
        tokens.push(token);
    }
    tokens
}

fn tiny() -> Tiny {
    Tiny::new("llama", quant::Q8_0).layers(2).shape(64, 4, 2, 16, 96).change(|t| (t.eos, t.seed) = (2, 7))
}

#[test]
fn sampled_text_runs_ahead_and_is_that_of_the_host() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let (_dir, path, _) = save(&tiny());
    for layers in [0, 1] {
        let model = load(&path, layers);
        for (i, params) in samplers().iter().enumerate() {
            let expected = by_the_host(&model, params, 40);
            let end = expected.iter().position(|token| *token == 2).map_or(40, |end| end + 1);
            for order in 0..3 {
                gpu.0.iter().for_each(|shim| shim.order(order));
                let (mut s, mut sampler) = (models::session(&model), Chooser::new(params.clone()).unwrap());
                s.prefill(&PROMPT[..5], None).unwrap();
                // In pieces of any size, and by single calls.
                let (mut tokens, mut token) = (Vec::new(), PROMPT[5]);
                while tokens.len() < end {
                    let mut out = vec![0; [1, 7, 3, 20][tokens.len() % 4].min(end - tokens.len())];
                    let mut n = 0;
                    if order == 2 && tokens.len() % 5 == 0 {
                        (out[0], n) = (s.decode(token, Some(&mut sampler)).unwrap(), 1);
                    } else {
                        s.generate(token, Some(&mut sampler), &mut out, &mut n, None).unwrap();
                    }
                    tokens.extend_from_slice(&out[..n]);
                    token = out[n - 1];
                }
                assert_eq!(tokens, expected[..end], "{layers} layers, sampler {i}, order {order}");
                assert_eq!(s.len(), 5 + end);
            }
        }
    }
}

/// Recurrent states change places with every step that runs ahead.
#[test]
fn recurrent_networks_choose_ahead() {
    let Some(_gpu) = gpu::gpu(1) else { return };
    let all = tiny::architectures(|name| Tiny::new(name, quant::Q8_0).shape(64, 4, 2, 16, 96));
    for (name, tiny) in all.into_iter().filter(|(_, tiny)| !tiny.net.mixers.is_empty()) {
        let (_dir, path, _) = save(&tiny);
        let (model, params) = (load(&path, 0), &samplers()[3]);
        let expected = by_the_host(&model, params, 12);
        let end = expected.iter().position(|token| *token == 2).map_or(12, |end| end + 1);
        let (mut s, mut sampler) = (models::session(&model), Chooser::new(params.clone()).unwrap());
        PROMPT[..5].iter().for_each(|token| s.prefill(&[*token], None).unwrap());
        let (mut out, mut n) = ([0; 12], 0);
        s.generate(PROMPT[5], Some(&mut sampler), &mut out[..end], &mut n, None).unwrap();
        assert_eq!(out[..n], expected[..end], "{name}");
    }
}

/// The device chooses among the tokens that a grammar allows.
#[test]
fn grammars_restrict_what_the_device_chooses() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/stories260K-f32.gguf");
    let model = load(&path, 0);
    let text = r#"root ::= ("Lily " | "Tim " | "a" [a-z] " ")+ "end""#;
    let grammar = engine::on_new_thread(|| model.grammar(&GrammarText::new(GrammarKind::Gbnf, text))).unwrap();
    let sampler = |seed| {
        let mut sampler =
            Chooser::new(SamplerParams { seed, temperature: 1.0, top_k: 50, ..Default::default() }).unwrap();
        sampler.set_grammar(Some(grammar.matcher().unwrap()));
        sampler
    };
    let start = || {
        let mut s = models::session(&model);
        s.prefill(&[1, 403, 407], None).unwrap();
        s
    };
    let expected = [1, 2].map(|seed| {
        let (mut s, mut sampler, mut tokens) = (start(), sampler(seed), vec![261]);
        for i in 0..12 {
            s.prefill(&tokens[i..], None).unwrap();
            tokens.push(sampler.sample(s.logits().unwrap(), s.tokens()).unwrap());
            if model.tokenizer().unwrap().is_end(tokens[i + 1]) {
                break;
            }
        }
        tokens.split_off(1)
    });
    for (seed, expected) in [1, 2].into_iter().zip(&expected) {
        let (mut s, mut out, mut n) = (start(), vec![0; expected.len()], 0);
        let copies = gpu.0.as_ref().map(|shim| shim.number("shim_copies_out"));
        s.generate(261, Some(&mut sampler(seed)), &mut out, &mut n, None).unwrap();
        assert_eq!(out, *expected);
        assert_eq!(gpu.0.as_ref().map(|shim| shim.number("shim_copies_out")), copies);
    }
    let make = |seed| {
        let (s, sampler) = (start(), Some(sampler(seed)));
        let request =
            Request::new(&s, &[261], JobParams { max_tokens: 12, chooser: sampler, ..Default::default() }).unwrap();
        Job::new(s, request)
    };
    let mut jobs = [1, 2].map(make);
    while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), Some(Duration::from_secs(100))).unwrap() {}
    for (job, expected) in jobs.iter_mut().zip(&expected) {
        job.read_tokens(|tokens| {
            assert_eq!(tokens, &expected[..]);
            Ok(())
        })
        .unwrap();
    }
}

/// Neither inputs of the host nor logits cross for a token that is generated ahead.
#[test]
fn nothing_is_copied_for_a_token_that_runs_ahead() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let Some(shim) = gpu.shim() else { return };
    let (_dir, path, _) = save(&tiny());
    let model = load(&path, 0);
    for params in std::iter::once(None).chain(samplers().into_iter().take(4).map(Some)) {
        let mut sampler = params.map(|params| Chooser::new(params).unwrap());
        let mut s = models::session(&model);
        s.prefill(&PROMPT[..5], None).unwrap();
        let count = |name| shim.number(name);
        let (mut out, mut n) = ([0; 30], 0);
        s.generate(PROMPT[5], sampler.as_mut(), &mut out[..5], &mut n, None).unwrap();
        let before = [count("shim_copies_in"), count("shim_copies_out"), count("shim_launches")];
        let mut more = 0;
        s.generate(out[n - 1], sampler.as_mut(), &mut out, &mut more, None).unwrap();
        let [copies_in, copies_out, launches] = [
            count("shim_copies_in") - before[0],
            count("shim_copies_out") - before[1],
            count("shim_launches") - before[2],
        ];
        println!("{more} tokens: {copies_in} copies to the device, {copies_out} from it, {launches} launches");
        // The inputs of the first.
        assert_eq!((copies_in, copies_out), (1, 0));
    }
}

#[test]
fn batches_and_jobs_choose_on_the_device() {
    let Some(gpu) = gpu::gpu(1) else { return };
    let (_dir, path, _) = save(&tiny());
    let model = load(&path, 0);
    let all = samplers();
    let n = 16;
    let expected: Vec<Vec<u32>> = all.iter().map(|params| by_the_host(&model, params, n)).collect();
    let start = || {
        let mut s = models::session(&model);
        s.prefill(&PROMPT[..5], None).unwrap();
        s
    };
    let (mut sessions, mut own): (Vec<Session>, Vec<Chooser>) =
        all.iter().map(|params| (start(), Chooser::new(params.clone()).unwrap())).unzip();
    let mut tokens = vec![PROMPT[5]; all.len()];
    for step in 0..n {
        let mut next = vec![0; all.len()];
        let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
        let mut samplers: Vec<Option<&mut Chooser>> = own.iter_mut().map(Some).collect();
        engine::decode_batch(&mut together, &tokens, &mut samplers, &mut next).unwrap();
        let expected: Vec<u32> = expected.iter().map(|tokens| tokens[step]).collect();
        assert_eq!(next, expected, "step {step}");
        tokens = next;
    }
    let budgets = [None, Some(Duration::from_millis(3)), Some(Duration::from_secs(1000))];
    // All, and those that a device takes, which run ahead where there is time.
    for (budget, some) in budgets.into_iter().flat_map(|budget| [(budget, all.len()), (budget, 4), (budget, 1)]) {
        let make = |params: &SamplerParams| {
            let sampler = Some(Chooser::new(params.clone()).unwrap());
            let (s, params) = (start(), JobParams { max_tokens: n, chooser: sampler, ..Default::default() });
            let request = Request::new(&s, &PROMPT[5..6], params).unwrap();
            Job::new(s, request)
        };
        let mut jobs: Vec<Job> = all[..some].iter().map(make).collect();
        let copies = gpu.0.as_ref().map(|shim| shim.number("shim_copies_in"));
        loop {
            let mut together: Vec<&mut Job> = jobs.iter_mut().collect();
            if step_jobs(&mut together, budget).unwrap() {
                break;
            }
        }
        if let (Some(shim), Some(before)) = (gpu.0.as_ref(), copies) {
            let copies = shim.number("shim_copies_in") - before;
            println!("{some} jobs, {budget:?}: {copies} copies to the device");
            // The prompts, and what is left whenever a job ends.
            assert!(budget < Some(Duration::from_secs(1)) || some > 4 || copies <= 2 + some as u64);
        }
        for (job, expected) in jobs.iter_mut().zip(&expected) {
            let end = expected.iter().position(|token| *token == 2).map_or(n, |end| end + 1);
            job.read_tokens(|tokens| {
                assert_eq!(tokens, &expected[..end], "{budget:?}");
                Ok(())
            })
            .unwrap();
        }
    }
}

/// A token whose embedding is NaN: only calls and jobs that append it fail, and the error names its position.
#[test]
fn what_is_nan_is_an_error_of_its_own_sequence() {
    const NAN_TOKEN: u32 = 123;
    let Some(_gpu) = gpu::gpu(1) else { return };
    let tiny = tiny().change(|t| t.tied = false);
    let (mut file, ..) = tiny.file();
    let table = file.tensors.iter_mut().find(|t| t.name == "token_embd.weight").unwrap();
    // The scale of a block of 8 bits.
    let block = NAN_TOKEN as usize * tiny.net.hidden / 32 * 34;
    table.data[block..block + 2].copy_from_slice(&[0x00, 0x7e]);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("nan.gguf");
    std::fs::write(&path, file.build().0).unwrap();
    let model = load(&path, 0);
    let start = |n: usize| {
        let mut s = models::session(&model);
        s.prefill(&PROMPT[..n], None).unwrap();
        s
    };
    let fails = |result: Result<u32>, position: usize| {
        let error = result.unwrap_err();
        let named = error.to_string().contains(&format!("position {position} is NaN"));
        assert!(matches!(error, Error::Format { .. }) && named, "{error}");
    };
    let samplers = || std::iter::once(None).chain(samplers().into_iter().map(Some));
    for params in samplers() {
        let mut sampler = params.map(|params| Chooser::new(params).unwrap());
        let mut s = start(5);
        fails(s.decode(NAN_TOKEN, sampler.as_mut()), 5);
        let (mut out, mut n) = ([0; 4], 0);
        fails(s.generate(NAN_TOKEN, sampler.as_mut(), &mut out, &mut n, None).map(|_| 0), 5);
        assert_eq!((n, s.tokens()), (0, &PROMPT[..5]));
        s.fetch_logits().unwrap();
        assert!(s.logits() == start(5).logits());
    }
    let mut sessions = [4, 5, 6].map(start);
    let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
    let tokens = [PROMPT[4], NAN_TOKEN, PROMPT[6]];
    fails(engine::decode_batch(&mut together, &tokens, &mut [const { None }; 3], &mut [0; 3]).map(|()| 0), 5);
    assert_eq!(sessions.each_ref().map(Session::len), [4, 5, 6]);
    for params in samplers() {
        let job = |prompt: &[u32]| {
            let s = models::session(&model);
            let sampler = params.clone().map(|params| Chooser::new(params).unwrap());
            let params = JobParams { max_tokens: 8, chooser: sampler, ..Default::default() };
            let request = Request::new(&s, prompt, params).unwrap();
            Job::new(s, request)
        };
        let prompts = [&PROMPT[..5], &[PROMPT[0], NAN_TOKEN], &PROMPT[2..9]];
        let made = |job: &mut Job| job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap();
        let alone = [0, 2].map(|i| {
            let mut job = job(prompts[i]);
            while !step_jobs(&mut [&mut job], None).unwrap() {}
            made(&mut job)
        });
        let mut jobs = prompts.map(job);
        while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), None).unwrap() {}
        fails(jobs[1].failure().cloned().map_or(Ok(0), Err), 1);
        assert_eq!([0, 2].map(|i| made(&mut jobs[i])), alone);
    }
}
