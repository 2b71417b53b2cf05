//! Verdicts of self-tests in a file, so that a later process on the same machine need not test again.
//!
//! Owns the file: a head, the tests that were passed, each with what tells the device, its driver and the kernels from
//! others, and a checksum. A file that is damaged, of another format or not to be read stands for no verdict, and one
//! that cannot be written costs the next process a test; what is no such file is not replaced. Failures are not kept: a
//! later process tests again.

use super::interface::GpuDevice;
use crate::error::{Result, try_vec};
use crate::os;
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

const MAGIC: &[u8; 8] = b"RZTESTS1";

/// Bytes of a verdict: a device and a test.
const VERDICT: usize = 16;

/// Verdicts of a file, at most; the oldest make room.
const MOST: usize = 8192;

/// The number in place of a test for a device that leaves its optional kernel out.
const LEFT_OUT: u64 = u64::MAX;

/// A file of verdicts.
#[derive(Clone, Debug)]
pub struct Kept {
    pub path: PathBuf,
}

impl Kept {
    /// Has a device take over what is known of it.
    pub fn recall(&self, device: &dyn GpuDevice) {
        let (Some(identity), Some(verdicts)) = (device.identity(), read(&self.path)) else { return };
        let mut verdict = device.verdict();
        for (_, test) in verdicts.into_iter().filter(|(of, _)| *of == identity) {
            match test {
                LEFT_OUT => verdict.leaves_out_optional = true,
                test => _ = verdict.passed.insert(test),
            }
        }
    }

    /// Adds what is known of a device to the file.
    pub fn keep(&self, device: &dyn GpuDevice) {
        let Some(identity) = device.identity().filter(|_| is_ours(&self.path)) else { return };
        // Another process may have written it since.
        let mut verdicts = read(&self.path).unwrap_or_default();
        let known = device.verdict();
        for test in known.passed.iter().copied().chain(known.leaves_out_optional.then_some(LEFT_OUT)) {
            if !verdicts.contains(&(identity, test)) {
                verdicts.push((identity, test));
            }
        }
        drop(known);
        let first = verdicts.len().saturating_sub(MOST);
        let _ = write(&self.path, &verdicts[first..]);
    }
}

/// False for a file that is something else, which stays.
fn is_ours(path: &Path) -> bool {
    let Ok(file) = os::open(path) else { return !path.exists() };
    let mut magic = [0; MAGIC.len()];
    let is_empty = || file.metadata().is_ok_and(|data| data.len() == 0);
    os::is_regular(&file).unwrap_or(false)
        && (is_empty() || os::read_exact_at(&file, &mut magic, 0).is_ok_and(|()| magic == *MAGIC))
}

/// The verdicts of a file; `None` where it is none, or damaged.
fn read(path: &Path) -> Option<Vec<(u64, u64)>> {
    let file = os::open(path).ok().filter(|file| os::is_regular(file).unwrap_or(false))?;
    let len = usize::try_from(file.metadata().ok()?.len()).ok()?;
    let n = len.checked_sub(MAGIC.len() + 8)? / VERDICT;
    if n > MOST || len != MAGIC.len() + n * VERDICT + 8 {
        return None;
    }
    let mut bytes = try_vec("verdicts of devices", len).ok()?;
    bytes.resize(len, 0);
    os::read_exact_at(&file, &mut bytes, 0).ok()?;
    let (body, checksum) = bytes.split_last_chunk()?;
    if XxHash64::oneshot(0, body) != u64::from_le_bytes(*checksum) {
        return None;
    }
    let (words, _) = body.strip_prefix(MAGIC)?.as_chunks();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    Some(words.as_chunks().0.iter().map(|&[device, test]| (device, test)).collect())
}

fn write(path: &Path, verdicts: &[(u64, u64)]) -> Result<()> {
    let mut bytes = MAGIC.to_vec();
    verdicts.iter().flat_map(|(device, test)| [device, test]).for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.extend(XxHash64::oneshot(0, &bytes).to_le_bytes());
    os::replace_file(path, |write| write(&bytes))
}
