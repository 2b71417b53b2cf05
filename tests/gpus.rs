//! Models on several GPUs: on the host emulation, which shows three, or on the machine's GPUs, each of which may get
//! several parts.
#![cfg(cuda)]

mod gpu;
#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, MutexGuard};

use realizar::cuda;
use realizar::device::select;
use realizar::engine::saved::RestoreParams;
use realizar::engine::{
    self, CacheParams, Chooser, Job, JobParams, LoadOptions, LoadParams, Model, Outcome, Part, Plan, Request,
    SamplerParams, Session, step_jobs,
};
use realizar::error::{Error, Result};
use realizar::quant;
use realizar::tensor::DType;

use gpu::Gpu;
use it::support::models;
use it::support::reference::relative_rms;
use it::support::save::{restored, save, saved_bytes};
use it::support::shim::{self, Lie, Shim};
use it::support::tiny::{self, PROMPT, Tiny};

/// The GPUs of these tests, which reach one another and have as much memory as they need.
fn gpus() -> Option<MutexGuard<'static, Gpu>> {
    let gpus = gpu::gpu(3)?;
    peers(&gpus, true);
    gpus.0.as_ref().inspect(|shim| (0..3).for_each(|device| memory(shim, device, 1 << 30)));
    Some(gpus)
}

/// Has devices reach one another, or refuse it.
fn peers(gpus: &Gpu, on: bool) {
    gpus.0.as_ref().inspect(|shim| shim.function::<extern "C" fn(bool)>("shim_peers")(on));
}

fn memory(shim: &Shim, device: i32, bytes: usize) {
    shim.function::<extern "C" fn(i32, usize)>("shim_device_memory")(device, bytes);
}

fn memory_used(shim: &Shim, device: i32) -> u64 {
    shim.function::<extern "C" fn(i32) -> usize>("shim_device_memory_used")(device) as u64
}

/// Indices of devices for so many parts.
fn devices(n: u32) -> Vec<u32> {
    let there = cuda::devices().len() as u32;
    (0..n).map(|i| 2 + i % there).collect()
}

fn load(path: &Path, n: u32, shares: &[f32], gpu_layers: u32, deterministic: bool) -> Result<Arc<Model>> {
    let devices = &devices(n);
    Model::load(path, LoadOptions { devices, shares, gpu_layers, deterministic, ..Default::default() })
}

/// Returns the tokens that a model generates after a part of the prompt.
fn generated(model: &Arc<Model>, n: usize) -> Vec<u32> {
    sampled(model, None, n)
}

fn sampled(model: &Arc<Model>, params: Option<&SamplerParams>, n: usize) -> Vec<u32> {
    let (mut session, mut out, mut made) = (models::session(model), vec![0; n], 0);
    let mut sampler = params.map(|params| Chooser::new(params.clone()).unwrap());
    session.prefill(&PROMPT[..5], None).unwrap();
    session.generate(PROMPT[5], sampler.as_mut(), &mut out, &mut made, None).unwrap();
    out.truncate(made);
    out
}

fn layers_of(model: &Model) -> Vec<u32> {
    model.info().gpus.iter().map(|(_, layers)| *layers).collect()
}

fn models(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let mut all = tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96));
    all.iter_mut().filter(|(_, tiny)| tiny.net.moe.is_some()).for_each(|(_, tiny)| tiny.seed = 4);
    all
}

fn llama(layers: usize) -> Tiny {
    Tiny::new("llama", quant::Q8_0).layers(layers).shape(64, 4, 2, 16, 96)
}

