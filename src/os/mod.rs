//! Everything that differs between operating systems: files, memory in pages, threads with their signals and
//! processors, the machine, dynamic libraries. `unix`, `windows` and `other` each define all items that are re-exported
//! here. Other code calls a system only through std and memmap2.
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

/// Returns whether an error code of the system says that there is no such file.
pub fn is_not_found(system_code: i32) -> bool {
    system_code == NOT_FOUND || std::io::Error::from_raw_os_error(system_code).kind() == std::io::ErrorKind::NotFound
}

/// Replaces the end of a file name; `None` if the name ends otherwise. The bytes before the end need not be UTF-8.
pub fn with_other_end(name: &OsStr, end: &str, other: &str) -> Option<OsString> {
    let rest = name.as_encoded_bytes().strip_suffix(end.as_bytes())?;
    // SAFETY: the bytes of an `OsStr` up to a substring that is UTF-8 and not empty, or all of them.
    let mut name = unsafe { OsStr::from_encoded_bytes_unchecked(rest) }.to_owned();
    name.push(other);
    Some(name)
}

/// Number of this process; 0 on systems without processes, on which std would panic.
pub fn process_id() -> u32 {
    if cfg!(any(unix, windows)) { std::process::id() } else { 0 }
}

/// Numbers of Documentation/arch/x86/xstate.rst of Linux.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
const XFEATURE_XTILEDATA: u64 = 18;

/// Asks the system to let this process use the tiles of AMX; false where it does not.
#[cfg(target_arch = "x86_64")]
pub fn enable_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_REQ_XCOMP_PERM: i32 = 0x1023;
        // SAFETY: the call takes numbers alone; a kernel that does not know it says so.
        unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Returns whether the system lets this process use the tiles of AMX already.
#[cfg(target_arch = "x86_64")]
pub fn has_tiles() -> bool {
    #[cfg(target_os = "linux")]
    {
        const ARCH_GET_XCOMP_PERM: i32 = 0x1022;
        let mut features = 0u64;
        // SAFETY: the call writes a number of 64 bits; a kernel that does not know it says so.
        let result = unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &raw mut features) };
        result == 0 && features >> XFEATURE_XTILEDATA & 1 == 1
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// Name of the processor.
pub fn processor() -> String {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        // Leaves 0x80000002 to 0x80000004 have the 48 bytes of the brand.
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
