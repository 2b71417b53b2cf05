//! Encoders of images and audio on a CUDA GPU.

use std::sync::Arc;

use realizar::cuda::CudaDevice;
use realizar::device::CPU_DEVICE;
use realizar::engine::{
    Encoder, EncoderParams, LoadOptions, MediaWork, Model, PictureBounds, encoder_extent, most_samples,
};
use realizar::error::Error;
use realizar::gpu::{GpuDevice, Kept};

use crate::gpu::gpu;
use crate::it::support::process::in_own_process;
use crate::it::support::shim::{IMAGE, Shim};
use crate::it::support::{sound, vision};
use crate::media::{self, Files, largest, load};

const GPU: u32 = 2;

#[test]
fn media_encoders_on_a_gpu_agree_with_the_cpu_and_the_reference() {
    let Some(_gpu) = gpu(1) else { return };
    media::agree_with_the_cpu_and_the_reference(GPU);
}

/// A plan is what the driver is then asked for, to the byte, and working memory is kept for the next call.
#[test]
fn plans_of_media_encoders_are_what_a_device_is_asked_for() {
    let Some(gpu) = gpu(1) else { return };
    let Some(shim) = gpu.shim() else { return };
    let used = || shim.number("shim_memory_used");
    for (family, max_rows) in [("qwen25", 24), ("qwen3a", 30), ("internvl", 0)] {
        let files = Files::new(family);
        let params = |plan| EncoderParams { device: GPU, max_rows, plan, ..EncoderParams::default() };
        let before = used();
        let plan = Encoder::load(&files.model, &files.path, params(true)).unwrap();
        let extent = encoder_extent(plan.facts(), max_rows).unwrap();
        let [weights, scratch] = plan.planned(extent.tile).unwrap();
        assert_eq!((used(), weights.host, plan.device()), (before, 0, GPU), "{family}: a plan takes memory");
        drop(plan);
        let encoder = Encoder::load(&files.model, &files.path, params(false)).unwrap();
        assert_eq!(used() - before, weights.device, "{family}");
        let encoding = |encoder: &Arc<Encoder>| match encoder.facts().sound {
            Some(_) => sound::encoding(encoder, &sound::sound(most_samples(encoder, max_rows).unwrap())),
            None => largest(encoder, extent.tile),
        };
        let first = encoding(&encoder);
        assert_eq!(used() - before, weights.device + scratch.device, "{family}");
        let second = encoding(&encoder);
        assert_eq!(used() - before, weights.device + 2 * scratch.device, "{family}");
        drop((first, second));
        assert_eq!(used() - before, weights.device + scratch.device, "{family}: one set is kept");
        drop(encoding(&encoder));
        assert_eq!(used() - before, weights.device + scratch.device, "{family}: the kept set is used");
        println!("{family}: {weights:?} of weights, {scratch:?} of scratch memory");
        drop(encoder);
        assert_eq!(used(), before, "{family}");
    }
}

/// The file of passed self-tests that a model was loaded with has those of its encoders too.
#[test]
fn passed_self_tests_of_media_encoders_are_recorded() {
    if !in_own_process("media_encoders::passed_self_tests_of_media_encoders_are_recorded") {
        return;
    }
    let Some(gpu) = gpu(1) else { return };
    let Some(shim) = gpu.shim() else { return };
    let files = Files::new("qwen25");
    let kept = Kept { path: files.at.path().join("tested") };
    let options = LoadOptions { device: CPU_DEVICE, tested_path: Some(&kept.path), ..LoadOptions::default() };
    let model = Model::load(&files.at.path().join("model.gguf"), options).unwrap();
    assert!(!kept.path.exists(), "the model is on the CPU");
    load(&model, &files.path, GPU).unwrap();
    // A driver of its own, as the next process has.
    let driver = shim.open_again().unwrap();
    let device: Arc<dyn GpuDevice> = CudaDevice::open(&driver, 0, IMAGE, &LoadOptions::default()).unwrap();
    assert_eq!(device.verdict().passed.len(), 0);
    kept.recall(&*device);
    assert!(device.verdict().passed.len() > 5);
}

