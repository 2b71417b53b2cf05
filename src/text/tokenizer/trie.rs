//! A trie of tokens, which finds all tokens that begin a text in one walk.

use crate::error::Result;
use crate::text::tokenizer::vocab::{HashIndex, Vocab, reserve};

/// Tokens by their bytes, one byte per level.
pub struct Trie {
    nodes: Vec<Node>,
    /// Every node but the root, by its parent and byte.
    index: HashIndex,
}

struct Node {
    parent: u32,
    byte: u8,
    token: Option<u32>,
}

impl Trie {
    pub const ROOT: u32 = 0;

    /// Creates an empty trie with capacity for the tokens of a vocabulary.
    pub fn new(vocab: &Vocab) -> Result<Trie> {
        let n = vocab.iter().map(|(_, bytes, _)| bytes.len()).sum::<usize>() + 1;
        let index = HashIndex::new("bytes of vocabulary", n)?;
        let mut nodes = Vec::new();
        reserve(&mut nodes, n)?;
        nodes.push(Node { parent: 0, byte: 0, token: None });
        Ok(Trie { nodes, index })
    }

    /// Returns the node after `byte`.
    pub fn child(&self, parent: u32, byte: u8) -> Option<u32> {
        self.index.find(edge(parent, byte), |n| {
            let node = &self.nodes[n as usize];
            (node.parent, node.byte) == (parent, byte)
        })
    }

    /// Adds a token; the first id of equal ones wins.
    pub fn insert(&mut self, bytes: &[u8], id: u32) {
        let mut at = 0;
        for &byte in bytes {
            at = match self.child(at, byte) {
                Some(child) => child,
                None => {
                    let child = self.nodes.len() as u32;
                    self.index.insert(edge(at, byte), child);
                    self.nodes.push(Node { parent: at, byte, token: None });
                    child
                }
            };
        }
        self.nodes[at as usize].token.get_or_insert(id);
    }

    /// Finds the tokens that begin `bytes`, from a node on, shortest first.
    pub fn prefixes(&self, from: u32, bytes: &[u8], mut found: impl FnMut(usize, u32)) {
        let mut at = from;
        for (&byte, len) in bytes.iter().zip(1..) {
            let Some(child) = self.child(at, byte) else { return };
            at = child;
            if let Some(id) = self.nodes[at as usize].token {
                found(len, id);
            }
        }
    }
}

/// Packs parent and byte into one number.
fn edge(parent: u32, byte: u8) -> u64 {
    u64::from(parent) << 8 | u64::from(byte)
}
