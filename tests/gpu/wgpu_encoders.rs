//! Encoders of images and audio on a wgpu device.

use std::cell::Cell;
use std::sync::Arc;

use realizar::device::{CPU_DEVICE, StepBudget};
use realizar::engine::{Encoder, EncoderParams, Encoding, encoder_extent, most_samples};
use realizar::error::Error;
use realizar::gpu::GpuDriver;
use realizar::wgpu::{Wgpu, limit_work};

use crate::it::support::process::in_own_process;
use crate::it::support::{sound, vision};
use crate::media::{self, Files, largest, load};
use crate::number;

#[test]
fn media_encoders_agree_with_the_cpu_and_the_reference() {
    let Some(device) = number() else { return };
    media::agree_with_the_cpu_and_the_reference(device);
}

#[test]
fn a_cancel_ends_encodings_between_slices() {
    let Some(device) = number() else { return };
    media::pause_and_cancel(device);
}

#[test]
fn threads_encode_at_the_same_time() {
    let Some(device) = number() else { return };
    media::encode_on_threads(device);
}

/// The working memory of a larger image changes no bit of a smaller one.
#[test]
fn rows_do_not_depend_on_earlier_images() {
    let Some(device) = number() else { return };
    let encoder = Files::new("qwen25").load(device).unwrap();
    let rows = |size| vision::rows(&encoder, &vision::picture(size));
    let expected = rows([190, 137]);
    drop(rows([420, 420]));
    assert!(rows([190, 137]) == expected);
}

/// An encoder for which nobody named a device is on the device of its model, and only if it fits there.
#[test]
fn media_encoders_follow_their_model_to_its_device() {
    if !in_own_process("encoders::media_encoders_follow_their_model_to_its_device") {
        return;
    }
    let Some(device) = number() else { return };
    let free = || Wgpu.devices()[0].memory_free;
    let before = free();
    let files = Files::new("qwen25");
    let model = media::follow_the_model(&files, device);
    let with_model = free();
    assert!(with_model < before, "the memory of a model is free");
    let params = |max_rows, device| EncoderParams { device, max_rows, ..EncoderParams::default() };
    let encoder = Encoder::load(&model, &files.path, params(24, 0)).unwrap();
    assert_eq!((encoder.device(), with_model - free()), (device, encoder.weight_bytes()));
    // No binding has room for the largest image.
    for max_rows in [1 << 14, 1 << 20] {
        assert_eq!(Encoder::load(&model, &files.path, params(max_rows, 0)).unwrap().device(), CPU_DEVICE);
    }
    drop((encoder, model));
    assert_eq!(free(), before);
}

/// A plan has the bytes that a load and an encoding allocate.
#[test]
fn plans_of_media_encoders_have_the_bytes_of_the_load() {
    if !in_own_process("encoders::plans_of_media_encoders_have_the_bytes_of_the_load") {
        return;
    }
    let Some(device) = number() else { return };
    let free = || Wgpu.devices()[0].memory_free;
    for (family, max_rows) in [("qwen25", 24), ("qwen3a", 30), ("internvl", 0)] {
        let files = Files::new(family);
        let params = |plan| EncoderParams { device, max_rows, plan, ..EncoderParams::default() };
        let before = free();
        let plan = Encoder::load(&files.model, &files.path, params(true)).unwrap();
        let extent = encoder_extent(plan.facts(), max_rows).unwrap();
        let [weights, scratch] = plan.planned(extent.tile).unwrap();
        assert_eq!((free(), weights.host, plan.device()), (before, 0, device), "{family}: a plan takes memory");
        let encoder = Encoder::load(&files.model, &files.path, params(false)).unwrap();
        assert_eq!(before - free(), weights.device, "{family}");
        let encoding = |encoder: &Arc<Encoder>| match encoder.facts().sound {
            Some(_) => sound::encoding(encoder, &sound::sound(most_samples(encoder, max_rows).unwrap())),
            None => largest(encoder, extent.tile),
        };
        let first = encoding(&encoder);
        assert_eq!(before - free(), weights.device + scratch.device, "{family}");
        let second = encoding(&encoder);
        assert_eq!(before - free(), weights.device + 2 * scratch.device, "{family}");
        drop((first, second));
        assert_eq!(before - free(), weights.device + scratch.device, "{family}: one set is kept");
        drop(encoder);
        assert_eq!(free(), before, "{family}");
        println!("{family}: {weights:?} of weights, {scratch:?} of scratch memory");
    }
}

