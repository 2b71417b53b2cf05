//! The self-test that a GPU must pass before a model is loaded on it. For each kind of op group (ops that execute
//! together) of the model, it runs a small program on the device and on the CPU; the results must agree.
//!
//! Columns, heads, vectors and RoPE have the model's widths. The numbers of matrix rows, experts and vocabulary entries
//! are small and odd, and weights are synthetic, so a test takes milliseconds and needs no file. The driver remembers
//! passed tests; a file also keeps them if the caller names one (`Kept`).

mod adapted;
mod made_up;
mod rules;
mod shrink;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::Hasher;
use std::ops::Range;
use std::sync::Arc;

use twox_hash::XxHash64;

pub use self::adapted::{Factored, check_adapter};
use self::made_up::{Input, Made, MadeUp, input_of};
use self::shrink::{TABLE, rename, shrink, tested};
use crate::cpu::executor::CpuExecutor;
use crate::cpu::kernels::Isa;
use crate::cpu::sequence::CpuSequence;
use crate::cpu::threads::pool::Pool;
use crate::cpu::{CpuBackend, CpuLoad};
use crate::device::adapter::Adapter;
use crate::device::batch::Batch;
use crate::device::executor::{DeviceExecutor, Executor};
use crate::gpu::{GpuDevice, GpuModel, Kept};
use crate::graph::adapter_set::AdapterSet;
use crate::graph::load_options::LoadOptions;
use crate::graph::op::{Index, KvLayerId, NormKind, Op, TensorId};
use crate::graph::program::{Program, ProgramBuilder, TensorSpec};
use crate::graph::step::{MEDIA_ROW, StepInputs, StepLimits};
use crate::graph::step_budget::StepBudget;

use crate::device::sequence::Sequence;
use crate::error::{Error, Result, try_filled};
use crate::graph::sequence_spec::{KvLayer, SequenceSpec};
use crate::graph::weights::{LowRank, MatrixSource, Rope, Weights};
use crate::quant;
use crate::sampling::SamplingRule;
use crate::tensor::DType;

/// Number of positions that are filled before the tested positions, so that the tested positions cross the end of a
/// chunk and of a ring buffer.
const FILL: usize = 250;
const CAPACITY: usize = 512;

/// Number of tokens of two sequences in a step.
type Counts = [usize; 2];

/// A step of a test.
#[derive(Clone, Copy)]
struct TestStep {
    counts: Counts,
    /// True to add image inputs.
    has_picture: bool,
}

/// The steps of a test. The second one replays the first one's captured graph.
const STEPS: &[Counts] = &[[1, 0], [1, 0], [2, 0], [5, 0]];
/// Steps for recurrent layers, which have kernels for chunks of tokens.
const RECURRENT_STEPS: &[Counts] = &[[1, 0], [1, 0], [2, 0], [5, 0], [70, 0], [1, 1], [33, 40]];
/// Steps for attention, which has prefill kernels.
const ATTENTION_STEPS: &[Counts] = &[[1, 0], [1, 0], [5, 0], [37, 0], [1, 1], [1, 4], [20, 33]];
/// Steps for matrix products, which have kernels for many tokens.
const PRODUCT_STEPS: &[Counts] = &[[1, 0], [1, 0], [2, 0], [5, 0], [19, 0], [40, 0], [200, 0]];
/// Steps for the output matrix, whose input rows are only the output rows of a step.
const HEAD_STEPS: &[Counts] = &[[1, 0], [1, 0], [2, 0], [5, 0], [40, 0]];
/// Additional steps with media rows, M-RoPE positions and spans, if ops read any.
const PICTURE_STEPS: &[Counts] = &[[4, 3], [37, 0]];

/// Types of keys and values to test. Each type occurs at least once for keys and at least once for values.
const TYPES: &[[DType; 2]] =
    &[[quant::F16; 2], [quant::F32, quant::Q8_0], [quant::Q8_0, quant::Q4_0], [quant::Q4_0, quant::F32]];

