//! Models loaded from caller-provided bytes: memory, a range of a file descriptor, or a read callback.

use std::ffi::{c_char, c_void};
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use crate::engine::{ByteSource, Model, ReadAt};
use crate::error::{Error, Result, try_vec};
use crate::os;

use super::arguments::{Call, User};
use super::guard::guarded;
use super::model::{load, rz_model, rz_model_params};
use super::status::{RZ_ERR_FORMAT, RZ_OK, rz_error, rz_status};

/// Kind of a source: `size` bytes at `data`.
pub const RZ_SOURCE_MEMORY: u32 = 1;
/// Kind of a source: `size` bytes, from `offset` on, of the regular file open at `fd`; size 0: up to the end of the
/// file.
pub const RZ_SOURCE_FD: u32 = 2;
/// Kind of a source: `size` bytes, delivered by `read`.
pub const RZ_SOURCE_READER: u32 = 3;

/// Fills `out` with `n` bytes from `offset` on, all of which lie within the size of the source. Returns 0;
/// RZ_ERR_FORMAT if the file ends before the last of these bytes (the load then fails with RZ_ERR_FORMAT), or an errno
/// (the load then fails with RZ_ERR_IO). Several threads may call it at once, during the load only. It may call the
/// library. It must return normally: no longjmp, no C++ exception.
pub type rz_source_callback =
    Option<unsafe extern "C" fn(offset: u64, out: *mut c_void, n: usize, user: *mut c_void) -> i32>;

/// Bytes of one file of a model. Since 0.1.0.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rz_source {
    /// sizeof(rz_source), the same in all sources of a call.
    pub struct_size: u32,
    /// RZ_SOURCE_...
    pub kind: u32,
    /// Name of the file, NUL-terminated, as in the folder of the model ("config.json", "model-00001-of-00002.gguf").
    /// May be NULL if there is only one source.
    pub name: *const c_char,
    /// The bytes of RZ_SOURCE_MEMORY.
    pub data: *const c_void,
    /// Number of bytes.
    pub size: u64,
    /// Open file descriptor of RZ_SOURCE_FD, which remains the caller's. Its position is neither used nor changed.
    pub fd: i32,
    /// 0.
    pub reserved: u32,
    /// Offset of the bytes in the file of RZ_SOURCE_FD.
    pub offset: u64,
    /// Callback of RZ_SOURCE_READER.
    pub read: rz_source_callback,
    /// Passed to `read`.
    pub user: *mut c_void,
}

/// Like rz_model_load, for a model from caller-provided bytes: a .gguf file (all files of a split model), a
/// .safetensors file, or the needed files of a folder, such as config.json, tokenizer.json and the weights.
///
/// If there are several sources, each must have the name of its file, by which other files refer to it. Sources are
/// only read during the call: memory, descriptors and the target of `user` may be released afterwards.
///
/// With RZ_MODEL_MMAP all sources must be of the kind RZ_SOURCE_FD; other kinds fail with RZ_ERR_UNSUPPORTED. Their
/// bytes are mapped in place, at any offset, and used without a copy; a source can be, for example, an uncompressed
/// asset in an Android package. The mapping outlives the descriptor. `params` may be NULL. The caller frees `*out` with
/// rz_model_free. Any thread. Errors: as for rz_model_load; RZ_ERR_FORMAT also if a file is shorter than `offset` +
/// `size` of its source, or if `read` returns RZ_ERR_FORMAT; RZ_ERR_IO also for an errno of `read`, and for a file of
/// the model that is not among the sources. Since 0.1.0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rz_model_load_from(
    sources: *const rz_source,
    n: usize,
    params: *const rz_model_params,
    out: *mut *mut rz_model,
    err: *mut rz_error,
) -> rz_status {
    guarded!(err, |call| {
        let out = call.out(out, "out")?;
        let sources = byte_sources(call, sources, n)?;
        out.set_handle(load(call, params, |params| Model::load_from(&sources, params))?);
        Ok(RZ_OK)
    })
}

/// Maximum number of files of a model.
const MAX_SOURCES: usize = 2048;

/// Returns the caller's sources, whose memory and callbacks are used only during the call.
pub(super) fn byte_sources(call: &Call, sources: *const rz_source, n: usize) -> Result<Vec<ByteSource>> {
    if n == 0 || n > MAX_SOURCES {
        return Err(Error::invalid(format!("there are {n} sources; there must be 1 to {MAX_SOURCES}")));
    }
    let mut all: Vec<ByteSource> = try_vec("sources", n)?;
    for i in 0..n {
        let in_entry = |e| match e {
            Error::InvalidArgument(what) => Error::InvalidArgument(format!("sources[{i}]: {what}")),
            other => other,
        };
        let source: rz_source = call.element(sources, i).map_err(in_entry)?;
        let source = byte_source(call, &source, n).map_err(in_entry)?;
        if all.iter().any(|other| other.name == source.name) {
            return Err(Error::invalid(format!("sources[{i}]: the name {:?} occurs twice", source.name)));
        }
        all.push(source);
    }
    Ok(all)
}

