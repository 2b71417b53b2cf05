//! Attention to selected positions, and other ops that depend only on token ids and positions.

use super::*;

/// Keys that more than one block looks through, in steps of many tokens and of one: the same are chosen as on the CPU,
/// of equal ones the first.
#[test]
fn chosen_positions_are_those_of_the_cpu() {
    let heads = 11;
    let cases = [
        (Groups::One, 40, 100),
        (Groups::One, 600, 250),
        (Groups::Pools(5), 64, 100),
        (blocks(64, 2), 192, 100),
        (blocks(7, 1), 70, 200),
        // More positions than a block has threads.
        (blocks(300, 1), 600, 100),
        (Groups::Pools(260), 260 + 259, 40),
    ];
    for (target, (groups, top, dim)) in targets().iter().flat_map(|target| cases.map(|case| (target, case))) {
        for shared in [1, 3] {
            let mut b = ProgramBuilder::default();
            let layer = b.kv_layer(KvLayer { pool: shared, ..kv_layer(1, dim, dim, true) });
            let [q, weights, k, out] = [heads * dim, heads, dim, top].map(|width| b.tensor(width));
            b.push(Op::StoreKv { layer, k, v: None });
            b.push(Op::Select(Select { layer, q, weights, out, groups }));
            let program = Arc::new(b.finish(0, &[q, weights, k, out]));
            let none = Weights::default();
            program.check(&none).unwrap();
            let cuda = target.cuda().unwrap().load(&program, &none, &mut |_, _| Ok(())).unwrap();
            let backends = [cpu_backend(&program, &none), Backend::Gpu(cuda)];
            let [expected, got] = backends.each_ref().map(|backend| chosen(backend, &program, [q, weights, k, out]));
            assert!(expected == got, "{groups:?}, {top}, keys of {dim}, of {shared} positions");
        }
    }
}

fn blocks(size: u32, local: u32) -> Groups {
    Groups::Blocks { size, local }
}

/// Returns what is chosen of 900 positions by whole numbers, so that no product is rounded and many are equal.
fn chosen(backend: &Backend, program: &Arc<Program>, [q, weights, k, out]: [TensorId; 4]) -> Vec<Vec<f32>> {
    let limits = StepLimits { max_tokens: 300, max_outputs: 1 };
    let (layers, max_step) = (program.kv_layers.clone(), limits.max_tokens);
    let spec =
        SequenceSpec { layers, recurrent: [].into(), capacity: 910, k_type: quant::F32, v_type: quant::F32, max_step };
    let mut executor = backend.new_executor(program, limits).unwrap();
    let mut state = backend.new_sequence(&spec).unwrap();
    let mut results = Vec::new();
    // Long prompts store their keys, and choose nothing.
    for (n, ops) in [(300, 0..1), (298, 0..1), (5, 0..2), (290, 0..1), (1, 0..2), (1, 0..2), (3, 0..2)] {
        let positions: Vec<u32> = (state.len() as u32..).take(n).collect();
        let (ids, sequences) = (vec![0; n], vec![0; n]);
        let inputs =
            StepInputs { ids: &ids, positions: &positions, outputs: &[], sequences: &sequences, ..Default::default() };
        let mut states = [&mut state];
        let batch = &mut Batch { inputs, sequences: &mut states };
        executor.begin(batch, ops.clone()).unwrap();
        for (tensor, most) in [(q, 3), (weights, 4), (k, 2)] {
            let mut rng = Rng(u64::from(positions[0]) + most);
            let value = |_| (rng.normal() * most as f64 / 2.0).round() as f32;
            executor.write(tensor, &(0..n * program.width(tensor)).map(value).collect::<Vec<f32>>()).unwrap();
        }
        assert!(executor.advance(batch, &StepBudget::unlimited()).unwrap());
        if ops.len() == 2 {
            let mut rows = vec![f32::NAN; n * program.width(out)];
            executor.read(out, &mut rows).unwrap();
            results.push(rows);
        }
        executor.end().unwrap();
        state.commit(n);
    }
    results
}

/// Networks of files that read ids, choose positions or store keys of several: in batches that come and go, whose rows
/// are padded and whose steps are recorded, each sequence has the bits that it has alone, and so has a fork.
#[test]
fn batches_of_sparse_networks_have_the_bits_of_single_sequences() {
    const NAMES: [&str; 7] = ["deepseek32", "glm-dsa", "glm5-next", "hy_v4", "qwen4exp", "minimax-m3", "deepseek4"];
    let folder = tempfile::tempdir().unwrap();
    let files = crate::architectures::files(folder.path());
    let files = || files.iter().filter(|(name, ..)| NAMES.contains(&name.as_str()));
    assert_eq!(files().count(), NAMES.len());
    for (target, (name, data, gguf)) in targets().iter().flat_map(|target| files().map(move |file| (target, file))) {
        let ids: Vec<u32> = numbers(&data["ids"]).iter().map(|id| *id as u32).collect();
        let model = load(gguf, target.open(true).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut executor = model.executor().unwrap();
        let mut states: Vec<_> = (0..3).map(|_| model.state(quant::F16).unwrap()).collect();
        for (i, state) in states.iter_mut().enumerate() {
            model.step_for(&mut executor, state, &ids[..20 + 3 * i], &[]).unwrap();
        }
        let mut others: Vec<_> = states.iter().map(|state| state.fork().unwrap()).collect();
        let replays = || target.shim.as_ref().map_or(0, |shim| shim.number("shim_replays"));
        let before = replays();
        for _ in 0..4 {
            let positions: Vec<u32> = states.iter().map(|state| state.len() as u32).collect();
            let of_step: Vec<u32> = positions.iter().map(|p| ids[*p as usize % ids.len()]).collect();
            let numbers = &[0, 1, 2][..];
            let inputs = StepInputs {
                ids: &of_step,
                positions: &positions,
                outputs: numbers,
                sequences: numbers,
                ..Default::default()
            };
            let mut sequences: Vec<&mut Sequence> = states.iter_mut().collect();
            let got = model.run(&mut executor, &mut Batch { inputs, sequences: &mut sequences }).unwrap();
            executor.end().unwrap();
            for (i, (state, other)) in states.iter_mut().zip(&mut others).enumerate() {
                state.commit(1);
                let alone = model.step(&mut executor, other, &of_step[i..=i]).unwrap();
                assert!(got[i] == alone[0], "{name}, row {i}");
            }
        }
        assert!(target.shim.is_none() || replays() > before, "{name}");
    }
}
