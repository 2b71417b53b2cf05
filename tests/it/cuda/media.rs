//! Steps with images and sources compared with the CPU: media rows, RoPE positions and spans.

use realizar::device::partition::Division;
use realizar::device::pipeline::Pipeline;
use realizar::device::{Load, StepBudget};
use realizar::graph::step::{CHOSEN_BEFORE, MEDIA_ROW};

use super::*;

/// The inputs of a step of some sequences: of every twelve tokens the first seven are a picture.
#[derive(Default)]
pub struct Pictures {
    pub ids: Vec<u32>,
    rows: Vec<Vec<f32>>,
    rope_positions: Vec<[u32; 3]>,
    spans: Vec<[u32; 2]>,
}

impl Pictures {
    /// The inputs of tokens with ids, whose sequences have so many with this step; rows of media have some numbers.
    pub fn new(ids: &[u32], positions: &[u32], slots: &[u32], lengths: &[u32], width: usize) -> Pictures {
        let mut all = Pictures { ids: ids.into(), ..Pictures::default() };
        for (id, (&p, &slot)) in all.ids.iter_mut().zip(positions.iter().zip(slots)) {
            let (start, i) = (p / 12 * 12, p % 12);
            if i < 7 {
                *id = MEDIA_ROW;
                all.rows.push(values(width + 3, u64::from(100 * slot + p)));
                all.rope_positions.push([start, start + i / 3, start + i % 3]);
                all.spans.push([start, (start + 7).min(lengths[slot as usize])]);
            } else {
                all.rope_positions.push([p + 3, p + 1, p + 5]);
                all.spans.push([0; 2]);
            }
        }
        all
    }

    pub fn rows(&self) -> Vec<&[f32]> {
        self.rows.iter().map(Vec::as_slice).collect()
    }

    /// The inputs with what the pictures add to them.
    pub fn add<'a>(&'a self, rows: &'a [&'a [f32]], inputs: StepInputs<'a>) -> StepInputs<'a> {
        StepInputs { ids: &self.ids, media: rows, rope_positions: &self.rope_positions, spans: &self.spans, ..inputs }
    }
}

fn norm(vector: u32) -> Norm {
    let group = VECTORS[vector as usize];
    Norm { kind: NormKind::Rms, weight: Some(Vector(vector)), bias: None, eps: 1e-5, group }
}