#[test]
fn every_network_has_the_results_of_one_device() {
    let Some(gpus) = gpus() else { return };
    let mut different = BTreeSet::new();
    // Floats, so that no router chooses another expert than the reference.
    for (i, (name, tiny)) in models(quant::F32).into_iter().enumerate() {
        let (_dir, path, reference) = save(&tiny);
        let (n, one) = (tiny.net.layers as u32, load(&path, 1, &[], 0, false).unwrap());
        // Where a part of the layers can be on the CPU, a part can be elsewhere.
        let can_cut = |on_gpu: u32| layers_of(&load(&path, 1, &[], on_gpu, false).unwrap()) == [on_gpu];
        let is_divisible = (1..n).any(can_cut);
        let divided = load(&path, 2, &[1.0, 1.0], 0, false);
        if !is_divisible {
            let why = divided.err().unwrap().to_string();
            assert!(why.contains("they share keys and values"), "{name}: {why}");
            assert_eq!(layers_of(&load(&path, 2, &[], 0, false).unwrap()), [n], "{name}");
            continue;
        }
        assert_eq!(layers_of(&divided.unwrap()).iter().sum::<u32>(), n, "{name}");
        let expected = reference();
        // Copies between GPUs go either way.
        peers(&gpus, i % 2 == 0);
        let divided = load(&path, 2, &[1.0, 1.0], 0, false).unwrap();
        // Single tokens are generated below.
        for piece in [4, 21] {
            let (here, got) = (
                models::logits_in_pieces(&mut models::session(&one), piece),
                models::logits_in_pieces(&mut models::session(&divided), piece),
            );
            let as_f64 = |logits: &Vec<f32>| logits.iter().copied().map(f64::from).collect::<Vec<f64>>();
            let here_f64: Vec<_> = here.iter().map(as_f64).collect();
            let [difference, between] =
                [relative_rms(&expected[20..], &got[got.len() - 1..]), relative_rms(&here_f64, &got)];
            println!("{name:20} {:?}, pieces of {piece:2}: {difference:.2e}, {between:.1e}", layers_of(&divided));
            assert!(difference < 4e-3 && between < 1e-5, "{name}, pieces of {piece}: {difference}, {between}");
            // A cut may part ops that share a kernel elsewhere, whose sums are rounded otherwise.
            different.extend((got != here).then_some(name));
        }
        assert_eq!(generated(&divided, 12), generated(&one, 12), "{name}");
        peers(&gpus, true);
    }
    println!("other bits: {different:?}");
    assert!(["llama", "gemma", "qwen3moe"].iter().all(|name| !different.contains(name)), "{different:?}");
}

/// Every place of a cut, on two devices and three, with layers on the CPU and without.
#[test]
fn every_cut_gives_the_same_bits() {
    let Some(gpus) = gpus() else { return };
    let (_dir, path, _) = save(&llama(5));
    for on_gpus in [5, 4] {
        let one = load(&path, 1, &[], on_gpus, false).unwrap();
        let (expected, tokens) =
            ([1, 21].map(|piece| models::logits_in_pieces(&mut models::session(&one), piece)), generated(&one, 8));
        for n in [2, 3] {
            let mut seen = BTreeSet::new();
            let steps = [0.01, 0.3, 0.6, 1.0, 3.0, 30.0];
            for share in steps.iter().flat_map(|a| steps.iter().map(move |b| [*a, *b, 1.0])) {
                if n == 2 && share[1] != 1.0 {
                    continue;
                }
                let (devices, shares) = (&devices(n), &share[..n as usize]);
                let params = LoadOptions { devices, shares, gpu_layers: on_gpus, ..Default::default() };
                let plan = Plan::of_path(&path, params, &CacheParams::default(), 1).unwrap();
                let layers: Vec<u32> = plan.gpus.iter().map(|gpu| gpu.layers).collect();
                assert!(layers.iter().sum::<u32>() == on_gpus && layers.len() == n as usize, "{layers:?}");
                if !seen.insert(layers.clone()) {
                    continue;
                }
                let model = load(&path, n, shares, on_gpus, false).unwrap();
                assert_eq!(layers_of(&model), layers);
                let copies = || gpus.0.as_ref().map(|shim| shim.number("shim_peer_copies"));
                let before = copies();
                for (piece, expected) in [1, 21].into_iter().zip(&expected) {
                    assert!(
                        models::logits_in_pieces(&mut models::session(&model), piece) == *expected,
                        "{layers:?}, pieces of {piece}"
                    );
                }
                assert!(gpus.0.is_none() || copies() > before);
                assert_eq!(generated(&model, 8), tokens, "{layers:?}");
            }
            let ways = |n: u32, layers: u32| if n == 2 { layers - 1 } else { (layers - 1) * (layers - 2) / 2 };
            println!("{on_gpus} layers on {n} GPUs: {seen:?}");
            assert!(n == 3 || seen.len() as u32 == ways(n, on_gpus), "{seen:?}");
            assert!(seen.len() >= 3);
        }
    }
}

