//! Programs and batches that do not fit are rejected with a message, and the next step works.

use std::sync::Arc;

use realizar::device::Executor;
use realizar::device::sequence::Sequence;
use realizar::device::{Batch, StepBudget};
use realizar::error::{Error, Result};
use realizar::graph::op::{
    Activation, Attend, Conv, DeltaRule, EmbedNgrams, Experts, Groups, Half, Index, KvLayerId, Mask, Mix, NgramHead,
    Norm, NormKind, Op, Pool, RecurrentId, RopeChoice, RopeTable, RouterScore, Routing, Scan, Select, TensorId, Vector,
    Weight, Wkv,
};
use realizar::graph::program::{Program, TensorSpec};
use realizar::graph::sequence_spec::{KvLayer, SequenceSpec};
use realizar::graph::step::{StepInputs, StepLimits};
use realizar::graph::weights::{Rope, RopePairs};

use crate::support::ops::{HIDDEN, LAYER, Model, VOCAB, project};

/// The message of a refusal.
fn refusal<T>(result: Result<T>) -> String {
    result.err().expect("a refusal").to_string()
}

#[test]
fn bad_batches_are_refused_and_the_next_step_is_clean() {
    let mut model = Model::new(LAYER);
    let ((table, rows), (learned, _)) = (model.matrix(VOCAB, HIDDEN, 1), model.matrix(8, HIDDEN, 2));
    let [x, p] = model.tensors([HIDDEN; 2]);
    let model = model.finish(vec![
        Op::Embed { table, rows: VOCAB, index: Index::Id, scale: 1.0, out: x },
        Op::Embed { table: learned, rows: 8, index: Index::Position, scale: 1.0, out: p },
    ]);
    let backend = model.load(2);
    let mut executor = model.executor(&backend, 4, 2);
    let [mut first, mut second] = [0; 2].map(|_| backend.new_sequence(&model.spec(10)).unwrap());
    let mut narrow = backend.new_sequence(&SequenceSpec { max_step: 2, ..model.spec(10) }).unwrap();
    let layers = vec![KvLayer::new(2, 12, 0)];
    let mut other = backend.new_sequence(&SequenceSpec { layers, ..model.spec(10) }).unwrap();
    let begin = |executor: &mut Executor, states: &mut [&mut Sequence], step: [&[u32]; 4]| {
        let [ids, positions, slots, outputs] = step;
        // The references live as long as the batch.
        let mut states: Vec<&mut Sequence> = states.iter_mut().map(|s| &mut **s).collect();
        let result = executor.begin(
            &mut Batch {
                inputs: StepInputs { ids, positions, outputs, sequences: slots, ..Default::default() },
                sequences: &mut states,
            },
            0..2,
        );
        executor.end().unwrap();
        result
    };
    let cases: [([&[u32]; 4], &str); 15] = [
        ([&[], &[], &[], &[]], "a step of 0 tokens"),
        ([&[0; 5], &[0, 1, 2, 3, 4], &[0; 5], &[]], "a step of 5 tokens"),
        ([&[0; 3], &[0, 1, 2], &[0; 3], &[0, 1, 2]], "3 outputs"),
        ([&[0; 2], &[0], &[0; 2], &[]], "2 ids, 1 positions and 2 sequence numbers"),
        ([&[0; 2], &[0, 1], &[0], &[]], "2 ids, 2 positions and 1 sequence numbers"),
        ([&[0; 2], &[0, 1], &[0, 2], &[]], "sequence 2 does not exist; the step has 2"),
        ([&[0; 2], &[0, 1], &[0; 2], &[1, 0]], "outputs are [1, 0]; they must ascend and be below 2"),
        ([&[0; 2], &[0, 1], &[0; 2], &[1, 1]], "outputs are [1, 1]; they must ascend"),
        ([&[0; 2], &[0, 1], &[0; 2], &[2]], "outputs are [2]; they must ascend and be below 2"),
        ([&[0], &[10], &[0], &[]], "the cache holds 10 of 10 tokens"),
        ([&[0], &[8], &[0], &[]], "position 8 is too large; the model has 8 learned positions"),
        ([&[515], &[0], &[0], &[]], "token 515 is outside the vocabulary; it must be below 515"),
        ([&[u32::MAX], &[0], &[0], &[]], "token 4294967295 is outside the vocabulary"),
        ([&[0; 2], &[1, 1], &[0; 2], &[]], "not in order"),
        ([&[0; 3], &[0, 0, 1], &[0, 1, 0], &[]], "not in order"),
    ];
    for (step, message) in cases {
        let text = refusal(begin(&mut executor, &mut [&mut first, &mut second], step));
        assert!(text.contains(message), "{text}");
    }
    let step: [&[u32]; 4] = [&[0], &[0], &[0], &[]];
    let wrong = begin(&mut executor, &mut [&mut other], step);
    assert!(matches!(&wrong, Err(Error::Mismatch(text)) if text.contains("the cache belongs to another model")));
    let states =
        &mut [&mut first, &mut second, &mut narrow, &mut other, &mut backend.new_sequence(&model.spec(9)).unwrap()];
    assert!(refusal(begin(&mut executor, states, step)).contains("5 caches"));
    // A ring has room for as many tokens as its spec says that a step writes.
    let wide: [&[u32]; 4] = [&[0; 3], &[0, 1, 2], &[0; 3], &[]];
    assert!(refusal(begin(&mut executor, &mut [&mut narrow], wide)).contains("3 tokens"));
    begin(&mut executor, &mut [&mut first], wide).unwrap();
    begin(&mut executor, &mut [&mut first, &mut second], [&[514; 4], &[3, 7, 0, 1], &[0, 0, 1, 1], &[0, 3]]).unwrap();

    let batch = &mut Batch {
        inputs: StepInputs { ids: &[44], positions: &[0], outputs: &[0], sequences: &[0], ..Default::default() },
        sequences: &mut [&mut first],
    };
    assert!(refusal(executor.begin(batch, 1..3)).contains("ops 1..3 do not exist; the program has 2"));
    executor.begin(batch, 0..2).unwrap();
    assert!(refusal(executor.write(x, &[0.0; 3])).contains("needs 44 values, 3 are given"));
    assert!(matches!(executor.read(x, &mut [0.0; 3]), Err(Error::BufferTooSmall { needed: 44, capacity: 3 })));
    executor.end().unwrap();
    assert!(refusal(executor.advance(batch, &StepBudget::unlimited())).contains("no step is open"));
    // Begun twice without an end.
    executor.begin(batch, 0..2).unwrap();
    executor.begin(batch, 0..2).unwrap();
    assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
    assert_eq!(model.read(&mut executor, x, 1), rows[44 * HIDDEN..45 * HIDDEN]);
    executor.end().unwrap();

    let wide = Program { buffers: vec![usize::MAX], ..(*model.program).clone() };
    let limits = StepLimits { max_tokens: 4, max_outputs: 2 };
    assert!(matches!(backend.new_executor(&Arc::new(wide), limits), Err(Error::OutOfMemory { .. })));
}