/// Every op that reads what pictures add, alone and in the company in which it shares a kernel.
#[test]
fn ops_on_pictures_agree_with_the_cpu() {
    let head = norm(2);
    let attend = |o: &Ops, i: &[TensorId], mask| o.attend_by(0, i[0], i[1], Some(i[2]), |a| Attend { mask, ..a });
    let cases: &[Case] = &[
        ("rows of media", &[], &|o, _| vec![o.embed(0, Index::Id, 1.5)]),
        ("rows of media and positions", &[], &|o, _| {
            vec![o.add(o.embed(0, Index::Id, 1.5), o.embed(1, Index::Position, 1.0), 0.5)]
        }),
        ("a sum with rows of media", &[HIDDEN], &|o, i| vec![o.add(i[0], o.embed(0, Index::Id, 1.0), 0.5)]),
        ("tokens beside rows of media", &[HIDDEN], &|o, i| vec![o.add(i[0], o.embed(0, Index::Token, 2.0), 1.0)]),
        ("parts of rows of media", &[HIDDEN, Q], &|o, i| {
            vec![o.push(Op::AddMedia { x: i[0], part: 1 }, i[0]), o.push(Op::AddMedia { x: i[1], part: 0 }, i[1])]
        }),
        ("RoPE of halves", &[Q, KV], &|o, i| vec![o.rope(0, None, i[0], Some(i[1])), i[1]]),
        ("RoPE of neighbors", &[Q, KV], &|o, i| vec![o.rope(1, None, i[0], Some(i[1])), i[1]]),
        ("RoPE of time alone", &[Q], &|o, i| vec![o.rope(2, None, i[0], None)]),
        ("spans", &[Q, KV, KV], &|o, i| vec![attend(o, i, Mask::Causal)]),
        ("spans and windows", &[Q, KV, KV], &|o, i| vec![attend(o, i, Mask::Window(3))]),
        ("chunks without spans", &[Q, KV, KV], &|o, i| vec![attend(o, i, Mask::Chunk(3))]),
        ("neighbors without spans", &[Q, KV, KV], &|o, i| vec![attend(o, i, Mask::Around(2))]),
        ("spans of wide heads", &[6 * 330, 2 * 330, 2 * 290], &|o, i| {
            vec![o.attend_by(4, i[0], i[1], Some(i[2]), |a| Attend { scale: 0.05, mask: Mask::Window(9), ..a })]
        }),
        ("RoPE positions and spans together", &[Q, KV, KV], &|o, i| {
            let [q, k] = [0, 1].map(|j| o.norm_in_place(head, i[j]));
            vec![o.attend([o.rope(1, None, q, Some(k)), k, i[2]], 2.0, 3)]
        }),
        ("rows of outputs", &[], &|o, _| {
            let x = o.embed(0, Index::Id, 1.0);
            let [q, k, v] = o.qkv(o.norm(norm(0), x));
            let [q, k] = [q, k].map(|heads| o.norm_in_place(head, heads));
            o.push(Op::StoreKv { layer: KvLayerId(0), k, v: Some(v) }, k);
            let (q, a) = (o.rope(0, None, q, None), o.tensor(Q));
            o.push(Op::Attend(Attend::new(KvLayerId(0), q, a, 0.3)), a);
            o.logits(o.norm(norm(0), o.add(x, o.project(a, [(12, None)])[0], 1.0)))
        }),
    ];
    for (target, case) in targets().iter().flat_map(|target| cases.iter().map(move |case| (target, case))) {
        let mut models = CaseModels::new(target, case);
        models.sees = true;
        for n in [1, 2, 5, 12, 37] {
            for outputs in [1, 2].map(|step| (0..n as u32).step_by(step).collect::<Vec<u32>>()) {
                let expected = models.run(&models.cpu, n, &outputs, false);
                for one_by_one in [false, true] {
                    let got = models.run(&models.cuda, n, &outputs, one_by_one);
                    for (expected, got) in expected.iter().zip(got) {
                        let expected: Vec<f64> = expected.iter().copied().map(f64::from).collect();
                        let difference = relative_rms(&[expected], &[got]);
                        println!("{:32} {n:2} tokens, one by one: {one_by_one:5} {difference:.2e}", case.0);
                        assert!(difference < 1.5e-2, "{}, {n} tokens, {one_by_one}: {difference}", case.0);
                    }
                }
            }
        }
    }
}

/// Two layers, which add parts of the rows of media to their results.
fn decoder() -> Arc<Program> {
    let o = Ops::default();
    for window in [0, 5] {
        o.0.borrow_mut().kv_layer(KvLayer::new(2, HEAD_DIM, window));
    }
    let x = o.embed(0, Index::Id, 1.5);
    for (layer, window) in [(0, 0), (1, 5)] {
        let start = o.0.borrow().position();
        let [q, k, v] = o.qkv(o.norm(norm(0), x));
        let [q, k] = [q, k].map(|heads| o.norm_in_place(norm(2), heads));
        o.rope(layer as u32, None, q, Some(k));
        let a = o.attend_by(layer, q, k, Some(v), |a| Attend { mask: Mask::window(window), ..a });
        o.add(x, o.project(a, [(12, None)])[0], 1.0);
        o.push(Op::AddMedia { x, part: layer + 1 }, x);
        o.0.borrow_mut().end_layer(start);
    }
    o.logits(o.norm(norm(0), x));
    Arc::new(o.0.into_inner().finish(VOCAB, &[]))
}

/// Two sequences on a device.
struct Run<'a> {
    program: &'a Arc<Program>,
    executor: Executor,
    states: [Sequence; 2],
}

