//! The devices to compute on.

use std::ffi::c_char;

use crate::engine;
use crate::engine::DeviceKind;
use crate::error::{Error, Result};

use super::field::write_text;
use super::guard::{guarded, guarded_or};
use super::status::{RZ_OK, rz_error, rz_status};

/// `rz_device_info.kind`: the processors of the host.
pub const RZ_DEVICE_CPU: u32 = 1;
/// `rz_device_info.kind`: a GPU.
pub const RZ_DEVICE_GPU: u32 = 2;

/// A device. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_device_info {
    /// sizeof(rz_device_info), set by the caller.
    pub struct_size: u32,
    /// Index of the device; it may differ between processes.
    pub index: u32,
    /// Identifier, equal in every process on this machine: "cpu", or the UUID of a GPU, such as
    /// "8d4f7a0e-2c31-4b7e-9d55-0f6e1a2b3c4d", which NVIDIA's tools print after "GPU-" or "MIG-"; empty if unknown. Two
    /// GPUs of the same model have different ids.
    pub id: [c_char; 64],
    /// Name, such as "cuda:0 NVIDIA H200".
    pub name: [c_char; 64],
    /// RZ_DEVICE_CPU or RZ_DEVICE_GPU.
    pub kind: u32,
    /// 1 if models can be loaded onto the device, else 0.
    pub available: u32,
    /// Instruction set or compute capability, such as "avx512vnni" or "sm_90".
    pub isa: [c_char; 32],
    /// Total memory in bytes; 0 if unknown.
    pub memory_total: u64,
    /// Free memory in bytes; 0 if unknown.
    pub memory_free: u64,
    /// Reason why the device cannot be used; empty if it can.
    pub unavailable: [c_char; 256],
}

/// Returns the number of devices, including unavailable ones. Their indices run from 1 to this number; 1 is always the
/// CPU. Wherever a device is asked for, 0 means "choose for me", as rz_model_params.device explains. Any thread. Since
/// 0.1.0.
#[unsafe(no_mangle)]
pub extern "C" fn rz_device_count() -> u32 {
    guarded_or!(1, |_call| Ok(u32::try_from(engine::devices().len()).unwrap_or(u32::MAX)))
}

/// Describes device `index`; index 0 is the CPU here, because an automatic choice depends on the model (see
/// rz_model_info.device).
///
/// The caller sets `out->struct_size`. Devices that cannot be used are described too, with the reason: for example, a
/// missing driver, or a self-test whose results differed from the CPU. Any thread. Errors: RZ_ERR_NOT_FOUND for an
/// index beyond rz_device_count(). Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_device_info_get(index: u32, out: *mut rz_device_info, err: *mut rz_error) -> rz_status {
    guarded!(err, |call| {
        let out = call.out_struct(out)?;
        out.set(describe(index)?);
        Ok(RZ_OK)
    })
}

fn describe(index: u32) -> Result<rz_device_info> {
    let index = if index == 0 { engine::CPU_DEVICE } else { index };
    let device = engine::device(index).ok_or_else(|| {
        let n = engine::devices().len();
        Error::not_found(format!("index is {index}; it must be below the number of devices, {n}"))
    })?;
    let mut info = rz_device_info {
        struct_size: 0,
        index,
        id: [0; 64],
        name: [0; 64],
        kind: match device.kind {
            DeviceKind::Cpu => RZ_DEVICE_CPU,
            DeviceKind::Gpu => RZ_DEVICE_GPU,
        },
        available: u32::from(device.unavailable.is_empty()),
        isa: [0; 32],
        memory_total: device.memory_total,
        memory_free: device.memory_free,
        unavailable: [0; 256],
    };
    write_text(&mut info.id, format_args!("{}", device.id));
    write_text(&mut info.name, format_args!("{}", device.name));
    write_text(&mut info.isa, format_args!("{}", device.isa));
    write_text(&mut info.unavailable, format_args!("{}", device.unavailable));
    Ok(info)
}
