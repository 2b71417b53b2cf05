//! Writes valid and invalid GGUF files: a field that is `None` is written correctly. Layout:
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

pub struct Gguf {
    pub version: u32,
    /// Alignment of the data; a test that declares another one must add the key.
    pub alignment: usize,
    /// Declared counts.
    pub n_keys: Option<u64>,
    pub n_tensors: Option<u64>,
    /// Name, type and value as in the file.
    pub keys: Vec<(String, Vec<u8>)>,
    pub tensors: Vec<Tensor>,
}

pub struct Tensor {
    pub name: String,
    pub dtype: u32,
    /// Slowest dimension first; reversed in the file.
    pub dims: Vec<u64>,
    pub data: Vec<u8>,
    /// Declared offset.
    pub offset: Option<u64>,
}

impl Gguf {
    pub fn new() -> Gguf {
        Gguf { version: 3, alignment: 32, n_keys: None, n_tensors: None, keys: vec![], tensors: vec![] }
    }

    pub fn key(mut self, name: &str, value: impl Value) -> Gguf {
        let mut bytes = value.type_number().to_le_bytes().to_vec();
        value.write(&mut bytes);
        self.keys.push((name.to_owned(), bytes));
        self
    }

    pub fn tensor(mut self, name: &str, dtype: u32, dims: &[u64], data: &[u8]) -> Gguf {
        let (name, dims, data) = (name.to_owned(), dims.to_vec(), data.to_vec());
        self.tensors.push(Tensor { name, dtype, dims, data, offset: None });
        self
    }

    /// Returns the file, and the number of bytes before its data.
    pub fn build(&self) -> (Vec<u8>, usize) {
        let mut out = b"GGUF".to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.n_tensors.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.n_keys.unwrap_or(self.keys.len() as u64).to_le_bytes());
        for (name, value) in &self.keys {
            name.as_str().write(&mut out);
            out.extend(value);
        }
        let mut offset = 0;
        for t in &self.tensors {
            t.name.as_str().write(&mut out);
            out.extend((t.dims.len() as u32).to_le_bytes());
            for d in t.dims.iter().rev() {
                out.extend(d.to_le_bytes());
            }
            out.extend(t.dtype.to_le_bytes());
            out.extend(t.offset.unwrap_or(offset).to_le_bytes());
            offset += t.data.len().next_multiple_of(self.alignment) as u64;
        }
        let header = out.len();
        for t in &self.tensors {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
            out.extend(&t.data);
        }
        (out, header)
    }
}

/// A metadata value.
pub trait Value {
    fn type_number(&self) -> u32;
    fn write(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($t:ty: $number:literal)*) => {$(
        impl Value for $t {
            fn type_number(&self) -> u32 {
                $number
            }

            fn write(&self, out: &mut Vec<u8>) {
                out.extend(self.to_le_bytes());
            }
        }
    )*};
}

numbers! { u8: 0 i8: 1 u16: 2 i16: 3 u32: 4 i32: 5 f32: 6 u64: 10 i64: 11 f64: 12 }

impl Value for bool {
    fn type_number(&self) -> u32 {
        7
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.push(*self as u8);
    }
}

impl Value for &[u8] {
    fn type_number(&self) -> u32 {
        8
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend((self.len() as u64).to_le_bytes());
        out.extend(*self);
    }
}

impl Value for &str {
    fn type_number(&self) -> u32 {
        8
    }

    fn write(&self, out: &mut Vec<u8>) {
        self.as_bytes().write(out);
    }
}

/// An array; an empty one is of u8.
impl<T: Value> Value for Vec<T> {
    fn type_number(&self) -> u32 {
        9
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.first().map_or(0, Value::type_number).to_le_bytes());
        out.extend((self.len() as u64).to_le_bytes());
        for v in self {
            v.write(out);
        }
    }
}