impl Run<'_> {
    fn new<'a>(backend: &Backend, program: &'a Arc<Program>) -> Run<'a> {
        let (layers, recurrent) = (program.kv_layers.clone(), program.recurrent.clone());
        let spec = SequenceSpec { layers, recurrent, ..case_cache() };
        let executor = backend.new_executor(program, CASE_LIMITS).unwrap();
        Run { program, executor, states: [0; 2].map(|_| backend.new_sequence(&spec).unwrap()) }
    }

    fn begin(&mut self, inputs: StepInputs, n: [usize; 2]) {
        let batch = &mut Batch { inputs, sequences: &mut self.states.each_mut()[..] };
        self.executor.begin(batch, 0..self.program.ops.len()).unwrap();
        assert!(self.executor.advance(batch, &StepBudget::unlimited()).unwrap());
        self.states.iter_mut().zip(n).for_each(|(state, n)| state.commit(n));
    }

    /// Logits of a prompt with pictures, less what `leave_out` takes away.
    fn prompt(&mut self, n: [usize; 2], leave_out: fn(&mut StepInputs)) -> Vec<Vec<f32>> {
        let first = self.states.each_ref().map(|state| state.len());
        let tokens = |slot: usize| (first[slot]..).take(n[slot]).map(move |p| (p as u32, slot as u32));
        let (positions, slots): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
        let ids: Vec<u32> = positions.iter().map(|p| p * 7919 % VOCAB as u32).collect();
        let outputs: Vec<u32> = (0..ids.len() as u32).filter(|t| t % 3 != 1).collect();
        let lengths = [0, 1].map(|slot| (first[slot] + n[slot]) as u32);
        let pictures = Pictures::new(&ids, &positions, &slots, &lengths, self.program.media_width());
        let (rows, sequences) = (pictures.rows(), &slots[..]);
        let inputs = StepInputs { positions: &positions, sequences, outputs: &outputs, ..Default::default() };
        let mut inputs = pictures.add(&rows, inputs);
        leave_out(&mut inputs);
        self.begin(inputs, n);
        let result = logits(&mut self.executor, outputs.len(), VOCAB).unwrap();
        self.executor.end().unwrap();
        result
    }

    /// Begins a step of a token of each sequence, whose RoPE positions differ from its positions.
    fn token(&mut self, ids: [u32; 2], ahead: u32) {
        let positions = self.states.each_ref().map(|state| state.len() as u32);
        let rope_positions = positions.map(|p| [p + ahead, p + ahead, p + ahead + 2]);
        let (ids, positions, rope_positions) = (&ids[..], &positions[..], &rope_positions[..]);
        let (outputs, sequences) = (&[0, 1][..], &[0, 1][..]);
        self.begin(StepInputs { ids, positions, sequences, outputs, rope_positions, ..Default::default() }, [1; 2]);
    }
}

const PROMPTS: [usize; 2] = [24, 12];

