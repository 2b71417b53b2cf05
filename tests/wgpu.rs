//! The portable GPU backend on a software Vulkan driver: every architecture against the CPU. Skipped aloud without a
//! driver.
#![cfg(feature = "wgpu")]

#[expect(dead_code, reason = "few of them are needed here")]
mod it {
    pub mod support;
}

use std::path::Path;
use std::sync::Arc;

use realizar::device::self_test;
use realizar::engine::LoadOptions;
use realizar::error::Result;
use realizar::format::{Access, Source};
use realizar::gpu::{GpuDevice, GpuDriver};
use realizar::model::arch;
use realizar::quant;
use realizar::wgpu::Wgpu;

use it::support::save::save;
use it::support::tiny::{self, Tiny};

/// Returns the driver, with software adapters, unless there is none.
fn driver() -> Option<&'static Wgpu> {
    realizar::wgpu::allow_software();
    let device = &Wgpu.devices()[0];
    if !device.unavailable.is_empty() {
        eprintln!("skipped: {}: {}", device.name, device.unavailable);
        return None;
    }
    Some(&Wgpu)
}

fn open(deterministic: bool) -> Option<Arc<dyn GpuDevice>> {
    Some(driver()?.open(0, &LoadOptions { deterministic, ..Default::default() }).unwrap())
}

/// Tests a device for the model in a file; the largest error as a part of what is allowed.
fn check(device: &Arc<dyn GpuDevice>, path: &Path) -> Result<f64> {
    let source = Source::open(path, Access::Read)?;
    let network = arch::network(&source, None, false)?;
    device.supports(&network.program, &network.weights(), 0..network.program.ops.len())?;
    self_test::check(device, &network.program, &network.weights(), None)
}

#[test]
fn every_type_passes() {
    let Some(device) = open(false) else { return };
    println!("{:?}", device.info());
    for format in quant::FORMATS.iter().filter(|format| format.dtype.0 < 1 << 16) {
        let (_dir, path, _) = save(&Tiny::new("llama", format.dtype).layers(1).shape(256, 8, 1, 32, 256));
        let error = check(&device, &path).unwrap_or_else(|e| panic!("{}: {e}", format.name));
        println!("{:10} error {error:.2} of the limit", format.name);
        assert!(error < 0.7, "{}", format.name);
    }
}

#[test]
fn every_architecture_passes() {
    let Some(device) = open(false) else { return };
    let mut refused = Vec::new();
    for (name, tiny) in tiny::architectures(|name| Tiny::new(name, quant::Q8_0).shape(64, 4, 2, 16, 96)) {
        let (_dir, path, _) = save(&tiny);
        match check(&device, &path) {
            Ok(error) => {
                println!("{name:20} error {error:.2}");
                assert!(error < 0.7, "{name}");
            }
            Err(realizar::error::Error::Unsupported(what)) => refused.push(format!("{name}: {what}")),
            Err(e) => panic!("{name}: {e}"),
        }
    }
    println!("{}", refused.join("\n"));
}