#[test]
fn a_cancel_ends_encodings_on_a_gpu_between_slices() {
    let Some(_gpu) = gpu(1) else { return };
    media::pause_and_cancel(GPU);
}

#[test]
fn threads_encode_on_a_gpu_at_the_same_time() {
    let Some(_gpu) = gpu(1) else { return };
    media::encode_on_threads(GPU);
}

/// The device of an encoder that nobody named follows the model, and media of a GPU are not those of the CPU.
#[test]
fn media_encoders_follow_their_model_to_its_gpu() {
    let Some(gpu) = gpu(1) else { return };
    let files = Files::new("qwen25");
    let model = media::follow_the_model(&files, GPU);
    if let Some(shim) = gpu.shim() {
        without_memory(shim, &model, &files);
    }
}

/// An encoder for which a GPU has no memory fails if the GPU was named, and is on the CPU otherwise.
fn without_memory(shim: &Shim, model: &Arc<Model>, files: &Files) {
    let limit = |bytes: usize| shim.function::<extern "C" fn(usize)>("shim_memory")(bytes);
    let used = || shim.number("shim_memory_used") as usize;
    let before = used();
    limit(before + 1000);
    assert!(matches!(load(model, &files.path, GPU), Err(Error::DeviceOutOfMemory { .. })));
    assert_eq!(load(model, &files.path, 0).unwrap().device(), CPU_DEVICE);
    // Memory for the weights and the reserve of the driver, and for nothing next to them.
    limit(before + (256 << 20) + 100_000);
    assert_eq!(load(model, &files.path, 0).unwrap().device(), CPU_DEVICE);
    limit(1 << 30);
    // Memory that is gone when a picture comes, and is there for the next one.
    let encoder = load(model, &files.path, GPU).unwrap();
    limit(used() + 1000);
    let work = || MediaWork::picture(&encoder, vision::picture([70, 50]), PictureBounds::default()).unwrap();
    assert!(matches!(work().advance(None, None, None), Err(Error::DeviceOutOfMemory { .. })));
    limit(1 << 30);
    assert!(work().advance(None, None, None).unwrap().is_some());
    drop(encoder);
    assert_eq!(used(), before);
}

#[test]
fn programs_without_kernels_stay_on_the_cpu_and_lost_devices_are_reported() {
    let Some(gpu) = gpu(1) else { return };
    assert!(media::stays_on_the_cpu(GPU).contains("on a GPU at most"));
    let files = Files::new("internvl");
    media::missing_devices_are_reported(&files, GPU);
    let Some(shim) = gpu.shim() else { return };
    let used = shim.number("shim_memory_used");
    lost(shim, &files);
    assert_eq!(shim.number("shim_memory_used"), used);
}

/// A device that fails at any call is a status, and leaves the CPU's encoder as it is.
fn lost(shim: &Shim, files: &Files) {
    let picture = vision::picture([60, 40]);
    let encode = |encoder: &Encoder| {
        let sizing = encoder.facts().sizing;
        let layout = sizing.layout(60, 40).unwrap();
        encoder.encode(sizing.tiles(&picture, &layout).unwrap(), &layout, None)
    };
    let on_cpu = files.load(CPU_DEVICE).unwrap();
    let (host, expected) = (encode(&on_cpu).unwrap(), encode(&files.load(GPU).unwrap()).unwrap());
    for call in (0..).step_by(97) {
        let encoder = files.load(GPU).unwrap();
        shim.fail(c"*", call, 719);
        let result = encode(&encoder);
        let has_fired = shim.number("shim_failure_pending") == 0;
        shim.fail(c"", 0, 0);
        match result {
            Ok(rows) => assert!(rows == expected && !has_fired, "call {call}"),
            Err(Error::DeviceLost { .. }) => assert!(has_fired, "call {call}"),
            Err(e) => panic!("call {call}: {e}"),
        }
        if !has_fired {
            assert!(call > 97);
            break;
        }
    }
    assert!(encode(&on_cpu).unwrap() == host);
}
