//! The interface between `device` and GPU backends: a load on a backend that rejects everything fails by name, and a
//! backend rejects objects of another backend.

use std::sync::Arc;

use realizar::device::Backend;
use realizar::drivers;
use realizar::engine::{self, CacheParams, LoadOptions, Model, Plan};
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::graph::program::Program;
use realizar::graph::sequence_spec::SequenceSpec;
use realizar::graph::step::StepLimits;
use realizar::graph::weights::Weights;
use realizar::model::arch;
use realizar::quant;

use crate::support::models;
use crate::support::process::in_own_process;
use crate::support::save::save;
use crate::support::stub_gpu::{NAME, Stub, StubObject};
use crate::support::tiny::{PROMPT, Tiny, architectures};

const LIMITS: StepLimits = StepLimits { max_tokens: 4, max_outputs: 1 };

fn spec(program: &Program) -> SequenceSpec {
    let (layers, recurrent) = (program.kv_layers.clone(), program.recurrent.clone());
    SequenceSpec { layers, recurrent, capacity: 16, k_type: quant::F16, v_type: quant::F16, max_step: 4 }
}

/// Runs `test` on a small mixture of experts.
fn on_network(test: impl FnOnce(&Arc<Program>, &Weights)) {
    let all = architectures(|name| Tiny::new(name, quant::Q8_0));
    let (_, tiny) = all.into_iter().find(|(name, _)| *name == "qwen3moe").unwrap();
    let (_dir, path, _) = save(&tiny);
    let source = Source::open(&path, Access::Read).unwrap();
    let network = arch::network(&source, None, false).unwrap();
    test(&Arc::new(network.program.clone()), &network.weights());
}

fn said<T>(result: Result<T>) -> String {
    result.err().map_or_else(String::new, |e| e.to_string())
}

#[test]
fn a_model_on_a_gpu_that_refuses_everything_is_refused_by_name() {
    if cfg!(target_family = "wasm") || std::env::var_os("RUNNER").is_some() {
        eprintln!("skipped: this system does not run this program again");
        return;
    }
    if !in_own_process("gpu_seam::a_model_on_a_gpu_that_refuses_everything_is_refused_by_name") {
        return;
    }
    let before = engine::devices().len();
    assert!(drivers::provide(&Stub) && !drivers::provide(&Stub));
    let devices = engine::devices();
    assert_eq!(devices.len(), before + 1);
    let stub = devices.iter().position(|device| device.name == "stub:0").unwrap() as u32 + 1;
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let load = |options: LoadOptions| Model::load(&path, options);
    let on = |device: u32| LoadOptions { device, ..Default::default() };
    // The self-test needs the groups of ops, a plan goes on to the load, parts of two GPUs need what one needs.
    let split = [stub, stub];
    let plan = Plan::of_path(&path, on(stub), &CacheParams::default(), 1);
    for (refused, call) in [
        (load(on(stub)).err(), "groups"),
        (load(LoadOptions { devices: &split, ..Default::default() }).err(), "groups"),
        (load(LoadOptions { device: stub, gpu_layers: 1, ..Default::default() }).err(), "groups"),
        (plan.err(), "load"),
    ] {
        match refused {
            Some(Error::Unsupported(what)) => {
                assert!(what.contains(call) && what.contains(&format!("{NAME}:0")), "{what}");
            }
            other => panic!("{call}: {other:?}"),
        }
    }
    // The list has no device, and the CPU is unchanged.
    assert!(matches!(load(on(before as u32 + 2)).err(), Some(Error::InvalidArgument(_))));
    let model = load(on(1)).unwrap();
    let mut session = models::session(&model);
    session.prefill(&PROMPT, None).unwrap();
    assert_eq!(load(on(0)).unwrap().info().device, 1);
}

