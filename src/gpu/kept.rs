//! A file of passed self-tests, so that later processes on the machine skip them.
//!
//! The file has a header, the passed tests, each with an identity of device, driver and kernels, and a checksum. A
//! damaged, foreign or unreadable file means no verdicts; if writing fails, the next process tests again. A file of
//! another kind is never replaced. Failures are not kept: a later process tests again.

use super::interface::GpuDevice;
use crate::error::{Result, try_vec};
use crate::os;
use std::path::{Path, PathBuf};
use twox_hash::XxHash64;

const MAGIC: &[u8; 8] = b"RZTESTS1";

/// Bytes of a verdict: a device and a test.
const VERDICT: usize = 16;

/// Maximum number of verdicts in a file; the oldest are dropped.
const MOST: usize = 8192;

/// Test id that stands for a device without its optional kernels.
const LEFT_OUT: u64 = u64::MAX;

/// A file of verdicts.
#[derive(Clone, Debug)]
pub struct Kept {
    pub path: PathBuf,
}

impl Kept {
    /// Loads the verdicts of a device.
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

    /// Adds the verdicts of a device to the file.
    pub fn keep(&self, device: &dyn GpuDevice) {
        let Some(identity) = device.identity().filter(|_| is_ours(&self.path)) else { return };
        // Another process may have changed the file since.
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

/// False for a file of another kind, which must not be overwritten.
fn is_ours(path: &Path) -> bool {
    let Ok(file) = os::open(path) else { return !path.exists() };
    let mut magic = [0; MAGIC.len()];
    let is_empty = || file.metadata().is_ok_and(|data| data.len() == 0);
    os::is_regular(&file).unwrap_or(false)
        && (is_empty() || os::read_exact_at(&file, &mut magic, 0).is_ok_and(|()| magic == *MAGIC))
}

/// Returns the verdicts of a file; `None` if it is damaged or of another kind.
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
