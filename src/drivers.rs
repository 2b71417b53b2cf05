//! The list of GPU drivers, and the numbers of their devices: after the CPU, driver by driver.

use std::sync::{Arc, OnceLock};

use crate::error::{Error, Result};
use crate::gpu::{GpuDevice, GpuDriver};
use crate::graph::device_info::{DeviceInfo, DeviceKind};
use crate::graph::load_options::LoadOptions;

static DRIVERS: &[&dyn GpuDriver] = &[
    #[cfg(cuda)]
    &crate::cuda::Cuda,
    #[cfg(feature = "wgpu")]
    &crate::wgpu::Wgpu,
];

/// Devices listed as unavailable because this build lacks their driver, with the reason.
static ABSENT: &[(&str, &str)] = &[
    #[cfg(not(cuda))]
    ("cuda:0", "there is no CUDA for this system"),
];

/// Number of the first GPU in the list of devices, from 1.
pub const FIRST_GPU: u32 = 2;

static PROVIDED: OnceLock<&'static dyn GpuDriver> = OnceLock::new();

/// Adds a driver after the others, for the whole process; returns false if one was added before. Public only for tests.
#[doc(hidden)]
pub fn provide(driver: &'static dyn GpuDriver) -> bool {
    PROVIDED.set(driver).is_ok()
}

fn drivers() -> impl Iterator<Item = &'static dyn GpuDriver> {
    DRIVERS.iter().chain(PROVIDED.get()).copied()
}

/// Lists the GPUs of all drivers. A driver without any has one unavailable entry.
pub fn devices() -> Vec<DeviceInfo> {
    let absent = ABSENT.iter().map(|(name, why)| DeviceInfo {
        name: (*name).to_owned(),
        id: String::new(),
        kind: DeviceKind::Gpu,
        isa: String::new(),
        memory_total: 0,
        memory_free: 0,
        unavailable: (*why).to_owned(),
    });
    drivers().flat_map(|driver| driver.devices()).chain(absent).collect()
}

/// Returns the numbers of the available GPUs that a load may select by itself. Does not open the drivers after the last
/// one with such GPUs.
pub fn automatic() -> Vec<u32> {
    let (mut next, mut numbers) = (FIRST_GPU, Vec::new());
    let n = drivers().enumerate().filter(|(_, driver)| driver.is_automatic()).last().map_or(0, |(last, _)| last + 1);
    for driver in drivers().take(n) {
        for info in driver.devices() {
            if driver.is_automatic() && info.unavailable.is_empty() {
                numbers.push(next);
            }
            next += 1;
        }
    }
    numbers
}

/// Opens a GPU, by its number in the list of devices, for one model.
pub fn open(number: u32, options: &LoadOptions) -> Result<Arc<dyn GpuDevice>> {
    let missing = || Error::invalid(format!("device {number} does not exist"));
    let mut ordinal = number.checked_sub(FIRST_GPU).ok_or_else(missing)?;
    let mut drivers = drivers().peekable();
    while let Some(driver) = drivers.next() {
        // The last driver itself reports a missing device.
        let is_last = drivers.peek().is_none();
        let n = if is_last { u32::MAX } else { u32::try_from(driver.devices().len()).unwrap_or(u32::MAX) };
        if ordinal < n {
            return driver.open(i32::try_from(ordinal).map_err(|_| missing())?, options);
        }
        ordinal -= n;
    }
    Err(missing())
}

/// Returns the number of a GPU in the list of devices, from 1.
pub fn number(device: &dyn GpuDevice) -> u32 {
    let before = drivers().take_while(|driver| driver.name() != device.driver());
    let before: usize = before.map(|driver| driver.devices().len()).sum();
    let [before, ordinal] = [u32::try_from(before).ok(), u32::try_from(device.ordinal()).ok()];
    before.zip(ordinal).map_or(u32::MAX, |(before, ordinal)| FIRST_GPU.saturating_add(before).saturating_add(ordinal))
}