/// Types of keys and values for tests that select positions: types that do not round.
const EXACT: &[[DType; 2]] = &[[quant::F32; 2]];

/// Relative RMS error that FP16 products and accumulation order explain.
const CLOSE: f64 = 4e-3;
/// Relative RMS error if only one of CPU and device rounds activations or keys to 8 bits, or if they round differently.
const ROUNDED: f64 = 3e-2;
/// Relative RMS error of a 4-bit KV cache. A missing inverse Hadamard transform has an error above 1.
const FOUR_BITS: f64 = 1.5e-1;

/// Runs those tests of a program that the device has not passed yet. Marks the device unavailable on failure. Returns
/// the largest error relative to its tolerance. `kept`: file with the tests that earlier processes passed.
pub fn check(device: &Arc<dyn GpuDevice>, program: &Program, weights: &Weights, kept: Option<&Kept>) -> Result<f64> {
    if device.plans() {
        return Ok(0.0);
    }
    kept.iter().for_each(|kept| kept.recall(&**device));
    let known = device.verdict().passed.len();
    let had = device.optional_kernels().is_some();
    let result = match check_all(device, program, weights) {
        // Repeat everything with the fallback kernels.
        Err(_) if had && device.optional_kernels().is_none() => check_all(device, program, weights),
        result => result,
    };
    if device.verdict().passed.len() != known {
        kept.iter().for_each(|kept| kept.keep(&**device));
    }
    result
}

fn check_all(device: &Arc<dyn GpuDevice>, program: &Program, weights: &Weights) -> Result<f64> {
    let program = &storing(program);
    let mut largest = 0.0f64;
    let pool = Arc::new(Pool::new(1)?);
    let groups = device.groups(program, weights)?;
    let named = program.ops_of_tensors();
    for (i, group) in groups.iter().enumerate() {
        let Some(ops) = with_keys(program, &groups[..i], group)? else { continue };
        let mut case = Case::new(&**device, program, weights, &ops, &named)?;
        let types = match case.stores {
            _ if case.program.ops.iter().any(|op| matches!(op, Op::Select(_))) => EXACT,
            0 => &TYPES[..1],
            _ => TYPES,
        };
        for types in types {
            largest = largest.max(case.check(device, &pool, *types)?);
        }
    }
    for op in &program.ops {
        let Op::ToHost { x, scores, .. } = op else { continue };
        let crossing = crossing([*x, *scores].map(|tensor| program.width(tensor)));
        let mut case = Case::new(&**device, &crossing, weights, &[0], &crossing.ops_of_tensors())?;
        largest = largest.max(case.check(device, &pool, TYPES[0])?);
    }
    Ok(largest)
}

/// Returns a program for the kernel that sends activations of these widths to the host.
fn crossing([width, tail_width]: [usize; 2]) -> Program {
    let mut b = ProgramBuilder::default();
    let [x, tail, out] = [width, tail_width, width + tail_width].map(|width| b.tensor(width));
    b.push(Op::JoinHeads { x, tail, heads: 1, out });
    [x, tail].into_iter().for_each(|tensor| b.input(tensor));
    b.finish(0, &[x, tail, out])
}

/// If the program reads the keys and values of another model, adds ops that store them, so that this attention is
/// tested like any other.
fn storing(program: &Program) -> Program {
    let mut program = program.clone();
    let of = |attends: bool| {
        let layer = move |op: &Op| match op {
            Op::StoreKv { layer, .. } => (!attends).then_some(*layer),
            Op::Attend(attend) => attends.then_some(attend.layer),
            _ => None,
        };
        program.ops.iter().filter_map(layer).collect::<BTreeSet<KvLayerId>>()
    };
    for layer in &of(true) - &of(false) {
        let KvLayer { n_kv_heads, head_dim, value_dim, is_latent, .. } = program.kv_layers[layer.0 as usize];
        let mut tensor = |width: usize| {
            program.tensors.push(TensorSpec { width, buffer: program.buffers.len() });
            program.buffers.push(width);
            TensorId(program.tensors.len() as u32 - 1)
        };
        let k = tensor(n_kv_heads * head_dim);
        let v = (!is_latent).then(|| tensor(n_kv_heads * value_dim));
        program.ops.insert(0, Op::StoreKv { layer, k, v });
    }
    program
}