/// The files that a plan is for.
pub(super) enum Files<'a> {
    Path(&'a Path),
    Sources(Vec<ByteSource>),
}

/// Reads `path` or `sources`; exactly one of them must be given.
pub(super) fn files<'a>(call: &'a Call, path: *const c_char, sources: *const rz_source, n: usize) -> Result<Files<'a>> {
    match (path.is_null(), n) {
        (false, 0) => Ok(Files::Path(call.path(path, "path")?)),
        (true, 1..) => Ok(Files::Sources(byte_sources(call, sources, n)?)),
        _ => Err(Error::invalid("a plan has both a path and sources, or neither; it must have one of them")),
    }
}

fn byte_source(call: &Call, source: &rz_source, n: usize) -> Result<ByteSource> {
    let name = match source.name.is_null() {
        true if n == 1 => PathBuf::from("the source"),
        _ => call.path(source.name, "name")?.to_owned(),
    };
    if name.components().next().is_none() || !name.components().all(|c| matches!(c, Component::Normal(_))) {
        return Err(Error::invalid(format!("name is {name:?}; it must be a relative path without \"..\"")));
    }
    let &rz_source { kind, size, offset, .. } = source;
    let mut file = None;
    let (len, read): (u64, Arc<ReadAt>) = match kind {
        RZ_SOURCE_MEMORY => {
            let len = usize::try_from(size)
                .map_err(|_| Error::invalid(format!("size is {size}; it must fit the memory of this machine")))?;
            let data = call.slice(source.data.cast::<u8>(), len, "data")?;
            // Wrapped in `User`, because the closure cannot borrow. Neither the slice nor the closure lives longer than
            // the call.
            let data = User::new(data.as_ptr().cast_mut().cast());
            let read = move |offset: u64, out: &mut [u8]| {
                let offset = usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof)?;
                // SAFETY: `InputFile` reads within `len` bytes, readable during the call by the contract of `guard`.
                unsafe {
                    let from = data.get().cast::<u8>().add(offset);
                    std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len());
                }
                Ok(())
            };
            (size, Arc::new(read))
        }
        RZ_SOURCE_FD => {
            if source.fd < 0 {
                return Err(Error::invalid(format!("fd is {}", source.fd)));
            }
            // SAFETY: the caller's descriptor, which stays open during the call.
            let open = unsafe { os::of_descriptor(source.fd) }
                .ok_or_else(|| Error::unsupported("RZ_SOURCE_FD on this system; RZ_SOURCE_READER is supported"))?;
            let open = Arc::new(open);
            let stat = open.metadata().map_err(|e| Error::io(&name, "cannot stat the descriptor of", &e))?;
            let end = if size == 0 { Some(stat.len()) } else { offset.checked_add(size) };
            let len = end.filter(|end| *end <= stat.len()).and_then(|end| end.checked_sub(offset));
            if !stat.is_file() {
                let what = "the descriptor is not that of a regular file".to_owned();
                return Err(Error::Io { path: name.display().to_string(), what, system_code: os::IS_NO_FILE });
            }
            let Some(len) = len else {
                let within = format!("it must end within the file, which has {} bytes", stat.len());
                let what = format!("the source ends {size} bytes after byte {offset}; {within}");
                return Err(Error::format(&name, what));
            };
            file = Some((open.clone(), offset));
            (len, Arc::new(move |at: u64, out: &mut [u8]| os::read_exact_at(&open, out, offset + at)))
        }
        RZ_SOURCE_READER => {
            let read = source.read.ok_or_else(|| Error::invalid("read is NULL"))?;
            let user = User::new(source.user);
            let read = move |offset: u64, out: &mut [u8]| {
                // SAFETY: the header asks for a function that may be called so, from any thread, during the load.
                match unsafe { read(offset, out.as_mut_ptr().cast(), out.len(), user.get()) } {
                    0 => Ok(()),
                    RZ_ERR_FORMAT => Err(io::ErrorKind::UnexpectedEof.into()),
                    code => Err(io::Error::from_raw_os_error(code)),
                }
            };
            (size, Arc::new(read))
        }
        _ => return Err(Error::invalid(format!("kind is {kind}, not one of RZ_SOURCE_MEMORY, _FD, _READER"))),
    };
    Ok(ByteSource { name, len, read, file })
}