/// A decoder that takes pictures: whole, on two devices, and after layers on the CPU; in prompts of one piece and of
/// several, and in the tokens after them.
#[test]
fn decoders_that_see_agree_with_the_cpu() {
    let program = &decoder();
    let sources = case_matrices();
    let weights = &case_weights(&sources);
    program.check(weights).unwrap();
    let pool = Arc::new(Pool::new(1).unwrap());
    let isa = Isa::detect();
    let cpu = cpu_backend(program, weights);
    let pieces: [&[[usize; 2]]; 2] = [&[PROMPTS], &[[7, 1], [3, 4], [1, 1], [13, 6]]];
    let run = |backend: &Backend, pieces: &[[usize; 2]]| {
        let mut run = Run::new(backend, program);
        let mut all: Vec<_> = pieces.iter().flat_map(|n| run.prompt(*n, |_| ())).collect();
        for i in 0..8 {
            run.token([5 + i, 300 - i], 4);
            all.extend(logits(&mut run.executor, 2, VOCAB).unwrap());
            run.executor.end().unwrap();
        }
        all
    };
    let wide = |all: Vec<Vec<f32>>| -> Vec<Vec<f64>> {
        all.into_iter().map(|row| row.into_iter().map(f64::from).collect()).collect()
    };
    let expected = pieces.map(|pieces| wide(run(&cpu, pieces)));
    // Each of the inputs has an effect.
    let all = wide(Run::new(&cpu, program).prompt(PROMPTS, |_| ()));
    for leave_out in [(|i| i.rope_positions = &[]) as fn(&mut StepInputs), |i| i.spans = &[]] {
        let difference = relative_rms(&all, &Run::new(&cpu, program).prompt(PROMPTS, leave_out));
        println!("without an input: {difference:.2e}");
        assert!(difference > 3e-2, "{difference}");
    }
    for target in targets() {
        let device = || target.cuda().unwrap();
        let pipeline = |cpu_layers, gpus| {
            let division = Division { cpu_layers, gpus, fits: true };
            let options = LoadOptions::default();
            let limits = StepLimits { max_tokens: 1, max_outputs: 1 };
            let load = Load::new(
                &options,
                limits,
                SequenceSpec {
                    layers: program.kv_layers.clone(),
                    recurrent: program.recurrent.clone(),
                    ..case_cache()
                },
            );
            let cpu = CpuLoad::new(&pool, isa, &options);
            let pipeline = Pipeline::load(&division, None, program, weights, &load, cpu, &mut |_, _| Ok(()));
            Backend::Pipeline(Arc::new(pipeline.unwrap()))
        };
        let whole = Backend::Gpu(device().load(program, weights, &mut |_, _| Ok(())).unwrap());
        let two = pipeline(0, vec![(device(), 0..1), (device(), 1..2)]);
        for (name, backend) in [("whole", &whole), ("CPU first", &pipeline(1, vec![(device(), 1..2)])), ("two", &two)] {
            for (pieces, expected) in pieces.iter().zip(&expected) {
                let replays = || target.shim.as_ref().map_or(0, |shim| shim.number("shim_replays"));
                let before = replays();
                let difference = relative_rms(expected, &run(backend, pieces));
                println!("{name}, {} pieces: {difference:.2e}", pieces.len());
                assert!(difference < 1.5e-2, "{name}: {difference}");
                // All tokens after the pictures but the first are launched as a record.
                assert!(name != "whole" || target.shim.is_none() || replays() == before + 7, "{}", replays() - before);
            }
        }
        for backend in [&whole, &two] {
            tokens_run_ahead(backend, program);
        }
    }
}

/// Steps that are submitted ahead choose the tokens of steps that are not, whether their RoPE positions go on or jump.
fn tokens_run_ahead(backend: &Backend, program: &Arc<Program>) {
    const AHEAD: [u32; 6] = [4, 4, 4, 9, 9, 9];
    let mut run = Run::new(backend, program);
    run.prompt(PROMPTS, |_| ());
    let (mut ids, mut expected) = ([5, 300], Vec::new());
    for ahead in AHEAD {
        run.token(ids, ahead);
        ids = [0, 1].map(|i| run.executor.token(i).unwrap());
        run.executor.end().unwrap();
        expected.push(ids);
    }
    let mut run = Run::new(backend, program);
    run.prompt(PROMPTS, |_| ());
    let mut got = Vec::new();
    let mut collect = |executor: &mut Executor| {
        let mut tokens = [0; 2];
        executor.collect(&mut tokens).unwrap();
        got.push(tokens);
    };
    for (i, ahead) in AHEAD.into_iter().enumerate() {
        run.token(if i == 0 { [5, 300] } else { [CHOSEN_BEFORE; 2] }, ahead);
        run.executor.submit().unwrap();
        if i > 0 {
            collect(&mut run.executor);
        }
    }
    collect(&mut run.executor);
    run.executor.end().unwrap();
    assert_eq!(got, expected);
}

/// A layer that looks at its own tokens and at the rows of a source: keys and values of rows of the source are not
/// stored for the former, and those of tokens not for the latter.
fn reader() -> Arc<Program> {
    let o = Ops::default();
    for _ in 0..2 {
        o.0.borrow_mut().kv_layer(KvLayer::new(2, HEAD_DIM, 0));
    }
    let start = o.0.borrow().position();
    let [_, k, v] = o.qkv(o.embed(0, Index::Id, 1.5));
    o.norm_in_place(norm(2), k);
    o.push(Op::StoreKv { layer: KvLayerId(0), k, v: Some(v) }, k);
    o.0.borrow_mut().end_of_media(start);
    let x = o.embed(0, Index::Id, 1.5);
    let [q, k, v] = o.qkv(o.norm(norm(0), x));
    let [q, k] = [q, k].map(|heads| o.norm_in_place(norm(2), heads));
    let a = o.attend_by(1, q, k, Some(v), |a| Attend { mask: Mask::AfterSpan, ..a });
    o.add(x, o.project(a, [(12, None)])[0], 1.0);
    let ([q], a) = (o.project(o.norm(norm(0), x), [(2, Some(3))]), o.tensor(Q));
    o.norm_in_place(norm(2), q);
    o.push(Op::Attend(Attend { mask: Mask::Source, ..Attend::new(KvLayerId(0), q, a, 0.3) }), a);
    o.add(x, o.project(a, [(12, None)])[0], 1.0);
    o.logits(o.norm(norm(0), x));
    Arc::new(o.0.into_inner().finish(VOCAB, &[]))
}