/// Returns the ops of a test: attention is tested together with the ops that store its keys and values, which have no
/// test of their own.
fn with_keys(program: &Program, before: &[Vec<usize>], group: &[usize]) -> Result<Option<Vec<usize>>> {
    // Transfers to the host are tested separately.
    if group.iter().all(|i| {
        matches!(program.ops[*i], Op::ToHost { .. } | Op::OnHost(_) | Op::FromHost { .. } | Op::OfMedia { .. })
    }) {
        return Ok(None);
    }
    let stored = |i: &usize| match &program.ops[*i] {
        Op::StoreKv { layer, .. } => Some(*layer),
        _ => None,
    };
    let read = group.iter().find_map(|i| match &program.ops[*i] {
        Op::Attend(a) => Some(a.layer),
        Op::Select(s) => Some(s.layer),
        _ => None,
    });
    match group.iter().find_map(stored) {
        Some(_) if read.is_some() => return Ok(Some(group.to_vec())),
        Some(_) => return Ok(None),
        None => {}
    }
    let Some(layer) = read else { return Ok(Some(group.to_vec())) };
    let stores = before.iter().rev().find(|ops| ops.iter().any(|i| stored(i) == Some(layer)));
    let mut stores =
        stores.cloned().ok_or_else(|| Error::Mismatch(format!("attention to {layer:?}, which no op writes")))?;
    if group.iter().any(|i| matches!(program.ops[*i], Op::Select(_))) {
        // Only unrounded keys: rounding could change the selection.
        stores.retain(|i| stored(i) == Some(layer));
    }
    Ok(Some([&stores[..], group].concat()))
}

/// A test: some ops of a model as a separate program.
struct Case {
    program: Arc<Program>,
    matrices: Vec<MadeUp>,
    vectors: Vec<Vec<f32>>,
    ropes: Vec<Rope>,
    /// Activations that the host writes, and activations that are compared.
    inputs: Vec<(TensorId, Input)>,
    results: Vec<TensorId>,
    steps: &'static [Counts],
    /// Index after the op that stores keys and values; 0 without one.
    stores: usize,
    limit: f64,
    /// Matrices A and B of the first sequence's adapter, and their products.
    factors: Vec<MadeUp>,
    products: Vec<LowRank>,
}