#[test]
fn ops_that_do_not_fit_their_operands_are_refused() {
    let mut model = Model::new(LAYER);
    let shapes = [(HIDDEN, HIDDEN), (20, HIDDEN), (20, HIDDEN), (HIDDEN, 20)];
    let [square, up, other_up, down] = shapes.map(|(rows, cols)| model.matrix(rows, cols, 1).0);
    let (v44, _) = model.vector(HIDDEN, 1);
    let (v3, _) = model.vector(3, 1);
    let (of_heads, _) = model.vector(6, 1);
    let places = model.places((0..HIDDEN).map(|i| i % 21));
    let plain =
        Rope { pairs: RopePairs::Halves, inv_freq: vec![1.0; 6], axes: vec![], magnitude: 1.0, position_offset: 0 };
    let table = model.rope(plain.clone());
    let [few, beyond] = [vec![0, 1], vec![0, 1, 2, 3, 0, 0]].map(|axes| model.rope(Rope { axes, ..plain.clone() }));
    let widths = [HIDDEN, HIDDEN, 60, 60, 20, 20, 1, 6];
    let [x, h, q, a, k, v, r, of_six] = model.tensors(widths);
    let model = model.finish(vec![]);
    let (stored, unknown) = (KvLayerId(0), TensorId(99));
    let norm = Norm { kind: NormKind::Rms, weight: Some(v44), bias: None, eps: 1e-5, group: HIDDEN };
    let embed = |table, rows, out| Op::Embed { table, rows, index: Index::Id, scale: 1.0, out };
    let rope = |head_dim, q, k| Op::Rope { rope: RopeChoice { table, long: None }, head_dim, first: 0, q, k };
    let choice = RopeChoice { table, long: None };
    let with_axes = |table| Op::Rope { rope: RopeChoice { table, long: None }, head_dim: 20, first: 0, q, k: None };
    let long = RopeChoice { table, long: Some((1, RopeTable(9))) };
    let attend = |q, out, window| Attend { mask: Mask::window(window), ..Attend::new(stored, q, out, 1.0) };
    let glu = |gate, up| Op::Glu { gate, up: Some(up), activation: Activation::Silu };
    let routing = |n_used| Routing::new(RouterScore::Softmax, n_used, false);
    let (n_experts, ffn, activation) = (1, 20, Activation::Silu);
    let (gate, [biases, scales, orders]) = (Some(other_up), [[None; 3]; 3]);
    let mix = Mix { x: q, by: None, out: v, width: 20, first: 0, adds: false };
    let experts = Experts {
        x,
        scores: r,
        out: h,
        gate,
        up,
        down,
        biases,
        scales,
        orders,
        n_experts,
        ffn,
        routing: routing(1),
        activation,
    };
    let logits = |x, head, bias| Op::Logits { x, head, bias, scale: 1.0, softcap: 0.0 };
    // Activations lie each in its own buffer.
    let tensors: Vec<TensorSpec> =
        widths.into_iter().enumerate().map(|(buffer, width)| TensorSpec { width, buffer }).collect();
    let program = |ops| Program { ops, tensors: tensors.clone(), vocab: HIDDEN, ..(*model.program).clone() };
    let check = |ops| program(ops).check(&model.weights());
    let keep = || Op::KeepOutputs { moves: [[x, h]].into() };
    check(vec![
        embed(square, HIDDEN, x),
        Op::Norm { norm: Norm { bias: Some(v44), ..norm }, x, out: h },
        Op::Add { x, delta: h, scale: 1.0 },
        Op::Scale { x, factor: 1.0 },
        project(x, &[(square, Some(v44), h), (up, None, k)]),
        rope(20, q, Some(k)),
        Op::ProjectHeads { x, weight: square, heads: 1, out: h },
        Op::Slice { x: q, first: 40, out: v },
        Op::Gather { x: q, by: places, out: h },
        Op::Mix(mix),
        Op::StoreKv { layer: stored, k, v: Some(v) },
        keep(),
        Op::Attend(attend(q, a, 0)),
        glu(x, h),
        Op::Gate { x: q, gate: k, sigmoid: true },
        Op::Attend(Attend { slopes: Some(of_heads), sinks: Some(of_heads), mask: Mask::Chunk(4), ..attend(q, a, 0) }),
        Op::Experts(experts),
        logits(x, square, Some(v44)),
    ])
    .unwrap();
    let cases = [
        (embed(square, 43, x), "a table of (44, 44)"),
        (embed(square, HIDDEN, q), "a table of (44, 44)"),
        (embed(Weight(7), HIDDEN, x), "Weight(7) does not exist"),
        (Op::Norm { norm, x, out: q }, "a norm of rows of 44"),
        (Op::Norm { norm, x: q, out: q }, "a norm of rows of 60"),
        (Op::Norm { norm: Norm { group: 0, ..norm }, x, out: h }, "a norm of rows of 44"),
        (Op::Norm { norm: Norm { weight: Some(v3), ..norm }, x, out: h }, "a norm of rows of 44"),
        (Op::Norm { norm: Norm { bias: Some(v3), ..norm }, x, out: h }, "a norm of rows of 44"),
        (Op::Norm { norm: Norm { weight: Some(Vector(9)), ..norm }, x, out: h }, "Vector(9) does not exist"),
        (Op::Add { x, delta: x, scale: 1.0 }, "a sum of rows of 44 and 44"),
        (Op::Add { x, delta: q, scale: 1.0 }, "a sum of rows of 44 and 60"),
        (Op::Scale { x: unknown, factor: 1.0 }, "an activation without a width"),
        (project(x, &[(square, None, x)]), "twice in one op"),
        (project(x, &[(square, None, h), (square, None, h)]), "twice in one op"),
        (project(x, &[(square, None, k)]), "44 by 44 for 44 to 20"),
        (project(q, &[(square, None, h)]), "44 by 44 for 60 to 44"),
        (project(x, &[(square, Some(v3), h)]), "44 by 44 for 44 to 44"),
        (project(x, &[(square, None, unknown)]), "an activation without a width"),
        (rope(10, q, Some(k)), "6 pairs for heads of 10"),
        (rope(13, q, Some(k)), "heads of a rotation"),
        (rope(20, q, Some(q)), "heads of a rotation"),
        (rope(20, x, None), "heads of a rotation"),
        (Op::Rope { rope: long, head_dim: 20, first: 0, q, k: None }, "RopeTable(9) does not exist"),
        (Op::Rope { rope: choice, head_dim: 20, first: 10, q, k: None }, "6 pairs for heads of 20"),
        (Op::ProjectHeads { x: q, weight: square, heads: 2, out: a }, "44 by 44 for heads of 30 to 30"),
        (Op::ProjectHeads { x, weight: square, heads: 0, out: h }, "44 by 44 for heads of 0 to 0"),
        (Op::ProjectHeads { x, weight: square, heads: 1, out: x }, "44 by 44 for heads of 44 to 44"),
        (Op::JoinHeads { x: q, tail: k, heads: 1, out: a }, "1 heads of 60 and 20"),
        (Op::JoinHeads { x: q, tail: k, heads: 7, out: a }, "7 heads of 60 and 20"),
        (Op::Slice { x: k, first: 1, out: v }, "20 values of 20"),
        (Op::Slice { x: q, first: usize::MAX, out: v }, "20 values of 60"),
        (Op::Gather { x: k, by: v44, out: v }, "places of 20 values in 20"),
        (Op::Gather { x: h, by: v44, out: x }, "places of 44 values in 44"),
        (Op::Gather { x: k, by: places, out: x }, "places of 44 values in 20"),
        (Op::Gather { x, by: places, out: x }, "places of 44 values in 44"),
        (Op::Experts(Experts { orders: [Some(v44), None, None], ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { orders: [None, None, Some(places)], ..experts }), "experts of 20 values over 44"),
        (Op::StoreKv { layer: stored, k, v: None }, "keys of 20 for a cache of 20"),
        (Op::StoreKv { layer: stored, k, v: Some(x) }, "keys of 20 for a cache of 20"),
        (Op::StoreKv { layer: stored, k: q, v: Some(q) }, "keys of 60 for a cache of 20"),
        (Op::StoreKv { layer: stored, k, v: Some(k) }, "keys of 20 for a cache of 20"),
        (Op::StoreKv { layer: KvLayerId(1), k, v: Some(v) }, "KvLayerId(1) does not exist, the program has 1"),
        (Op::KeepOutputs { moves: [[x, q]].into() }, "rows of different widths"),
        (Op::KeepOutputs { moves: [[x, x]].into() }, "rows of different widths"),
        (Op::Attend(attend(x, h, 0)), "queries of 44 values"),
        (Op::Attend(attend(q, q, 0)), "queries of 60 values"),
        (Op::Attend(attend(q, k, 0)), "queries of 60 values"),
        (
            Op::Attend(Attend { layer: KvLayerId(1), ..attend(q, a, 0) }),
            "KvLayerId(1) does not exist, the program has 1",
        ),
        (Op::Attend(Attend { among: Some(q), ..attend(q, a, 0) }), "queries of 60 values"),
        (Op::Attend(Attend { among: Some(r), ..attend(q, a, 4) }), "queries of 60 values"),
        (Op::Attend(Attend { half: Some(Half::First(q)), ..attend(q, a, 0) }), "queries of 60 values"),
        (Op::Attend(Attend { half: Some(Half::First(k)), ..attend(q, a, 0) }), "queries of 60 values"),
        // Values that are no parts of keys.
        (Op::Attend(Attend { half: Some(Half::Second(of_six)), ..attend(q, a, 0) }), "queries of 60 values"),
        (
            Op::Select(Select { layer: stored, q, weights: k, out: r, groups: Groups::One }),
            "a choice by queries of 60 values",
        ),
        (
            Op::Select(Select { layer: KvLayerId(1), q, weights: k, out: r, groups: Groups::One }),
            "KvLayerId(1) does not exist, the program has 1",
        ),
        (Op::Dot { x: q, y: k, out: r }, "1 products of rows of 60 and 20"),
        (Op::Dot { x: q, y: q, out: r }, "1 products of rows of 60 and 60"),
        (Op::MixByScore { x: q, by: v3, eps: 0.1, out: k }, "streams of 20 values in 60"),
        (Op::MixByScore { x, by: v44, eps: 0.1, out: q }, "streams of 60 values in 44"),
        (Op::Sinkhorn { x: k, eps: 0.1, rounds: 1 }, "a square matrix of 20 values"),
        (Op::Sinkhorn { x: r, eps: 0.1, rounds: 0 }, "a square matrix of 1 values"),
        (glu(x, q), "a gate of 44 values"),
        (glu(x, x), "a gate of 44 values"),
        (Op::Experts(Experts { scores: k, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { out: q, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { out: x, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { gate: Some(down), ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { up: square, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { down: up, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { routing: Routing { sharing: 2, ..routing(1) }, ..experts }), "1 experts, 2 of them"),
        (Op::Experts(Experts { ffn: 21, ..experts }), "experts of 21 values over 44"),
        (Op::Experts(Experts { routing: routing(0), ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { routing: routing(2), ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { n_experts: usize::MAX, ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { gate: Some(up), ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { biases: [Some(v44), None, None], ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { biases: [None, None, Some(v3)], ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { scales: [None, Some(v3), None], ..experts }), "experts of 20 values over 44"),
        (Op::Experts(Experts { routing: Routing { bias: Some(v3), ..routing(1) }, ..experts }), "experts of 20 values"),
        (Op::Experts(Experts { routing: Routing { groups: 2, ..routing(1) }, ..experts }), "experts of 20 values"),
        (
            Op::Experts(Experts { routing: Routing { by_id: Some(v3), ..routing(1) }, ..experts }),
            "experts of 20 values",
        ),
        (Op::Experts(Experts { routing: Routing { groups_used: 0, ..routing(1) }, ..experts }), "experts of 20 values"),
        (Op::Gate { x, gate: q, sigmoid: true }, "a gate of 60 values for 44"),
        (Op::Gate { x, gate: x, sigmoid: true }, "a gate of 44 values for 44"),
        (Op::ScaleByPosition { x, slope: 1.0, length: 0, offset: 0 }, "a length of 0"),
        (Op::ScaleColumns { x, by: v3 }, "factors for 44 values"),
        (Op::Rescale { x, like: k }, "a size of 20 values for 44"),
        (Op::Rescale { x, like: x }, "a size of 44 values for 44"),
        (Op::Mix(Mix { width: 0, ..mix }), "streams of 0 values from 60 to 20"),
        (Op::Mix(Mix { width: 7, ..mix }), "streams of 7 values from 60 to 20"),
        (Op::Mix(Mix { by: Some(k), ..mix }), "streams of 20 values from 60 to 20"),
        (Op::Mix(Mix { out: q, ..mix }), "streams of 20 values from 60 to 60"),
        (Op::Mix(Mix { first: 20, ..mix }), "streams of 20 values from 60 to 0"),
        (Op::Clamp { x: unknown, low: -1.0, high: 1.0 }, "an activation without a width"),
        (Op::Clamp { x, low: 1.0, high: 0.5 }, "limits 1 and 0.5"),
        (Op::Clamp { x, low: f32::NAN, high: 0.5 }, "limits NaN and 0.5"),
        (Op::Mean { x: q, groups: 2, out: k }, "groups of 20 in 60"),
        (Op::Mean { x: k, groups: 1, out: k }, "groups of 20 in 20"),
        (Op::Mean { x: k, groups: usize::MAX, out: v }, "groups of 20 in 20"),
        (with_axes(few), "axes [0, 1] of 6 pairs"),
        (with_axes(beyond), "axes [0, 1, 2, 3, 0, 0] of 6 pairs"),
        (Op::Attend(Attend { slopes: Some(v44), ..attend(q, a, 0) }), "queries of 60 values"),
        (Op::Attend(Attend { sinks: Some(v44), ..attend(q, a, 0) }), "queries of 60 values"),
        (Op::Attend(Attend { distances: Some(v44), ..attend(q, a, 0) }), "queries of 60 values"),
        (Op::Attend(Attend { mask: Mask::Chunk(0), ..attend(q, a, 0) }), "queries of 60 values"),
        (logits(x, up, None), "a head for 44 logits of 44"),
        (logits(q, square, None), "a head for 44 logits of 60"),
        (logits(x, square, Some(v3)), "a head for 44 logits of 44"),
    ];
    for (op, message) in cases {
        // Logits are of rows that were kept.
        let is_logits = matches!(op, Op::Logits { .. });
        let keep = is_logits.then(|| Op::KeepOutputs { moves: [].into() });
        let text = refusal(check(keep.into_iter().chain([op]).collect()));
        assert!(text.contains(message), "{text}");
    }
    let store = || Op::StoreKv { layer: stored, k, v: Some(v) };
    let whole = Op::Attend(Attend { mask: Mask::All, ..attend(q, a, 0) });
    // Layers can share keys and values that no later step reads.
    check(vec![store(), whole.clone(), store(), whole.clone()]).unwrap();
    let text = refusal(check(vec![store(), Op::Attend(attend(q, a, 0)), store(), whole.clone()]));
    assert!(text.contains("KvLayerId(0) stored twice"), "{text}");
    for op in [embed(square, HIDDEN, x), store(), whole, Op::AddMedia { x, part: 0 }, keep()] {
        check(vec![op.clone(), Op::Scale { x, factor: 1.0 }]).unwrap();
        let text = refusal(check(vec![keep(), op]));
        assert!(text.contains("rows that are outputs"), "{text}");
    }
    check(vec![keep(), logits(h, square, None)]).unwrap();
    assert!(refusal(check(vec![logits(h, square, None)])).contains("rows that are no outputs"));

    let single = KvLayer::new(1, 20, 0);
    let single = Program { kv_layers: vec![single], ..program(vec![]) };
    for (groups, out, fits) in [
        (Groups::One, a, true),
        (Groups::Pools(5), h, true),
        (Groups::Pools(5), a, false),
        (Groups::Pools(0), a, false),
        (Groups::Blocks { size: 4, local: 1 }, a, true),
        (Groups::Blocks { size: 7, local: 1 }, a, false),
        (Groups::Blocks { size: 4, local: 0 }, a, false),
        (Groups::Blocks { size: 0, local: 1 }, a, false),
    ] {
        let ops = vec![Op::Select(Select { layer: stored, q: k, weights: r, out, groups })];
        assert_eq!(Program { ops, ..single.clone() }.check(&model.weights()).is_ok(), fits, "{groups:?}");
    }

    // Keys that positions share are seen beside others.
    let latent = KvLayer { is_latent: true, ..KvLayer::new(1, 10, 0) };
    for (pool, half, mask, fits) in [
        (1, None, Mask::Causal, true),
        (1, Some(Half::First(of_six)), Mask::Causal, true),
        (1, Some(Half::Second(of_six)), Mask::Window(3), true),
        (4, Some(Half::Second(of_six)), Mask::Causal, true),
        (4, Some(Half::Second(of_six)), Mask::Window(3), false),
        (4, Some(Half::First(of_six)), Mask::Causal, false),
        (4, None, Mask::Causal, false),
    ] {
        let layers = Program { kv_layers: vec![KvLayer { pool, ..latent }], ..program(vec![]) };
        let ops = vec![Op::Attend(Attend { mask, half, ..attend(q, a, 0) })];
        assert_eq!(Program { ops, ..layers }.check(&model.weights()).is_ok(), fits, "{pool} {half:?} {mask:?}");
    }

    // A window that the cache does not keep.
    let windowed = Program { kv_layers: vec![KvLayer { window: 8, ..LAYER }], ..program(vec![]) };
    for (window, fits) in [(0, false), (1, true), (8, true), (9, false)] {
        let ops = vec![Op::Attend(attend(q, a, window))];
        assert_eq!(Program { ops, ..windowed.clone() }.check(&model.weights()).is_ok(), fits, "{window}");
    }
}

#[test]
fn recurrent_ops_that_do_not_fit_their_operands_are_refused() {
    let mut model = Model::new(LAYER);
    let widths = [32, 32, 2, 64, 16, 48, 32, 32, 32];
    let [x, y, h, d, g, u, r, e, f] = model.tensors(widths);
    let [v32, v96, v2, v3] = [32, 96, 2, 3].map(|n| model.vector(n, 1).0);
    let (table, _) = model.matrix(8, 16, 1);
    let [conv, delta, scan, state, kept] = [64, 512, 512, 512, 128].map(|n| model.recurrent(n));
    let model = model.finish(vec![]);
    let c = Conv { recurrent: conv, x, kernel: v96, bias: Some(v32), taps: 3, silu: true };
    let rule =
        DeltaRule { recurrent: delta, q: g, k: g, v: x, dt: h, beta: h, out: y, rate: v2, key_dim: 16, tiled: true };
    let s = Scan { recurrent: scan, x, dt: h, b: g, c: g, out: y, rate: v2, skip: v2, state: 16 };
    let tensors: Vec<TensorSpec> =
        widths.into_iter().enumerate().map(|(buffer, width)| TensorSpec { width, buffer }).collect();
    let check = |ops| Program { ops, tensors: tensors.clone(), ..(*model.program).clone() }.check(&model.weights());
    let (out, moved, rate) = (y, None, Some(-1.0));
    let w = Wkv { recurrent: state, r, k: e, v: f, dt: x, rate, moved, out, dim: 16, before: false, fades: false };
    let p = Pool { recurrent: kept, gate: x, x: e, bias: v96, out: y, size: 3 };
    check(vec![Op::Conv(c), Op::DeltaRule(rule), Op::Scan(s), Op::Wkv(w), Op::Pool(p)]).unwrap();
    let heads = |n, first, rows| -> Box<[NgramHead]> { [NgramHead { n, first, rows }].into() };
    let ngrams =
        EmbedNgrams { recurrent: conv, table, out: g, multipliers: [1; 65].into(), heads: heads(2, 0, 8), end: 0 };
    check(vec![Op::EmbedNgrams(Box::new(ngrams.clone()))]).unwrap();
    for bad in [
        EmbedNgrams { recurrent: delta, ..ngrams.clone() },
        EmbedNgrams { out: x, ..ngrams.clone() },
        EmbedNgrams { heads: heads(66, 0, 8), ..ngrams.clone() },
        EmbedNgrams { heads: heads(0, 0, 8), ..ngrams.clone() },
        EmbedNgrams { heads: heads(2, 1, 8), ..ngrams.clone() },
        EmbedNgrams { heads: heads(2, u64::MAX, 2), ..ngrams.clone() },
        EmbedNgrams { heads: heads(2, 0, 0), ..ngrams },
    ] {
        assert!(refusal(check(vec![Op::EmbedNgrams(Box::new(bad))])).contains("1 rows of 16 a token"));
    }
    let unknown = RecurrentId(5);
    let cases = [
        (Op::Conv(Conv { taps: 1, ..c }), "a convolution of 1 taps"),
        (Op::Conv(Conv { taps: 17, ..c }), "a convolution of 17 taps"),
        (Op::Conv(Conv { taps: 2, ..c }), "a convolution of 2 taps"),
        (Op::Conv(Conv { kernel: v32, ..c }), "a convolution of 3 taps"),
        (Op::Conv(Conv { bias: Some(v3), ..c }), "a convolution of 3 taps"),
        (Op::Conv(Conv { recurrent: delta, ..c }), "a convolution of 3 taps"),
        (Op::Conv(Conv { recurrent: unknown, ..c }), "RecurrentId(5) does not exist, the program has 5"),
        (Op::Wkv(Wkv { dim: 0, ..w }), "heads of 0 over 32 values"),
        (Op::Wkv(Wkv { dim: 24, ..w }), "heads of 24 over 32 values"),
        (Op::Wkv(Wkv { dim: 32, ..w }), "heads of 32 over 32 values"),
        (Op::Wkv(Wkv { k: u, ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { v: g, ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { dt: h, ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { out: f, ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { v: e, ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { moved: Some([x, r]), ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { moved: Some([h, g]), ..w }), "heads of 16 over 32 values"),
        (Op::Wkv(Wkv { recurrent: conv, ..w }), "heads of 16 over 32 values"),
        (Op::Pool(Pool { size: 1, ..p }), "groups of 1 rows of 32"),
        (Op::Pool(Pool { size: 2, ..p }), "groups of 2 rows of 32"),
        (Op::Pool(Pool { gate: h, ..p }), "groups of 3 rows of 32"),
        (Op::Pool(Pool { gate: e, ..p }), "groups of 3 rows of 32"),
        (Op::Pool(Pool { out: x, ..p }), "groups of 3 rows of 32"),
        (Op::Pool(Pool { bias: v32, ..p }), "groups of 3 rows of 32"),
        (Op::DeltaRule(DeltaRule { key_dim: 0, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { key_dim: 3, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { key_dim: 257, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { key_dim: 8, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { q: x, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { v: u, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { dt: g, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { out: x, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { out: d, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { rate: v3, ..rule }), "a delta rule of 2 heads"),
        (Op::DeltaRule(DeltaRule { recurrent: conv, ..rule }), "a delta rule of 2 heads"),
        (Op::Scan(Scan { state: 0, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { state: 15, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { b: x, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { x: u, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { dt: u, ..s }), "a scan of 48 heads"),
        (Op::Scan(Scan { out: x, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { rate: v3, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { skip: v3, ..s }), "a scan of 2 heads"),
        (Op::Scan(Scan { recurrent: conv, ..s }), "a scan of 2 heads"),
    ];
    for (op, message) in cases {
        let text = check(vec![op]).unwrap_err().to_string();
        assert!(text.contains(message), "{text}");
    }
    let twice = check(vec![Op::Conv(c), Op::Conv(Conv { x: y, ..c })]).unwrap_err().to_string();
    assert!(twice.contains("advanced twice"), "{twice}");
    let keep = Op::KeepOutputs { moves: [].into() };
    let kept = check(vec![keep, Op::Conv(c)]).unwrap_err().to_string();
    assert!(kept.contains("rows that are outputs"), "{kept}");
}

#[test]
fn a_recurrent_sequence_goes_on_where_it_is() {
    let mut model = Model::new(LAYER);
    let [x] = model.tensors([4]);
    let (kernel, _) = model.vector(8, 1);
    let recurrent = model.recurrent(4);
    let model = model.finish(vec![Op::Conv(Conv { recurrent, x, kernel, bias: None, taps: 2, silu: false })]);
    let backend = model.load(1);
    let mut executor = model.executor(&backend, 4, 0);
    let mut state = backend.new_sequence(&model.spec(8)).unwrap();
    for (positions, fits) in [(&[0, 1][..], true), (&[1, 2], false), (&[0, 2], false)] {
        let (ids, slots) = (vec![VOCAB as u32 - 1; 2], vec![0; 2]);
        let mut batch = Batch {
            inputs: StepInputs { ids: &ids, positions, sequences: &slots, ..Default::default() },
            sequences: &mut [&mut state],
        };
        let result = executor.begin(&mut batch, 0..1);
        assert_eq!(result.is_ok(), fits, "{positions:?}");
        assert!(fits || matches!(result, Err(Error::InvalidArgument(_))));
    }
}