/// Rows of a source alone, in pieces, and beside tokens of another sequence; after them tokens, one by one and many.
#[test]
fn decoders_that_read_a_source_agree_with_the_cpu() {
    const SOURCES: [u32; 2] = [21, 9];
    const STEPS: [[usize; 2]; 9] = [[16, 0], [5, 0], [3, 9], [1, 1], [1, 1], [1, 1], [13, 20], [1, 1], [1, 0]];
    let program = &reader();
    let sources = case_matrices();
    let weights = &case_weights(&sources);
    program.check(weights).unwrap();
    let logits_of = |backend: &Backend, dtype: DType| {
        let mut run = Run::new(backend, program);
        let spec = SequenceSpec { k_type: dtype, v_type: dtype, ..run.states[0].spec().clone() };
        run.states = [0; 2].map(|_| backend.new_sequence(&spec).unwrap());
        let mut all = Vec::new();
        for n in STEPS {
            let first = run.states.each_ref().map(|state| state.len() as u32);
            let tokens = |slot: usize| (first[slot]..).take(n[slot]).map(move |p| (p, slot as u32));
            let (positions, sequences): (Vec<u32>, Vec<u32>) = tokens(0).chain(tokens(1)).unzip();
            let is_row = |t: usize| positions[t] < SOURCES[sequences[t] as usize];
            let (rows, outputs): (Vec<u32>, Vec<u32>) = (0..positions.len() as u32).partition(|t| is_row(*t as usize));
            let id = |t: usize| if is_row(t) { MEDIA_ROW } else { positions[t] * 7919 % VOCAB as u32 };
            let ids: Vec<u32> = (0..positions.len()).map(id).collect();
            let span = |t: usize| if is_row(t) { [0; 2] } else { [0, SOURCES[sequences[t] as usize]] };
            let spans: Vec<[u32; 2]> = (0..positions.len()).map(span).collect();
            let row = |t: &u32| {
                values(program.media_width(), u64::from(positions[*t as usize] + 100 * sequences[*t as usize]))
            };
            let rows: Vec<Vec<f32>> = rows.iter().map(row).collect();
            let media: Vec<&[f32]> = rows.iter().map(Vec::as_slice).collect();
            let (ids, positions, sequences, media) = (&ids[..], &positions[..], &sequences[..], &media[..]);
            let inputs =
                StepInputs { ids, positions, sequences, outputs: &outputs, media, spans: &spans, ..Default::default() };
            run.begin(inputs, n);
            all.extend(logits(&mut run.executor, outputs.len(), VOCAB).unwrap());
            run.executor.end().unwrap();
        }
        all
    };
    let cpu = cpu_backend(program, weights);
    for target in targets() {
        let cuda = Backend::Gpu(target.cuda().unwrap().load(program, weights, &mut |_, _| Ok(())).unwrap());
        for (dtype, limit) in [(quant::F32, 1.5e-2), (quant::F16, 1.5e-2), (quant::Q8_0, 3e-2)] {
            let expected: Vec<Vec<f64>> =
                logits_of(&cpu, dtype).iter().map(|row| row.iter().copied().map(f64::from).collect()).collect();
            let replays = || target.shim.as_ref().map_or(0, |shim| shim.number("shim_replays"));
            let before = replays();
            let difference = relative_rms(&expected, &logits_of(&cuda, dtype));
            println!("a cache of type {}: {difference:.2e}", dtype.0);
            assert!(difference < limit, "a cache of type {}: {difference}", dtype.0);
            // Steps of two single tokens but the first.
            assert!(target.shim.is_none() || replays() == before + 3, "{}", replays() - before);
        }
    }
}