#[test]
fn what_a_backend_refuses_fails_calls_and_no_more() {
    on_network(|program, _| {
        let stub = Backend::Gpu(Arc::new(StubObject(spec(program))));
        assert_eq!((stub.device_names().as_str(), stub.digest(), stub.taken()), ("stub:0", 0, vec![[0; 2]]));
        assert_eq!(stub.gpus(1).len(), 1);
        let refused = [said(stub.new_sequence(&spec(program))), said(stub.new_executor(program, LIMITS))];
        assert!(refused.iter().all(|what| what.contains("of stub:0, which computes nothing")), "{refused:?}");
    });
}

/// Objects of another backend come to one by mistake alone; each call with one fails, and the device goes on.
#[cfg(cuda)]
#[test]
fn a_backend_refuses_what_another_one_has_made() {
    use crate::support::shim::{IMAGE, shim};
    use realizar::cuda::CudaDevice;
    use realizar::gpu::pieces::Piece;
    use realizar::gpu::{GpuAdapter, GpuDevice, GpuSequence};
    use realizar::graph::adapter_set::AdapterSet;
    use realizar::graph::op::{Op, TensorId};
    use realizar::graph::step::{Sequences, StepInputs};
    use realizar::graph::step_budget::StepBudget;

    struct One(Box<dyn GpuSequence>);
    impl Sequences<dyn GpuSequence> for One {
        fn len(&self) -> usize {
            1
        }

        fn get(&self, _i: usize) -> Option<&dyn GpuSequence> {
            Some(&*self.0)
        }

        fn recurrent_buffers(&self, _i: usize, _first: usize) -> Result<(usize, usize)> {
            Ok((0, 0))
        }
    }

    let Some(shim) = shim() else { return };
    on_network(|program, weights| {
        let stub = || StubObject(spec(program));
        let device = CudaDevice::open(&shim.driver, 0, IMAGE, &LoadOptions::default()).unwrap();
        let model = device.load(program, weights, &mut |_, _| Ok(())).unwrap();
        let mut executor = model.clone().new_executor(program, LIMITS).unwrap();
        let mut transfer = model.new_transfer(&*model, 64).unwrap().unwrap();
        let mut host = model.new_host_transfer([64; 2]).unwrap();
        let pieces = model.new_piece_stream(64).unwrap();
        let inputs = StepInputs { ids: &[1], positions: &[0], sequences: &[0], outputs: &[0], ..StepInputs::default() };
        let (budget, all) = (StepBudget::unlimited(), 0..program.ops.len());
        let mut adapted = model.new_sequence(&spec(program)).unwrap();
        adapted.set_adapters(AdapterSet::new(vec![(Arc::new(stub()) as Arc<dyn GpuAdapter>, 1.0)]));
        let experts = program.ops.iter().find_map(|op| if let Op::Experts(e) = op { Some(e) } else { None }).unwrap();
        let piece = Piece { matrix: 0, experts: 0..1 };
        let refused = [
            said(executor.begin(&inputs, &One(Box::new(stub())), all.clone())),
            said(executor.begin(&inputs, &One(adapted), all.clone())),
            said(transfer.hand_on(&*executor, &stub(), &[])),
            said(transfer.hand_tokens(&stub(), &*executor)),
            said(host.send(&stub(), [TensorId(0); 2])),
            said(host.receive(&stub(), [&mut [], &mut []], &budget)),
            said(host.send_back(&stub(), TensorId(0), &[])),
            said(pieces.choose(&mut stub(), experts)),
            said(pieces.multiply(&mut stub(), experts, &piece)),
            said(pieces.combine(&mut stub(), experts)),
        ];
        assert_eq!(refused[0], "the cache belongs to another model");
        assert!(refused[1..].iter().all(|what| what.contains("belongs to a GPU of another driver")), "{refused:?}");
        // Its values go through the host.
        assert!(model.new_transfer(&stub(), 64).unwrap().is_none());
        let own = One(model.new_sequence(&spec(program)).unwrap());
        executor.begin(&inputs, &own, all).unwrap();
        assert!(executor.advance(&budget).unwrap());
        assert!((executor.token(0).unwrap() as usize) < program.vocab);
        executor.end().unwrap();
    });
}
