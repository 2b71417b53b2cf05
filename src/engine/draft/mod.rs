//! Drafts for speculative decoding: where they come from, and how many pay.

pub(super) mod head;
pub(super) mod lookup;
pub(super) mod model;
pub(super) mod policy;
pub(super) mod shared_end;
pub(super) mod shared_kv;
pub(super) mod source;