impl Case {
    /// `named`: for each activation of the program, the ops that name it.
    fn new(
        device: &dyn GpuDevice,
        program: &Program,
        weights: &Weights,
        at: &[usize],
        named: &[Vec<usize>],
    ) -> Result<Case> {
        let mut ops = tested(program, at);
        // A norm that is fused into products does not store its result.
        let delayed = match &ops[..] {
            [Op::Norm { x, out, .. }, _, ..] if x != out => Some(*out),
            _ => None,
        };
        let widths = shrink(program, device, weights, &mut ops)?;
        let mut b = ProgramBuilder::default();
        let (mut tensors, mut inputs, mut results) = (BTreeMap::new(), Vec::new(), Vec::new());
        for (&old, &width) in &widths {
            let new = b.tensor(width);
            tensors.insert(old, new);
            let first = at.iter().copied().find(|i| names(&program.ops[*i], old)).unwrap_or(0);
            let others = || named[old.0 as usize].iter().filter(|i| !at.contains(i));
            let is_kept = program.kept.contains(&old);
            // Activations that no op writes come from the host.
            let is_made = named[old.0 as usize].iter().any(|i| writes(&program.ops[*i], old));
            if delayed != Some(old) && (is_kept || !is_made || others().next().is_some()) {
                inputs.push((new, input_of(&ops, old)));
                results.extend((is_kept || others().any(|i| *i > first)).then_some(new));
            }
        }
        // Norm weights of ±1 keep the input exactly representable in 8 bits.
        let signs = match ops.first() {
            Some(Op::Norm { norm, .. }) => delayed.is_some() && norm.kind == NormKind::Rms && norm.bias.is_none(),
            _ => false,
        };
        let mut made = Made { device, weights, signs, matrices: Vec::new(), vectors: Vec::new() };
        rename(&mut ops, program, &mut made, &mut b, &|tensor| (tensors[&tensor], widths[&tensor]))?;
        let vocab = ops.iter().find_map(|op| match op {
            Op::Logits { head, .. } => Some(made.matrices[head.0 as usize].rows),
            _ => None,
        });
        let vocab = vocab.unwrap_or(0);
        if vocab > 0 {
            // The output matrix reads output rows, so the test needs a `KeepOutputs`.
            let moves = inputs.iter_mut().map(|(tensor, _)| {
                let kept = std::mem::replace(tensor, b.tensor(b.width(*tensor)));
                [*tensor, kept]
            });
            let moves: Vec<[TensorId; 2]> = moves.collect();
            b.push(Op::KeepOutputs { moves: moves.into() });
        }
        let reads = ops.iter().position(|op| matches!(op, Op::Attend(_) | Op::Select(_))).unwrap_or(0);
        let stores = ops[..reads].iter().rposition(|op| matches!(op, Op::StoreKv { .. })).map_or(0, |at| at + 1);
        let is_table = |op: &Op| matches!(op, Op::Embed { .. } | Op::EmbedNgrams(_));
        let has_products = !made.matrices.is_empty() && !ops.iter().any(is_table);
        let is_block = |m: &MadeUp| quant::format(m.dtype).is_ok_and(|f| f.block_len > 1);
        let is_rounded = delayed.is_some() && !signs || ops.iter().any(|op| matches!(op, Op::Experts(_)));
        // Few logits may all be small by chance, which raises the relative error.
        let few = (1..16).contains(&vocab);
        let limit = if made.matrices.iter().any(is_block) && is_rounded || few { ROUNDED } else { CLOSE };
        ops.into_iter().for_each(|op| b.push(op));
        inputs.iter().for_each(|(tensor, _)| b.input(*tensor));
        let program = Arc::new(b.finish(vocab, &results));
        let Made { matrices, vectors, .. } = made;
        let steps = match (vocab > 0, has_products) {
            // Only steps with media rows launch anything.
            _ if program.ops.iter().all(|op| matches!(op, Op::AddMedia { .. })) => &[],
            (true, _) => HEAD_STEPS,
            (_, true) => PRODUCT_STEPS,
            _ if stores > 0 => ATTENTION_STEPS,
            _ if !program.recurrent.is_empty() => RECURRENT_STEPS,
            _ => STEPS,
        };
        let ropes = weights.ropes.clone();
        let (factors, products) = (Vec::new(), Vec::new());
        let case = Case { program, matrices, vectors, ropes, inputs, results, steps, stores, limit, factors, products };
        case.program.check(&case.weights())?;
        Ok(case)
    }

    /// Runs the test unless the device has passed it; returns the largest error relative to its tolerance.
    fn check(&mut self, device: &Arc<dyn GpuDevice>, pool: &Arc<Pool>, types: [DType; 2]) -> Result<f64> {
        let number = self.number(&**device, types);
        if device.verdict().passed.contains(&number) {
            return Ok(0.0);
        }
        self.matrices.iter_mut().chain(&mut self.factors).try_for_each(MadeUp::fill)?;
        let error = self.run(device, pool, types)?;
        device.verdict().passed.insert(number);
        Ok(error)
    }

