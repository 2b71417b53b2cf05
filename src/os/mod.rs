//! The operating system interface: files, page-granular memory, threads with their signals and processors, machine
//! information, dynamic libraries. `unix`, `windows` and `other` each define all items that are re-exported here. Other
//! code calls the system only through std and memmap2.
#![allow(unsafe_code)]

#[cfg(any(target_os = "linux", target_os = "android"))]
mod cores;
#[cfg(all(target_pointer_width = "64", any(target_os = "linux", windows)))]
pub mod library;
mod pages;
mod parts;

#[cfg(not(any(unix, windows)))]
mod other;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

use std::ffi::{OsStr, OsString};

pub use self::pages::Pages;
pub use self::parts::{Part, name_of_part, remove_abandoned, replace_file};

#[cfg(not(any(unix, windows)))]
pub use self::other::*;
#[cfg(unix)]
pub use self::unix::*;
#[cfg(windows)]
pub use self::windows::*;

/// True if an error code of the system means that a file does not exist.
pub fn is_not_found(system_code: i32) -> bool {
    system_code == NOT_FOUND || std::io::Error::from_raw_os_error(system_code).kind() == std::io::ErrorKind::NotFound
}

/// Replaces the end of a file name; returns `None` if the name ends otherwise. The bytes before the end may be
/// non-UTF-8.
pub fn with_other_end(name: &OsStr, end: &str, other: &str) -> Option<OsString> {
    let rest = name.as_encoded_bytes().strip_suffix(end.as_bytes())?;
    // SAFETY: the bytes of an `OsStr` up to a nonempty UTF-8 substring, or all of them.
    let mut name = unsafe { OsStr::from_encoded_bytes_unchecked(rest) }.to_owned();
    name.push(other);
    Some(name)
}

/// Returns the process ID; 0 on systems without processes, on which std would panic.
pub fn process_id() -> u32 {
    if cfg!(any(unix, windows)) { std::process::id() } else { 0 }
}

/// Constants from Documentation/arch/x86/xstate.rst of Linux.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const XFEATURE_XTILEDATA: u64 = 18;

/// Requests permission for AMX tiles from the system; returns false if denied.
#[cfg(target_arch = "x86_64")]
pub fn enable_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
        // SAFETY: the call takes only numbers; kernels without it return an error.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// True if this process already has permission for AMX tiles.
#[cfg(target_arch = "x86_64")]
pub fn has_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_GET_XCOMP_PERM: i32 = 0x1022;
        let mut features = 0u64;
        // SAFETY: the call writes a 64-bit number; kernels without it return an error.
        let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &raw mut features) };
        result == 0 && features >> XFEATURE_XTILEDATA & 1 == 1
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Returns the name of the processor.
pub fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Leaves 0x80000002 to 0x80000004 have the 48 bytes of the brand string.
        let leaf = |leaf| {
            let r = __cpuid(leaf);
            [r.eax, r.ebx, r.ecx, r.edx]
        };
        if leaf(0x8000_0000)[0] >= 0x8000_0004 {
            let bytes: Vec<u8> = (0x8000_0002..=0x8000_0004).flat_map(leaf).flat_map(u32::to_le_bytes).collect();
            let brand = String::from_utf8_lossy(&bytes);
            let brand = brand.trim_matches(|c: char| c == '\0' || c.is_whitespace());
            if !brand.is_empty() {
                return brand.to_owned();
            }
        }
    }
    std::env::consts::ARCH.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_names_are_replaced() {
        let replaced = |name: &str| with_other_end(OsStr::new(name), "-1.gguf", "-2.gguf");
        assert_eq!(replaced("größe-1.gguf"), Some("größe-2.gguf".into()));
        assert_eq!(replaced("-1.gguf"), Some("-2.gguf".into()));
        assert_eq!(replaced("a-2.gguf"), None);
    }

    #[test]
    fn a_thread_apart_has_a_stack_of_its_own() {
        fn deep(n: usize) -> usize {
            let room = std::hint::black_box([n as u8; 1024]);
            if n == 0 { 0 } else { deep(n - 1) + usize::from(room[n % 1024] == n as u8) }
        }
        let here = std::thread::current().id();
        let work = || (std::thread::current().id() != here, deep(5000));
        assert_eq!(run_apart(8 << 20, work).unwrap(), (true, 5000));
    }

    #[test]
    fn the_machine_is_known() {
        let [total, free] = memory();
        assert!(!processor().is_empty() && free <= total);
        assert!(total > 1 << 20 || !cfg!(any(target_os = "linux", windows)));
    }

    #[test]
    fn processors_that_do_not_exist_are_refused() {
        match unusable_processor(&[0, 1 << 20]) {
            Some(found) => assert!(found == 0 || found == 1 << 20),
            None => panic!("a processor of number 2^20"),
        }
    }
}
