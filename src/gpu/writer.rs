//! Arrays for a device in host memory, in the device's byte order.

pub type Address = u64;

/// Alignment of every array in bytes.
pub const ALIGN: usize = 16;

/// Writes arrays one after another and returns their device addresses.
pub struct Writer<'a> {
    bytes: &'a mut [u8],
    base: Address,
    at: usize,
}

impl Writer<'_> {
    /// Writes into `bytes`, which will be at `base` on the device.
    pub fn new(bytes: &mut [u8], base: Address) -> Writer<'_> {
        Writer { bytes, base, at: 0 }
    }

    pub fn written(&self) -> usize {
        self.at
    }

    /// Begins an array and returns its address.
    pub fn array(&mut self) -> Address {
        let start = self.at.next_multiple_of(ALIGN);
        // No stale addresses of an earlier step.
        self.bytes[self.at..start].fill(0);
        self.at = start;
        self.base + self.at as Address
    }

    pub fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..self.at + N].copy_from_slice(&bytes);
        self.at += N;
    }

    /// Reserves an array of `bytes` bytes and returns its address.
    pub fn reserve(&mut self, bytes: usize) -> Address {
        let address = self.array();
        self.at += bytes;
        address
    }

    /// Writes into a reserved array.
    pub fn put_at<const N: usize>(&mut self, address: Address, bytes: [u8; N]) {
        self.bytes[(address - self.base) as usize..][..N].copy_from_slice(&bytes);
    }

    pub fn words(&mut self, words: &[u32]) -> Address {
        let address = self.array();
        words.iter().for_each(|w| self.put(w.to_le_bytes()));
        address
    }
}
