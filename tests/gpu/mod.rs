//! The GPU of a test program: the host shim in the place of the system's driver, or a device that there is.

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use realizar::cuda;

use crate::it::support::shim::{IMAGE, Shim, skipped_without};

pub struct Gpu(pub Option<Shim>);

/// Gives the GPU to one test at a time, because they share its memory. The shim shows so many `devices`.
pub fn gpu(devices: i32) -> Option<MutexGuard<'static, Gpu>> {
    static GPU: OnceLock<Mutex<Gpu>> = OnceLock::new();
    let make = || {
        let shim = Shim::new();
        if let Some(shim) = &shim {
            assert!(cuda::provide(shim.driver.clone(), IMAGE));
            shim.function::<extern "C" fn(i32)>("shim_devices")(devices);
        }
        Mutex::new(Gpu(shim))
    };
    let gpu = GPU.get_or_init(make).lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(shim) = &gpu.0 {
        // What an earlier test may have left.
        shim.order(0);
        shim.fail(c"", 0, 0);
        return Some(gpu);
    }
    let why = cuda::devices().swap_remove(0).unavailable;
    if why.is_empty() {
        return Some(gpu);
    }
    eprintln!("skipped: the GPU: {why}");
    None
}

impl Gpu {
    /// Gives the shim to tests of what no device can be made to do.
    pub fn shim(&self) -> Option<&Shim> {
        skipped_without(self.0.as_ref())
    }
}