/// Steps begin before the previous steps have ended, on all GPUs; no step does if the CPU has a part.
#[test]
fn generation_runs_ahead_on_several_gpus() {
    let Some(gpus) = gpus() else { return };
    let tiny = llama(3).change(|t| t.seed = 7);
    let (_dir, path, _) = save(&tiny);
    let one = load(&path, 1, &[], 0, false).unwrap();
    let expected = generated(&one, 40);
    let params = SamplerParams { temperature: 0.9, top_k: 20, repeat_penalty: 1.2, seed: 5, ..Default::default() };
    let drawn = sampled(&one, Some(&params), 40);
    assert!(drawn != expected);
    for (is_direct, order) in [(true, 0), (true, 2), (false, 1)] {
        peers(&gpus, is_direct);
        gpus.0.as_ref().inspect(|shim| shim.order(order));
        let model = load(&path, 3, &[], 0, false).unwrap();
        assert_eq!(layers_of(&model), [1, 1, 1]);
        let replays = || gpus.0.as_ref().map(|shim| shim.number("shim_replays"));
        let before = replays();
        assert_eq!(generated(&model, 40), expected);
        assert!(replays() >= before.map(|n| n + 3 * 35));
        assert_eq!(sampled(&model, Some(&params), 40), drawn);
        assert!(replays() >= before.map(|n| n + 6 * 35));
    }
    let end = (2..39).rfind(|&i| !expected[..i].contains(&expected[i])).unwrap();
    let (_dir, ending, _) = save(&tiny.change(|t| t.eos = expected[end]));
    let model = load(&ending, 2, &[], 0, false).unwrap();
    let (mut s, mut out, mut n) = (models::session(&model), [0; 40], 0);
    s.prefill(&PROMPT[..5], None).unwrap();
    assert_eq!(s.generate(PROMPT[5], None, &mut out, &mut n, None).unwrap(), Outcome::Done);
    assert_eq!(out[..n], expected[..=end]);
    // Steps begun after the end are dropped.
    assert_eq!(s.decode(expected[end], None).unwrap(), expected[end + 1]);
}

/// Rewinds, forks, batches, jobs, saved, shifted and released caches: with the bits of single tokens, on any division.
#[test]
fn sequences_do_not_notice_a_division() {
    let Some(_gpus) = gpus() else { return };
    let names = ["gemma2", "qwen35", "mamba2", "lfm2", "deepseek2", "qwen3moe"];
    let others = models(quant::Q8_0).into_iter().filter(|(name, _)| names.contains(name));
    for (name, tiny) in others.chain([("llama", llama(4))]) {
        let n = tiny.net.layers as u32;
        let (_dir, path, _) = save(&tiny);
        let one = load(&path, 1, &[], 0, true).unwrap();
        let single = models::logits_in_pieces(&mut models::session(&one), 1);
        for on_gpus in if n > 2 { vec![n, n - 1] } else { vec![n] } {
            let model = load(&path, 2, &[1.0, 1.0], on_gpus, true).unwrap();
            assert_eq!(layers_of(&model).iter().sum::<u32>(), on_gpus, "{name}");
            // Layers on the CPU have other bits.
            let own =
                if on_gpus == n { single.clone() } else { models::logits_in_pieces(&mut models::session(&model), 1) };
            let next = |s: &mut Session, at: usize| {
                s.prefill(&PROMPT[at..=at], None).unwrap();
                assert!(s.logits().unwrap() == own[at], "{name}, {on_gpus} layers, position {at}");
            };
            let mut s = models::session(&model);
            PROMPT[..15].iter().for_each(|token| s.prefill(&[*token], None).unwrap());
            for to in [13, 2, 9] {
                s.truncate(to.min(s.len() as u32)).unwrap();
                let mut fork = s.fork().unwrap();
                [&mut s, &mut fork].into_iter().for_each(|s| next(s, s.len()));
            }
            let at = s.len();
            let mut again = restored(&model, &RestoreParams::default(), &saved_bytes(&s)).unwrap();
            assert!(
                matches!(restored(&one, &RestoreParams::default(), &saved_bytes(&s)), Err(Error::Mismatch(_))),
                "{name}"
            );
            next(&mut again, at);
            s.release().unwrap();
            next(&mut s, at);
            let mut shifted = models::session(&model);
            shifted.prefill(&[&[7, 8, 9], &PROMPT[..5]].concat(), None).unwrap();
            shifted.shift(0, 3).unwrap();
            next(&mut shifted, 5);

            let mut sessions: Vec<Session> = [4, 9, 6]
                .map(|n| (n, models::session(&model)))
                .into_iter()
                .map(|(n, mut s)| {
                    s.prefill(&PROMPT[..n], None).unwrap();
                    s
                })
                .collect();
            let tokens: Vec<u32> = sessions.iter().map(|s| PROMPT[s.len()]).collect();
            let mut together: Vec<&mut Session> = sessions.iter_mut().collect();
            shim::step_together(&mut together, &tokens);
            sessions.iter().for_each(|s| assert!(s.logits().unwrap() == own[s.len() - 1], "{name}: a batch"));

            let job = |n: usize| {
                let s = models::session(&model);
                let params = JobParams { max_tokens: 6, ..Default::default() };
                let request = Request::new(&s, &PROMPT[..n], params).unwrap();
                Job::new(s, request)
            };
            let mut jobs = [6, 17].map(job);
            while !step_jobs(&mut jobs.iter_mut().collect::<Vec<_>>(), None).unwrap() {}
            for (job, n) in jobs.iter_mut().zip([6, 17]) {
                let (mut s, mut out, mut made) = (models::session(&model), [0; 6], 0);
                s.prefill(&PROMPT[..n - 1], None).unwrap();
                s.generate(PROMPT[n - 1], None, &mut out, &mut made, None).unwrap();
                assert_eq!(job.read_tokens(|tokens| Ok(tokens.to_vec())).unwrap(), out[..made], "{name}: a job");
            }
        }
    }
}

