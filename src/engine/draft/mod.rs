//! Speculative decoding: sources of draft tokens, and the policy of how many pay.

pub(super) mod head;
pub(super) mod lookup;
pub(super) mod model;
pub(super) mod policy;
pub(super) mod shared_end;
pub(super) mod shared_kv;
pub(super) mod source;