    fn weights(&self) -> Weights<'_> {
        let matrices = self.matrices.iter().map(|m| m as &dyn MatrixSource).collect();
        Weights { matrices, vectors: self.vectors.clone(), ropes: self.ropes.clone() }
    }

    /// Identifies the test.
    fn number(&self, device: &dyn GpuDevice, types: [DType; 2]) -> u64 {
        let mut hash = XxHash64::with_seed(
            u64::from(device.is_deterministic()) + 2 * u64::from(device.optional_kernels().is_some()),
        );
        let shapes: Vec<_> = self.matrices.iter().chain(&self.factors).map(|m| (m.dtype, m.rows, m.cols)).collect();
        let pairs: Vec<_> =
            self.ropes.iter().map(|r| (r.pairs, r.inv_freq.len(), r.axes.len(), r.position_offset)).collect();
        let Program { ops, tensors, kv_layers, recurrent, .. } = &*self.program;
        hash.write(
            format!("{ops:?} {tensors:?} {kv_layers:?} {recurrent:?} {shapes:?} {pairs:?} {types:?}").as_bytes(),
        );
        hash.write(format!("{:?}", self.products).as_bytes());
        hash.finish()
    }

    /// Returns the names of the ops and types, for messages.
    fn describe(&self, types: [DType; 2]) -> String {
        let op_name = |op: &Op| format!("{op:?}").chars().take_while(char::is_ascii_alphanumeric).collect::<String>();
        let ops: Vec<String> = self.program.ops.iter().map(op_name).collect();
        let mut used: Vec<DType> = self.matrices.iter().chain(&self.factors).map(|m| m.dtype).collect();
        used.extend(types.iter().filter(|_| self.stores > 0));
        used.dedup();
        let used: Vec<&str> = used.iter().filter_map(|t| quant::format(*t).ok()).map(|f| f.name).collect();
        let of = if used.is_empty() { String::new() } else { format!(" of {}", used.join(" and ")) };
        format!("{}{of}", ops.join(" + "))
    }

    /// Returns the specification of a test's sequences; `types`: the types of keys and values.
    fn spec(&self, limits: StepLimits, types: [DType; 2]) -> SequenceSpec {
        let [k_type, v_type] = types;
        let Program { kv_layers, recurrent, .. } = &*self.program;
        let (layers, recurrent, capacity) = (kv_layers.clone(), recurrent.clone(), CAPACITY + self.skipped());
        SequenceSpec { layers, recurrent, capacity, k_type, v_type, max_step: limits.max_tokens }
    }

    fn on_cpu(&self, pool: &Arc<Pool>) -> Result<Arc<CpuBackend>> {
        let options = LoadOptions::default();
        let load = CpuLoad::new(pool, Isa::detect(), &options);
        Ok(Arc::new(CpuBackend::load(load, &[&self.program], &self.weights(), &mut |_, _| Ok(()))?))
    }

    /// Returns the adapter on both sides, if the test has one.
    fn adapter(&self, cpu: &CpuBackend, gpu: &dyn GpuModel) -> Result<AdapterSet<Adapter>> {
        if self.products.is_empty() {
            return Ok(AdapterSet::default());
        }
        let sources: Vec<&dyn MatrixSource> = self.factors.iter().map(|m| m as &dyn MatrixSource).collect();
        let cpu = Arc::new(cpu.load_adapter(&sources, &self.products, u64::MAX)?);
        let gpu = gpu.load_adapter(&sources, &self.products)?;
        Ok(AdapterSet::new(vec![(Arc::new(Adapter::new(Some(cpu), vec![gpu], &self.products)), 0.75)]))
    }

    /// Runs the test and rejects a device that fails it; returns the largest error relative to its tolerance.
    fn run(&self, device: &Arc<dyn GpuDevice>, pool: &Arc<Pool>, types: [DType; 2]) -> Result<f64> {
        let program = &self.program;
        let steps = self.steps(types);
        let most = steps.iter().map(|step| step.counts.iter().sum()).max().unwrap_or(1);
        let fill = if self.fills() { FILL } else { 0 };
        let max_outputs = if self.keeps() { most } else { 0 };
        let limits = StepLimits { max_tokens: most.max(fill), max_outputs };
        let spec = self.spec(limits, types);
        // The CPU and the device would round to 4 bits after different Hadamard transforms, so the CPU uses F32
        // instead.
        let on_host = self.spec(limits, types.map(|dtype| if dtype == quant::Q4_0 { quant::F32 } else { dtype }));
        let cpu = self.on_cpu(pool)?;
        let on_cpu = DeviceExecutor::Cpu(Box::new(CpuExecutor::new(cpu.clone(), program, limits)?));
        let mut expected = Executor::new(program, limits, on_cpu);
        let new = || Ok(Sequence::new(on_host.clone(), Some(CpuSequence::new(&on_host)?), Vec::new()));
        let mut on_cpu = [new()?, new()?];

        let wrong = |kernels: &[&str], tokens: usize, what: String| {
            let kernels = if kernels.is_empty() { String::new() } else { format!("{}: ", kernels.join(", ")) };
            let tested = self.describe(types);
            let s = if tokens == 1 { "" } else { "s" };
            device.fail(format!("the self-test failed: {kernels}{tested}, {tokens} token{s}: {what}"))
        };
        let limit = match types {
            _ if types.contains(&quant::Q4_0) => FOUR_BITS,
            _ if types.contains(&quant::Q8_0) => ROUNDED,
            _ => self.limit,
        };
        let faulty = |kernels: &[&str], tokens, e| match e {
            Error::DeviceLost { why, .. } => wrong(kernels, tokens, why),
            e => e,
        };
        // Queried before the load, because a concurrent test may disable the optional kernels.
        let optional = device.optional_kernels();
        let model = device.clone().load(program, &self.weights(), &mut |_, _| Ok(())).map_err(|e| faulty(&[], 0, e))?;
        let new = || Ok(Sequence::new(spec.clone(), None, vec![model.new_sequence(&spec)?]));
        let on_gpu = match new() {
            // KV caches of these types are unsupported.
            Err(Error::Unsupported(_)) => return Ok(0.0),
            first => first.and_then(|first| Ok([first, new()?])),
        };
        let mut on_gpu = on_gpu.map_err(|e| faulty(&[], 0, e))?;
        let adapter = self.adapter(&cpu, &*model).map_err(|e| faulty(&[], 0, e))?;
        for first in [&mut on_cpu[0], &mut on_gpu[0]] {
            first.set_adapters(adapter.clone());
        }
        let gpu = model.clone().new_executor(program, limits).map_err(|e| faulty(&[], 0, e))?;
        let mut tested = Executor::new(program, limits, DeviceExecutor::Gpu(gpu));

        let all = program.ops.len();
        // The fill step runs only the KV store, so its keys are the test inputs, whether or not the program has a RoPE
        // op.
        let fill =
            (fill > 0).then(|| (self.stores - 1..self.stores, TestStep { counts: [fill, 0], has_picture: false }));
        let steps = steps.into_iter().map(|step| (0..all, step));
        let (mut kernels, mut largest): (Vec<&str>, f64) = (Vec::new(), 0.0);
        for (ops, of) in fill.into_iter().chain(steps) {
            let n = of.counts.iter().sum();
            let expected = step(self, &mut expected, &mut on_cpu, ops.clone(), of)?;
            let result = step(self, &mut tested, &mut on_gpu, ops, of);
            // A replayed graph has no kernel names; use those of the previous step.
            let launched = tested.kernels();
            if !launched.is_empty() {
                kernels = launched;
                kernels.dedup();
            }
            let got = result.map_err(|e| faulty(&kernels, n, e))?;
            for (expected, got) in expected.iter().zip(&got) {
                let error = relative_error(expected, got);
                if error.is_nan() || error > limit {
                    let is_optional = |kernel: &&&str| optional.is_some_and(|prefix| kernel.starts_with(prefix));
                    if let Some(optional) = kernels.iter().find(is_optional) {
                        device.verdict().leaves_out_optional = true;
                        return Err(Error::unsupported(format!("{optional} is not supported on this device")));
                    }
                    let what =
                        format!("results differ from the CPU's by {error:.1e} of their size, {limit:.0e} is allowed");
                    return Err(wrong(&kernels, n, what));
                }
                largest = largest.max(error / limit);
            }
        }
        // Sampling depends only on the vocabulary size.
        let vocab = program.vocab;
        let choices = XxHash64::oneshot(u64::from(device.is_deterministic()), format!("choices of {vocab}").as_bytes());
        let samples = device.chooses(&SamplingRule::default());
        if vocab > 0 && samples && adapter.is_empty() && !device.verdict().passed.contains(&choices) {
            let inputs = self.inputs(0, rules::FACTORS);
            let result = rules::check(&**device, &mut tested, program, &mut on_gpu[0], &inputs);
            let (kernels, difference) = result.map_err(|e| faulty(&kernels, rules::FACTORS.len(), e))?;
            if let Some(what) = difference {
                return Err(wrong(&kernels, rules::FACTORS.len(), what));
            }
            device.verdict().passed.insert(choices);
        }
        Ok(largest)
    }

    /// Returns the values of the activations that the host writes, one row per factor.
    fn inputs(&self, first: usize, factors: impl IntoIterator<Item = f32> + Clone) -> Vec<(TensorId, Vec<f32>)> {
        let values = |(tensor, input): &(TensorId, Input)| {
            let width = self.program.width(*tensor);
            let rows = factors.clone().into_iter().zip(first..);
            (
                *tensor,
                rows.flat_map(|(factor, row)| (0..width).map(move |i| factor * input.of(row, i, width))).collect(),
            )
        };
        self.inputs.iter().map(values).collect()
    }

    /// Returns the steps for KV caches of some types.
    fn steps(&self, types: [DType; 2]) -> Vec<TestStep> {
        let reads = |op: &Op| match op {
            Op::Embed { index, .. } => *index == Index::Id,
            Op::Rope { rope, .. } => !self.ropes[rope.table.0 as usize].axes.is_empty(),
            // No network with pooled keys uses spans.
            Op::Attend(a) => self.program.kv_layers[a.layer.0 as usize].pool == 1 && a.mask.heeds_spans(),
            Op::AddMedia { .. } => true,
            _ => false,
        };
        // Images are tested with one type of KV cache, because the type does not affect them.
        let has_pictures = types == TYPES[0] && self.program.ops.iter().any(reads);
        let pictures = if has_pictures { PICTURE_STEPS } else { &[] };
        let steps = |of: &'static [Counts], has_picture| of.iter().map(move |&counts| TestStep { counts, has_picture });
        steps(self.steps, false).chain(steps(pictures, true)).collect()
    }

    /// True if filled positions precede the tested ones.
    fn fills(&self) -> bool {
        self.stores > 0 && self.program.is_causal()
    }

    /// True if the program drops rows without outputs.
    fn keeps(&self) -> bool {
        self.program.ops.iter().any(|op| matches!(op, Op::KeepOutputs { .. }))
    }

    /// Returns the position of the first token: above 0 only if no op needs earlier positions.
    fn skipped(&self) -> usize {
        let is_bound = |op: &Op| matches!(op, Op::Embed { index: Index::Position, .. });
        let is_free = self.stores == 0 && self.program.recurrent.is_empty() && !self.program.ops.iter().any(is_bound);
        if is_free { FILL } else { 0 }
    }
}