/// The bytes of each device are those that its driver was asked for.
#[test]
fn a_plan_tells_the_bytes_of_each_device() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&llama(5));
    let recurrent = models(quant::Q4_0).into_iter().find(|(name, _)| *name == "mamba2").unwrap().1;
    let (_other_dir, other, _) = save(&recurrent);
    for (path, n, shares, gpu_layers) in
        [(&path, 3, &[][..], 0), (&path, 2, &[1.0, 3.0], 4), (&path, 2, &[1.0, 3.0], 5), (&other, 2, &[], 0)]
    {
        let runtime = || Some(models::runtime(1));
        let (cache, devices) = (|| CacheParams { capacity: 500, ..Default::default() }, devices(n));
        let params = |gpu_layers| LoadParams {
            runtime: runtime(),
            options: LoadOptions { devices: &devices, shares, gpu_layers, ..Default::default() },
            ..Default::default()
        };
        let used = || [0, 1, 2].map(|device| memory_used(shim, device));
        let before = used();
        let plan = Plan::of_path(path, params(gpu_layers), &cache(), 2).unwrap();
        assert_eq!(used(), before);
        let on = |bytes: fn(&engine::GpuPlan) -> u64| {
            let mut all = before;
            plan.gpus.iter().for_each(|gpu| all[gpu.device as usize - 2] += bytes(gpu));
            all
        };
        let model = Model::load(path, params(gpu_layers)).unwrap();
        assert_eq!(used(), on(|gpu| gpu.weights));
        let mut sessions = [0; 2].map(|_| Session::new(&model, &cache()).unwrap());
        assert_eq!(used(), on(|gpu| gpu.weights + 2 * gpu.cache));
        sessions[0].prefill(&PROMPT, None).unwrap();
        // The shim's graphs take no device memory.
        assert_eq!(used(), on(|gpu| gpu.total - gpu.graphs));
        let info: Vec<_> = plan.gpus.iter().map(|gpu| (gpu.device, gpu.layers)).collect();
        assert_eq!((info.len(), &info), (n as usize, &model.info().gpus));
        assert_eq!(plan.total.device, plan.gpus.iter().map(|gpu| gpu.total).sum::<u64>());
        assert_eq!(plan.weights.device, plan.gpus.iter().map(|gpu| gpu.weights).sum::<u64>());
        drop((sessions, model));
        // Another takes memory of the second device between plan and load.
        memory(shim, 1, memory_used(shim, 1) as usize + plan.gpus[1].weights as usize - 1);
        match Model::load(path, params(plan.gpu_layers)) {
            Err(Error::DeviceOutOfMemory { device, .. }) => assert_eq!(device, "cuda:1"),
            // By free memory, the second device has no part any more.
            divided => assert!(shares.is_empty() && layers_of(&divided.unwrap()).len() < n as usize),
        }
        assert_eq!(used(), before);
        memory(shim, 1, 1 << 30);
        models::logits_in_pieces(&mut models::session(&models::load(path)), 21);
    }
}

