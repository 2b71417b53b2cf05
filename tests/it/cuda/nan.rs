//! NaN on a GPU reaches all results that depend on it, and no others.

use super::*;

/// Numbers of rows: more and fewer than experts select in their products.
const ROWS: [usize; 2] = [16, 6];

/// The row that is NaN.
const SPOILED: usize = 5;

/// Returns a maker of inputs for `rows` rows: the input with `width` values per row has a NaN in one row.
fn spoil(rows: usize, width: usize) -> impl Fn(usize, u64) -> Vec<f32> {
    move |n, seed| {
        let mut values = values(n, seed);
        if n == rows * width {
            values[SPOILED * width + 2] = f32::NAN;
        }
        values
    }
}

/// Runs a case with and without a NaN in the input that has `width` values per row. A NaN row of the result must be NaN
/// as a whole, and all other rows must be bit-identical to the run without NaN.
fn only_its_row_is_nan(case: Case, width: usize) {
    for target in targets() {
        let models = CaseModels::new(&target, &case);
        let backends = [(&models.cpu, "CPU"), (&models.cuda, target.name)];
        for (rows, (backend, name)) in ROWS.into_iter().flat_map(|rows| backends.map(|backend| (rows, backend))) {
            let sound = models.run_with(backend, rows, &[], false, &values);
            let spoiled = models.run_with(backend, rows, &[], false, &spoil(rows, width));
            for (sound, spoiled) in sound.iter().zip(&spoiled) {
                let each = sound.len() / rows;
                for (row, (sound, spoiled)) in sound.chunks(each).zip(spoiled.chunks(each)).enumerate() {
                    let what = format!("{} on the {name}, row {row} of {rows}", case.0);
                    match row == SPOILED {
                        true => assert!(spoiled.iter().any(|x| x.is_nan()), "{what} hides it"),
                        false => assert!(sound == spoiled, "{what} is another"),
                    }
                }
            }
        }
    }
}

#[test]
fn a_router_score_that_is_nan_spoils_its_own_row_alone() {
    let scores = [
        RouterScore::Softmax,
        RouterScore::SoftmaxOfChosen,
        RouterScore::Sigmoid,
        RouterScore::RootOfSoftplus,
        RouterScore::SparseMixer,
    ];
    for score in scores {
        let routing = |e: &Experts| Routing { score, ..e.routing };
        let by = move |o: &Ops, i: &[TensorId]| vec![o.eight(i[0], i[1], |e| Experts { routing: routing(&e), ..e })];
        only_its_row_is_nan((&format!("experts by {score:?}"), &[HIDDEN, 8], &by), 8);
    }
    let of =
        |e: &Experts| Routing { bias: Some(Vector(12)), groups: 4, groups_used: 2, renormalize: true, ..e.routing };
    let by = move |o: &Ops, i: &[TensorId]| vec![o.eight(i[0], i[1], |e| Experts { routing: of(&e), ..e })];
    only_its_row_is_nan(("experts by groups", &[HIDDEN, 8], &by), 8);
}

#[test]
fn activations_keep_nan() {
    let alone = [
        Activation::Silu,
        Activation::Gelu,
        Activation::GeluErf,
        Activation::QuickGelu,
        Activation::Relu,
        Activation::Relu2,
        Activation::Tanh,
        Activation::Sigmoid,
        Activation::Softplus,
        Activation::SignedRoot,
    ];
    for activation in alone {
        let by = move |o: &Ops, i: &[TensorId]| vec![o.glu(i[0], None, activation)];
        only_its_row_is_nan((&format!("{activation:?}"), &[FFN], &by), FFN);
    }
    let gates = [
        Activation::Silu,
        Activation::ClampedSwiglu,
        Activation::SwigluOfClamped(0.7),
        Activation::SwigluThenClamped(1.5),
        Activation::TanhSwiglu([1.5, 0.6]),
    ];
    // NaN in the gate, then in what it is a gate for.
    for (activation, nan_in) in gates.into_iter().flat_map(|activation| [0, 1].map(|nan_in| (activation, nan_in))) {
        let by = move |o: &Ops, i: &[TensorId]| {
            let [nan, other] = [o.slice(i[0], 0, FFN), i[1]];
            let [gate, up] = if nan_in == 0 { [nan, other] } else { [other, nan] };
            vec![o.glu(gate, Some(up), activation)]
        };
        only_its_row_is_nan((&format!("{activation:?}, NaN in {nan_in}"), &[FFN + 2, FFN], &by), FFN + 2);
    }
    let clamp = |o: &Ops, i: &[TensorId]| vec![o.push(Op::Clamp { x: i[0], low: -0.5, high: 0.5 }, i[0])];
    only_its_row_is_nan(("clamp", &[HIDDEN], &clamp), HIDDEN);
}

/// NaN survives caches of every type, even if their integers cannot represent it.
#[test]
fn a_token_that_is_nan_reaches_those_after_it() {
    const AT: usize = 3;
    let tiny = Tiny::new("llama", quant::F32).change(|t| t.tied = false);
    let (dir, sound, _) = save(&tiny);
    let (mut file, ..) = tiny.file();
    let table = file.tensors.iter_mut().find(|t| t.name == "token_embd.weight").unwrap();
    let first = 4 * (PROMPT[AT] as usize * tiny.net.hidden + 1);
    table.data[first..first + 4].copy_from_slice(&f32::NAN.to_le_bytes());
    let spoiled = dir.path().join("spoiled.gguf");
    std::fs::write(&spoiled, file.build().0).unwrap();
    assert!(!PROMPT[..AT].contains(&PROMPT[AT]), "the prompt has changed");
    for target in targets() {
        let [sound, spoiled] = [&sound, &spoiled].map(|path| load(path, target.cuda().unwrap()).unwrap());
        for cache in [quant::F32, quant::F16, quant::Q8_0, quant::Q4_0] {
            for piece in [1, 21] {
                let [expected, got] = [&sound, &spoiled].map(|model| model.prompt(cache, piece).unwrap());
                for (i, (expected, got)) in expected.iter().zip(&got).enumerate() {
                    let what = format!("cache type {}, pieces of {piece}, token {i}, {}", cache.0, target.name);
                    if i >= AT {
                        assert!(got.iter().all(|x| x.is_nan()), "{what} hides it");
                    } else if piece == 1 {
                        assert!(expected == got, "{what} is another");
                    } else {
                        // Tokens of a step may read rows of others with a weight of 0.
                        assert!(expected == got || got.iter().all(|x| x.is_nan()), "{what} is another");
                    }
                }
            }
        }
    }
}