/// Products and attention with many rows are divided among launches, between which a budget is checked.
#[test]
fn long_launches_are_divided() {
    if !in_own_process("encoders::long_launches_are_divided") {
        return;
    }
    let Some(device) = number() else { return };
    let encoder = Files::new("qwen25").load(device).unwrap();
    let (picture, sizing) = (vision::picture([560, 560]), encoder.facts().sizing);
    let layout = sizing.layout(560, 560).unwrap();
    let tiles = sizing.tiles(&picture, &layout).unwrap();
    let asks = Cell::new(0);
    let encode = || {
        asks.set(0);
        let count = || {
            asks.set(asks.get() + 1);
            false
        };
        let mut encoding = Encoding::new(&encoder, tiles.clone(), &layout).unwrap();
        assert!(encoding.advance(&encoder, &StepBudget::new(&count)).unwrap());
        (encoding.rows, asks.get())
    };
    let (expected, whole) = encode();
    limit_work(1 << 22);
    let (rows, divided) = encode();
    println!("{whole} checks of the budget, {divided} of divided launches");
    assert!(divided > whole + 10 && rows == expected, "{whole} and {divided} checks");
}

/// What is not supported, or does not exist, is a status or stays on the CPU by name.
#[test]
fn what_encoders_lack_is_reported_by_name() {
    let Some(device) = number() else { return };
    let why = media::stays_on_the_cpu(device);
    assert!(why.contains("heads wider than 768 are not supported on this GPU"), "{why}");
    let files = Files::new("internvl");
    media::missing_devices_are_reported(&files, device);
    let encoder = load(&files.model, &files.path, device).unwrap();
    let Err(Error::Unsupported(why)) = encoder.planned([1 << 17, 1]) else { panic!("a step of 2^17 rows") };
    assert!(why.contains("a step has 131072 rows; on this GPU it must have at most 65535"), "{why}");
}

/// What a host does: an encoder on the GPU, and one on the CPU, whatever the GPU has done.
#[test]
fn an_encoder_outlives_its_driver() {
    if std::env::var_os("REAL").is_none() {
        return;
    }
    let files = Files::new("internvl");
    let encode = |encoder: &Encoder| {
        let (picture, sizing) = (vision::picture([60, 40]), encoder.facts().sizing);
        let layout = sizing.layout(60, 40).unwrap();
        encoder.encode(sizing.tiles(&picture, &layout).unwrap(), &layout, None)
    };
    let on_gpu = || {
        let Some(device) = number() else { return Ok(()) };
        let encoder = files.load(device)?;
        let result = encode(&encoder).map(|_| ());
        if let Err(Error::DeviceLost { .. }) = result {
            assert!(matches!(encode(&encoder), Err(Error::DeviceLost { .. })));
        }
        result
    };
    match on_gpu() {
        Ok(()) => println!("status ok"),
        Err(e) => println!("status {e}"),
    }
    let encoder = files.load(CPU_DEVICE).unwrap();
    encode(&encoder).unwrap();
    println!("alive");
}

/// A failing driver is a status of the encoder, which leaves encoders on the CPU as they are.
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[test]
fn failing_calls_of_the_driver_are_statuses_of_encoders() {
    let of = ["vkAllocateMemory", "vkQueueSubmit", "vkWaitSemaphores", "vkCreateComputePipelines"];
    // The number of submissions and waits differs from run to run, by up to a tenth, because some depend on the time.
    let at = |n: usize| vec![1, n.div_ceil(2), (n * 4 / 5).max(1), (n * 9 / 10).max(1)];
    let test = "encoders::an_encoder_outlives_its_driver";
    let Some(failed) = crate::failing_calls(test, &|name| of.contains(&name), &at) else { return };
    assert!(failed.len() > 8, "{failed:?}");
    // The last quarter of the calls is that of the upload and an encoding.
    let of_encoding = |line: &&String| line.starts_with("vkQueueSubmit") && !line.contains("self-test");
    assert!(failed.iter().any(|line| of_encoding(&line)), "{failed:?}");
}