/// Layers go in proportion to free memory, to the CPU where it is short, and a device that is not needed has none.
#[test]
fn layers_follow_the_memory() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    // What a placement leaves to the driver.
    let reserve = 256 << 20;
    let room = |device: i32, bytes: usize| memory(shim, device, memory_used(shim, device) as usize + reserve + bytes);
    let (_dir, path, _) = save(&llama(6));
    let layers = |n| {
        let model = load(&path, n, &[], 0, false).unwrap();
        generated(&model, 3);
        layers_of(&model)
    };
    (0..3).for_each(|device| room(device, 600 << 20));
    assert_eq!(layers(2), [3, 3]);
    room(1, 200 << 20);
    assert_eq!(layers(2), [5, 1]);
    room(1, 0);
    assert_eq!(layers(2), [6]);
    // Neither has room for all, nor both together.
    let one =
        Plan::of_path(&path, LoadOptions { device: 2, ..Default::default() }, &CacheParams::default(), 1).unwrap();
    // A part needs its own scratch, beside its share of weights and cache.
    let [scratch, rest] = [one.scratch.device as usize, (one.weights.device + one.cache.device) as usize];
    (0..2).for_each(|device| room(device, scratch + rest * 6 / 10));
    let divided = layers(2);
    assert!(divided.len() == 2 && layers(1).iter().sum::<u32>() < 6, "{divided:?}");
    let smaller = (1..9).rev().find_map(|tenths| {
        (0..2).for_each(|device| room(device, scratch + rest * tenths / 20));
        let on_gpus: u32 = layers(2).iter().sum();
        (on_gpus > 0 && on_gpus < 6).then_some(on_gpus)
    });
    assert!(smaller.is_some());
    // Who names no device gets one GPU, as long as it has room, then all.
    select::assume(Some((0, 1.0)));
    let chosen = || Model::load(&path, LoadParams::default()).unwrap().info().gpus.clone();
    (0..3).for_each(|device| room(device, 600 << 20));
    assert!(matches!(chosen()[..], [(_, 6)]));
    (0..3).for_each(|device| room(device, scratch + rest * 6 / 10));
    assert_eq!(layers(3).iter().sum::<u32>(), 6);
    let several = chosen();
    let sum: u32 = several.iter().map(|(_, layers)| layers).sum();
    assert!(several.len() > 1 && sum == 6, "{several:?}");
    (0..3).for_each(|device| room(device, scratch / 2));
    assert!(chosen().is_empty());
    select::assume(None);
}

