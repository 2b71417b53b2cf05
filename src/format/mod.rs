//! File to named tensors and typed metadata. Everything here reads hostile input: each count and length is
//! checked against the bytes that are left and an absolute cap before anything is allocated.
//! Refuses to know architectures: names and keys are handed on as they are.

use std::ops::Range;
use std::path::Path;

use crate::error::Result;
use crate::tensor::{DType, Shape};

/// A metadata value. Integers keep their sign and width only as far as readers care.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    U64(u64),
    I64(i64),
    F64(f64),
    Bool(bool),
    Str(String),
    /// Arrays keep one element type; nested arrays are refused.
    U64s(Vec<u64>),
    I64s(Vec<i64>),
    F64s(Vec<f32>),
    Bools(Vec<bool>),
    Strs(Vec<String>),
}

/// Where one tensor's bytes lie. `name` is unique in the file set and `bytes` is its exact length.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    pub name: String,
    pub dtype: DType,
    pub shape: Shape,
    /// Which file of a split set.
    pub file: usize,
    /// From the start of that file.
    pub offset: u64,
    pub bytes: u64,
}
