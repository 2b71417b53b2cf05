//! The test that a device has to pass before a model is put on it, on the host shim: every architecture passes, a kernel that
//! computes something else is found and named, and what was passed costs nothing again.
#![cfg(cuda)]

#[path = "support/save.rs"]
mod save;
#[path = "support/shim.rs"]
mod shim;
mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use realizar::backend::cuda::CudaDevice;
use realizar::backend::self_test;
use realizar::error::{Error, Result};
use realizar::format::{Access, Source};
use realizar::model::arch;
use realizar::quant;
use realizar::tensor::DType;
use save::save;
use shim::{Shim, cuda_layers};
use support::tiny::{self, Tiny};

fn shim() -> Option<Shim> {
    let shim = Shim::new();
    if shim.is_none() {
        eprintln!("skipped: what only the shim can do");
    }
    shim
}

fn open(shim: &Shim, deterministic: bool) -> Result<Arc<CudaDevice>> {
    CudaDevice::open(&shim.driver, 0, shim::IMAGE, deterministic, false)
}

/// Tests a device for the model in a file.
fn check(shim: &Shim, path: &Path, deterministic: bool) -> Result<()> {
    let source = Source::open(path, Access::Read)?;
    let network = arch::network(&source, None, false)?;
    self_test::check(&open(shim, deterministic)?, &network.program, &network.weights())
}

fn architectures(dtype: DType) -> Vec<(&'static str, Tiny)> {
    let mut all = tiny::architectures(|name| Tiny::new(name, dtype).shape(64, 4, 2, 16, 96));
    all.retain(|(_, tiny)| tiny.net.mixers.is_empty() && cuda_layers(&tiny.net, 100) == tiny.net.layers as u32);
    all
}

#[test]
fn every_architecture_passes_and_costs_nothing_the_second_time() {
    let Some(shim) = shim() else { return };
    for (name, tiny) in architectures(quant::Q8_0).into_iter().chain(architectures(quant::BF16)) {
        let (_dir, path, _) = save(&tiny);
        for deterministic in [false, true] {
            let (launches, started) = (shim.number("shim_launches"), Instant::now());
            check(&shim, &path, deterministic).unwrap_or_else(|e| panic!("{name}, {deterministic}: {e}"));
            let took = started.elapsed();
            println!("{name:20} {deterministic:5} {:4} launches, {took:.1?}", shim.number("shim_launches") - launches);
            let launches = shim.number("shim_launches");
            check(&shim, &path, deterministic).unwrap();
            assert_eq!(shim.number("shim_launches"), launches);
        }
    }
    assert_eq!(shim.number("shim_memory_used"), 0);
}

#[test]
fn every_type_and_shape_passes() {
    let Some(shim) = shim() else { return };
    for format in quant::FORMATS.iter().filter(|format| format.dtype.0 < 1 << 16) {
        let (_dir, path, _) = save(&Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256));
        check(&shim, &path, false).unwrap_or_else(|e| panic!("{}: {e}", format.name));
    }
    let llama = |dtype| Tiny::new("llama", dtype).layers(1);
    for tiny in [
        llama(quant::Q4_1).shape(576, 9, 3, 64, 768),
        llama(quant::Q4_0).shape(320, 4, 1, 80, 416),
        llama(quant::Q6_K).shape(256, 2, 1, 256, 512),
        llama(quant::Q5_0).shape(320, 20, 1, 16, 64),
        llama(quant::F16).shape(20, 1, 1, 20, 30),
    ] {
        let (_dir, path, _) = save(&tiny);
        check(&shim, &path, false).unwrap();
    }
}