/// Executes `ops` for the next tokens of two sequences; returns the results if `ops` are the whole program.
fn step(
    case: &Case,
    executor: &mut Executor,
    sequences: &mut [Sequence; 2],
    ops: Range<usize>,
    of: TestStep,
) -> Result<Vec<Vec<f32>>> {
    let TestStep { counts, has_picture } = of;
    let program = &case.program;
    let first = sequences.each_ref().map(|sequence| case.skipped() + sequence.len());
    let tokens = |i: usize| (first[i]..).take(counts[i]).map(move |p| (i as u32, p as u32));
    let (numbers, positions): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
    let n = numbers.len();
    let media_width = if has_picture { program.media_width() } else { 0 };
    let is_row = |p: u32| media_width > 0 && p % 3 == 1;
    let id = |p: &u32| if is_row(*p) { MEDIA_ROW } else { p * 61 % program.max_ids.min(TABLE) as u32 };
    let ids: Vec<u32> = positions.iter().map(id).collect();
    let row = |p: u32| (0..media_width).map(|i| Input::Values(0.5).of(p as usize, i, media_width)).collect();
    let media: Vec<Vec<f32>> = positions.iter().filter(|p| is_row(**p)).map(|p| row(*p)).collect();
    let media: Vec<&[f32]> = media.iter().map(Vec::as_slice).collect();
    // The first token of a sequence precedes an image, the last one follows it.
    let span = |(s, p): (&u32, &u32)| {
        let [start, end] = [first[*s as usize] as u32, (first[*s as usize] + counts[*s as usize]) as u32];
        if *p == start || *p + 1 == end { [*p, *p + 1] } else { [start + 1, end - 1] }
    };
    let (mut rope_positions, mut spans): (Vec<[u32; 3]>, Vec<[u32; 2]>) = (Vec::new(), Vec::new());
    if has_picture {
        rope_positions.extend(positions.iter().map(|p| [*p, p + 3, p / 2]));
        spans.extend(numbers.iter().zip(&positions).map(span));
    }
    let outputs: Vec<u32> = (0..n as u32).step_by(2).filter(|_| case.keeps()).collect();
    let inputs = StepInputs {
        ids: &ids,
        positions: &positions,
        sequences: &numbers,
        outputs: &outputs,
        media: &media,
        rope_positions: &rope_positions,
        spans: &spans,
        ..Default::default()
    };
    let both = &mut sequences.each_mut()[..];
    let batch = &mut Batch { inputs, sequences: both };
    let is_whole = ops.len() == program.ops.len();
    executor.begin(batch, ops)?;
    for (tensor, values) in case.inputs(first[0], vec![1.0; n]) {
        executor.write(tensor, &values)?;
    }
    executor.advance(batch, &StepBudget::unlimited())?;
    let mut results = Vec::new();
    let rows = if case.keeps() { outputs.len() } else { n };
    for tensor in case.results.iter().filter(|_| is_whole) {
        results.push(try_filled("results", rows * program.width(*tensor), f32::NAN)?);
        results.last_mut().map_or(Ok(()), |out| executor.read(*tensor, out))?;
    }
    for i in (0..outputs.len()).filter(|_| program.vocab > 0) {
        let mut logits = try_filled("logits", program.vocab, f32::NAN)?;
        executor.read_logits(i, &mut logits)?;
        // Ties: the lowest id.
        let best = logits.iter().enumerate().fold(0, |best, (i, v)| if *v > logits[best] { i } else { best });
        results.push(vec![if executor.token(i)? == best as u32 { 1.0 } else { f32::NAN }]);
        results.push(logits);
    }
    executor.end()?;
    if program.is_causal() {
        sequences.iter_mut().zip(counts).for_each(|(sequence, n)| sequence.commit(n));
    }
    Ok(results)
}

/// Returns the RMS difference relative to the expected values.
fn relative_error(expected: &[f32], got: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let difference: f64 = expected.iter().zip(got).map(|(a, b)| square(f64::from(*a) - f64::from(*b))).sum();
    let size: f64 = expected.iter().map(|a| square(f64::from(*a))).sum();
    if difference == 0.0 { 0.0 } else { (difference / size).sqrt() }
}

fn writes(op: &Op, tensor: TensorId) -> bool {
    let mut found = false;
    op.for_each_written(|written| found |= written == tensor);
    found
}

fn names(op: &Op, tensor: TensorId) -> bool {
    let mut found = false;
    op.for_each_tensor(|named| found |= named == tensor);
    found
}
