//! The working memory of a tile: an executor per stage and a KV cache. On a GPU an encoder keeps one set between calls,
//! because creating it takes longer than encoding a small image.

use std::sync::{Arc, Mutex, PoisonError};

use super::convolutions::Convolving;
use super::stage::StageExecutor;
use crate::device::sequence::Sequence;
use crate::error::Result;

/// Executors and KV cache for one tile at a time.
pub(super) struct Working {
    /// Maximum numbers of patches and of blocks of a tile.
    pub tile: [usize; 2],
    pub convolving: Convolving,
    /// Executors of encoder and projector.
    pub executors: [StageExecutor; 2],
    /// KV cache of the tile. Declared after the executors, because their drop waits for work that writes the KV cache.
    pub sequence: Sequence,
}

impl Working {
    /// Abandons steps in progress.
    pub fn reset(&mut self) -> Result<()> {
        self.convolving.reset()?;
        self.executors.iter_mut().try_for_each(StageExecutor::reset)
    }
}

/// The set that an encoder keeps.
#[derive(Default)]
pub(super) struct Kept(Mutex<Option<Working>>);

impl Kept {
    /// Takes the kept set if tiles of this size fit; otherwise frees it.
    pub fn take(&self, [patches, blocks]: [usize; 2]) -> Option<Working> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.filter(|kept| kept.tile[0] >= patches && kept.tile[1] >= blocks)
    }
}

/// A set in use, which returns to its encoder on drop.
pub(super) struct Borrowed {
    /// `Some` until drop.
    working: Option<Working>,
    /// `None` if the set is not kept.
    home: Option<Arc<Kept>>,
}

impl Borrowed {
    pub fn new(working: Working, home: Option<&Arc<Kept>>) -> Borrowed {
        Borrowed { working: Some(working), home: home.cloned() }
    }

    pub fn get(&mut self) -> &mut Working {
        self.working.as_mut().expect("present until this is dropped")
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // After a panic or a lost device the set is of no use.
        let (Some(home), Some(mut working)) = (&self.home, self.working.take()) else { return };
        if !std::thread::panicking() && working.reset().is_ok() {
            home.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(working);
        }
    }
}
