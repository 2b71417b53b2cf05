//! Experts of few tokens, whose products select the experts and add up the results.

use super::*;

/// Tokens whose experts a launch selects, because they are too many.
const MANY: usize = 12;

/// The value of each row among so many.
fn only(row: usize) -> impl Fn(usize, u64) -> Vec<f32> {
    move |width, seed| values(MANY * width, seed)[row * width..][..width].to_vec()
}

/// Experts that a product selects are those that a launch selects, and their sum depends on no other token: a token of
/// a deterministic model has the same bits alone and among others.
#[test]
fn products_select_the_experts_that_a_launch_selects() {
    let scores = [
        RouterScore::Softmax,
        RouterScore::SoftmaxOfChosen,
        RouterScore::Sigmoid,
        RouterScore::RootOfSoftplus,
        RouterScore::SparseMixer,
    ];
    type By = Box<dyn Fn(Routing) -> Routing>;
    let mut routings: Vec<(String, By)> = Vec::new();
    for score in scores {
        routings.push((format!("{score:?}"), Box::new(move |r| Routing { score, ..r })));
        if matches!(score, RouterScore::Softmax | RouterScore::Sigmoid | RouterScore::RootOfSoftplus) {
            let of = move |r| Routing { score, bias: Some(Vector(12)), renormalize: true, ..r };
            routings.push((format!("{score:?}, with a bias"), Box::new(of)));
        }
    }
    let of = |r| Routing { groups: 4, groups_used: 2, scale: 2.5, ..r };
    routings.push(("groups".to_owned(), Box::new(of)));
    for target in targets() {
        for (name, of) in &routings {
            let by = |o: &Ops, i: &[TensorId]| {
                let factors = [None, None, Some(Vector(11))];
                let out = o.eight(i[0], i[1], |e| Experts { routing: of(e.routing), scales: factors, ..e });
                vec![o.add(i[2], out, 0.5)]
            };
            let case: Case = (name, &[HIDDEN, 8, HIDDEN], &by);
            let models = CaseModels::on(target.open(true).unwrap(), &case, &case_weights(&case_matrices()));
            let launches = || target.shim.as_ref().map(|shim| shim.launches_of(c"route"));
            let before = launches();
            let all = models.run(&models.cuda, MANY, &[], false);
            assert_eq!(launches(), before.map(|n| n + 1), "{name}");
            for row in [0, 5, MANY - 1] {
                let alone = models.run_with(&models.cuda, 1, &[], false, &only(row));
                assert!(alone[0].iter().all(|x| x.is_finite()), "{name}, row {row}");
                assert!(alone[0] == all[0][row * HIDDEN..][..HIDDEN], "{name}, row {row}");
            }
            assert_eq!(launches(), before.map(|n| n + 1), "{name}");
        }
    }
}

/// Wide experts of every type: rows of a token's experts have several chunks, the last of which is partial, and blocks
/// with many rows add them up several times.
#[test]
fn sums_of_wide_experts_agree_with_the_cpu() {
    const WIDTH: usize = 64;
    for dtype in NATIVE {
        // Other types have padding columns.
        let (is_plain, used) = ([quant::F32, quant::F16, quant::BF16].contains(&dtype), 5);
        let ffn = if is_plain { 500 } else { 512 };
        let of = |(seed, (dtype, rows, cols))| Matrix::new(dtype, rows, cols, &values(rows * cols, seed));
        let all = [(quant::F16, 8 * ffn, WIDTH), (quant::F16, 8 * ffn, WIDTH), (dtype, 8 * WIDTH, ffn)];
        let matrices: Vec<Matrix> = (1..).zip(all).map(of).collect();
        let matrices = matrices.iter().map(|matrix| matrix as &dyn MatrixSource).collect();
        let weights = Weights { matrices, vectors: vec![values(8 * WIDTH, 9)], ..Weights::default() };
        let by = |o: &Ops, i: &[TensorId]| {
            let experts = Experts {
                x: i[0],
                scores: i[1],
                out: o.tensor(WIDTH),
                gate: Some(Weight(0)),
                up: Weight(1),
                down: Weight(2),
                biases: [None, None, Some(Vector(0))],
                scales: [None; 3],
                orders: [None; 3],
                n_experts: 8,
                ffn,
                routing: Routing::new(RouterScore::Softmax, used, true),
                activation: Activation::Silu,
            };
            let out = o.push(Op::Experts(experts), experts.out);
            vec![o.add(i[2], out, 0.5)]
        };
        for target in targets() {
            let case: Case = (&format!("type {}", dtype.0), &[WIDTH, 8, WIDTH], &by);
            let models = CaseModels::on(target.cuda().unwrap(), &case, &weights);
            for (order, n) in (0..).zip([1, 3, 8]) {
                target.shim.iter().for_each(|shim| shim.order(order));
                let [expected, got] = [&models.cpu, &models.cuda].map(|backend| models.run(backend, n, &[], false));
                let expected: Vec<f64> = expected[0].iter().copied().map(f64::from).collect();
                let difference = relative_rms(&[expected], &[got[0].clone()]);
                println!("{} {n} tokens: {difference:.2e}", case.0);
                assert!(difference < 1.5e-2, "{}, {n} tokens: {difference}", case.0);
            }
        }
    }
}

/// A layer with experts of one type takes six launches per step of up to eight tokens: queries, keys and values;
/// attention; its output; router; gate and up; down.
#[test]
fn a_layer_of_experts_takes_six_launches() {
    let Some(shim) = shim() else { return };
    let launches = |layers: usize| {
        let (_dir, path, _) = save(&architecture("qwen3moe", [64, 4, 2, 16, 96]).layers(layers));
        let model = load(&path, open(&shim).unwrap()).unwrap();
        let (mut executor, mut state) = (model.executor().unwrap(), model.state(quant::F16).unwrap());
        let before = shim.number("shim_launches");
        model.step(&mut executor, &mut state, &[1]).unwrap();
        shim.number("shim_launches") - before
    };
    assert_eq!(launches(3) - launches(2), 6);
    for kernel in [c"route", c"combine"] {
        assert_eq!(shim.launches_of(kernel), 0, "{kernel:?}");
    }
}