/// The list of devices is short, and tells what a driver cannot mean.
#[test]
fn nonsense_in_a_list_of_devices_is_told() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let list = |call, after, lie| shim.lying((call, after, lie), cuda::devices).0;
    let many = list(c"cuDeviceGetCount", 0, Lie::LargestInt);
    assert_eq!(many.len(), 65);
    assert_eq!(many[64].unavailable, "the CUDA driver lists 2147483647 devices, of which 64 can be used");
    for (call, after, lie, why) in [
        (c"cuDeviceGetCount", 0, Lie::Ones, "the CUDA driver lists no device"),
        (c"cuDeviceGet", 0, Lie::Ones, "cuDeviceGetName failed with unknown (101)"),
        (c"cuDeviceGetName", 0, Lie::Ones, ""),
        (c"cuDeviceTotalMem_v2", 0, Lie::Nothing, "cuDeviceTotalMem told 0 bytes"),
        (c"cuDeviceTotalMem_v2", 0, Lie::Ones, "cuDeviceTotalMem told 18446744073709551615 bytes"),
        (c"cuDeviceGetAttribute", 0, Lie::Zeros, "sm_00 is older than sm_80"),
        (c"cuDeviceGetAttribute", 2, Lie::Zeros, "told 0 for CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        (c"cuDeviceGetAttribute", 2, Lie::LargestInt, "told 2147483647 for CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT"),
        (c"cuDeviceGetAttribute", 3, Lie::Ones, "told -1 for CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
    ] {
        let found = list(call, after, lie).swap_remove(0).unavailable;
        assert!(found.ends_with(why) && found.is_empty() == why.is_empty(), "{found}");
    }
    assert!(cuda::devices().iter().all(|device| device.unavailable.is_empty()));
}

/// Impossible lists are rejected by name.
#[test]
fn wrong_lists_of_devices_are_refused() {
    let Some(_gpus) = gpus() else { return };
    let (_dir, path, _) = save(&llama(2));
    let refused = |devices: &[u32], shares: &[f32], device| {
        Model::load(&path, LoadOptions { devices, shares, device, ..Default::default() }).err().unwrap()
    };
    let of = |error: Error, what: &str| {
        let text = error.to_string();
        assert!(text.contains(what), "{text}");
        error
    };
    assert!(matches!(of(refused(&[2, 2, 2], &[1.0; 3], 0), "there are fewer"), Error::Unsupported(_)));
    for (devices, shares, device, what) in [
        (&[2, 1][..], &[][..], 0, "the CPU in a list"),
        (&[2], &[], 2, "devices are set"),
        (&[2, 99], &[], 0, "device 99 does not exist"),
        (&[0], &[], 0, "device 0 does not exist"),
        (&[2, 2], &[1.0], 0, "device_split has 1 shares; devices has 2"),
        (&[2, 2], &[1.0, 0.0], 0, "a share of 0"),
        (&[2, 2], &[1.0, f32::NAN], 0, "a share of NaN"),
        (&[2; 17], &[], 0, "17 devices"),
    ] {
        assert!(matches!(of(refused(devices, shares, device), what), Error::InvalidArgument(_)));
    }
}

/// Whichever call of a step finds a device gone, the step says so, and other models and the CPU go on.
#[test]
fn any_device_may_be_lost_at_any_call() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&llama(2));
    let survivors = [1, 2, 3].map(|device| Model::load(&path, LoadOptions { device, ..Default::default() }).unwrap());
    let expected = survivors.each_ref().map(|model| models::logits_in_pieces(&mut models::session(model), 21));
    let used = || [0, 1].map(|device| memory_used(shim, device));
    let (before, contexts) = (used(), shim.number("shim_contexts"));
    for is_direct in [true, false] {
        peers(&gpus, is_direct);
        let mut lost = BTreeSet::new();
        for call in 0.. {
            let model = load(&path, 2, &[1.0, 1.0], 0, false).unwrap();
            let mut s = models::session(&model);
            shim.fail(c"*", call, 719);
            let (mut out, mut n) = ([0; 4], 0);
            let steps = s.prefill(&PROMPT[..9], None);
            let result = steps.and_then(|()| s.generate(PROMPT[9], None, &mut out, &mut n, None).map(|_| ()));
            let has_fired = shim.number("shim_failure_pending") == 0;
            shim.fail(c"", 0, 0);
            match &result {
                Ok(()) => assert!(!has_fired, "call {call} failed in silence"),
                Err(Error::DeviceLost { device, .. }) => {
                    assert!(has_fired, "call {call}");
                    lost.insert(device.clone());
                    // For good: nothing of the model works.
                    let new = Session::new(&model, &CacheParams::default());
                    assert!(s.prefill(&[1], None).is_err() && new.and_then(|mut s| s.prefill(&[1], None)).is_err());
                }
                Err(e) => panic!("call {call}: {e}"),
            }
            drop((s, model));
            assert_eq!((used(), shim.number("shim_contexts")), (before, contexts), "call {call}");
            if !has_fired {
                println!("{call} calls, direct copies: {is_direct}");
                break;
            }
            if call % 16 == 0 {
                assert!(
                    survivors.each_ref().map(|model| models::logits_in_pieces(&mut models::session(model), 21))
                        == expected,
                    "call {call}"
                );
            }
        }
        assert_eq!(lost.into_iter().collect::<Vec<_>>(), ["cuda:0", "cuda:1"]);
    }
}

/// A kernel that faults on the first device is reported where the results of the last one are asked for.
#[test]
fn a_fault_of_an_earlier_part_is_no_result() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&llama(2));
    let model = load(&path, 2, &[1.0, 1.0], 0, false).unwrap();
    let mut s = models::session(&model);
    s.prefill(&PROMPT[..4], None).unwrap();
    // What the second part makes of it faults as well.
    shim.spoil(c"gemv_q8_0", 0, 1);
    let result = s.decode(PROMPT[4], None);
    shim.spoil(c"", 0, 0);
    match result {
        Err(Error::DeviceLost { device, .. }) => assert_eq!(device, "cuda:0"),
        other => panic!("{other:?}"),
    }
}

/// A profile adds up the parts of all GPUs.
#[test]
fn a_profile_has_the_parts_of_all_gpus() {
    let Some(gpus) = gpus() else { return };
    let Some(shim) = gpus.shim() else { return };
    let (_dir, path, _) = save(&llama(3));
    let devices = devices(3);
    let model = Model::load(&path, LoadOptions { devices: &devices, profile: true, ..Default::default() }).unwrap();
    let launches = shim.number("shim_launches");
    models::session(&model).prefill(&PROMPT, None).unwrap();
    let counted = model.metrics().snapshot();
    let sum: u64 = Part::ALL.iter().map(|part| counted.part(*part).sum_ns).sum();
    assert_eq!(sum, (shim.number("shim_launches") - launches) * 1_000_000);
    assert_eq!(counted.part(Part::Head).count, 1);
}
