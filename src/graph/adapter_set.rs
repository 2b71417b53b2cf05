//! The LoRA adapters of a sequence on a device.

use std::sync::Arc;

/// Adapters in the order of addition, with nonzero scales.
pub struct AdapterSet<A: ?Sized>(Option<Arc<Vec<Scaled<A>>>>);

/// An adapter and its scale.
pub type Scaled<A> = (Arc<A>, f32);

impl<A: ?Sized> Default for AdapterSet<A> {
    fn default() -> Self {
        AdapterSet(None)
    }
}

impl<A: ?Sized> Clone for AdapterSet<A> {
    fn clone(&self) -> Self {
        AdapterSet(self.0.clone())
    }
}

impl<A: ?Sized> AdapterSet<A> {
    /// Returns a set of adapters with finite scales; scales of 0 are dropped.
    pub fn new(mut adapters: Vec<Scaled<A>>) -> AdapterSet<A> {
        adapters.retain(|(_, factor)| *factor != 0.0);
        AdapterSet((!adapters.is_empty()).then(|| Arc::new(adapters)))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Scaled<A>> {
        self.0.iter().flat_map(|adapters| adapters.iter())
    }

    /// True for the same adapters with the same scales.
    pub fn is(&self, other: &AdapterSet<A>) -> bool {
        self.iter()
            .map(|(a, x)| (Arc::as_ptr(a).cast::<()>(), x))
            .eq(other.iter().map(|(a, x)| (Arc::as_ptr(a).cast::<()>(), x)))
    }
}
