//! Writes valid and invalid safetensors files. Layout: <https://github.com/huggingface/safetensors#format>.

use std::path::PathBuf;

/// Name, type, shape and bytes of a tensor.
pub type Tensor<'a> = (&'a str, &'a str, &'a [u64], Vec<u8>);

pub fn file(tensors: &[Tensor]) -> Vec<u8> {
    let (mut members, mut data) = (vec![r#""__metadata__":{"format":"pt"}"#.to_owned()], vec![]);
    for (name, dtype, shape, bytes) in tensors {
        let start = data.len();
        data.extend(bytes);
        members.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
    }
    with_header(&format!("{{{}}}", members.join(",")), &data)
}

pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

/// A folder of files.
pub struct Folder(pub tempfile::TempDir);

impl Folder {
    pub fn empty() -> Folder {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn new(config: &str) -> Folder {
        let folder = Folder::empty();
        folder.put("config.json", config);
        folder
    }

    pub fn put(&self, name: &str, bytes: impl AsRef<[u8]>) -> &Folder {
        self.file(name, bytes);
        self
    }

    pub fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }
}
