//! Models from memory, descriptors and read callbacks: the same logits as from a path, and a status for every
//! inconsistency.

use super::host::*;
use std::ffi::{CString, c_void};
use std::fs;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU32, Ordering};

use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::runtime::*;
use realizar::ffi::source::*;
use realizar::ffi::status::*;
use realizar::ffi::version::*;

fn source(kind: u32) -> rz_source {
    rz_source { kind, ..sized() }
}

fn memory(bytes: &[u8]) -> rz_source {
    rz_source { data: bytes.as_ptr().cast(), size: bytes.len() as u64, ..source(RZ_SOURCE_MEMORY) }
}

fn try_load(status: rz_status, sources: &[rz_source], params: *const rz_model_params) -> (*mut rz_model, String) {
    let mut model = null_mut();
    let message =
        expect(status, |e| unsafe { rz_model_load_from(sources.as_ptr(), sources.len(), params, &mut model, e) });
    assert_eq!(model.is_null(), status < 0);
    (model, message)
}

fn logits(model: *mut rz_model) -> Vec<f32> {
    let host = Host { model, cache: new_cache(model, 16) };
    host.prefill(&[BOS, 403, 407]);
    host.logits()
}

/// A reader of bytes that gives out after some calls.
struct Reader {
    bytes: Vec<u8>,
    calls: AtomicU32,
    most: u32,
}

unsafe extern "C" fn read(offset: u64, out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let reader = unsafe { &*user.cast::<Reader>() };
    // It may call the library.
    assert_eq!(rz_abi_version(), RZ_ABI_VERSION);
    assert_eq!(unsafe { rz_model_load(c"/nowhere".as_ptr(), null(), &mut null_mut(), null_mut()) }, RZ_ERR_IO);
    if reader.calls.fetch_add(1, Ordering::Relaxed) >= reader.most {
        return 5;
    }
    let Some(bytes) = reader.bytes.get(offset as usize..offset as usize + n) else { return 22 };
    // Short reads are the reader's own affair: pieces of 1 to 4,096 bytes.
    let (mut at, mut piece) = (0, 1);
    while at < n {
        let now = piece.min(n - at);
        unsafe { std::ptr::copy_nonoverlapping(bytes[at..].as_ptr(), out.cast::<u8>().add(at), now) };
        (at, piece) = (at + now, piece * 7 % 4096 + 1);
    }
    0
}

fn reader_source(reader: &Reader) -> rz_source {
    let user = (&raw const *reader).cast_mut().cast();
    rz_source { size: reader.bytes.len() as u64, read: Some(read), user, ..source(RZ_SOURCE_READER) }
}

#[test]
fn a_model_is_the_same_from_anywhere() {
    let bytes = fs::read(MODEL).expect("the model");
    let expected = logits(load());
    assert_eq!(logits(try_load(RZ_OK, &[memory(&bytes)], null()).0), expected);

    let reader = Reader { bytes: bytes.clone(), calls: AtomicU32::new(0), most: u32::MAX };
    assert_eq!(logits(try_load(RZ_OK, &[reader_source(&reader)], null()).0), expected);
    let calls = reader.calls.load(Ordering::Relaxed);
    // An errno at any of the calls.
    for most in 0..calls {
        let reader = Reader { bytes: bytes.clone(), calls: AtomicU32::new(0), most };
        let mut err = no_error();
        let mut model = null_mut();
        unsafe {
            assert_eq!(rz_model_load_from(&reader_source(&reader), 1, null(), &mut model, &mut err), RZ_ERR_IO);
        }
        assert_eq!(err.system_code, 5);
    }
}

/// Says that the file ends where its bytes do.
/// A reader of bytes that loads another model every few calls, on the same runtime.
struct LoadingReader {
    reader: Reader,
    params: rz_model_params,
}

unsafe extern "C" fn read_and_load(offset: u64, out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let loading = unsafe { &*user.cast::<LoadingReader>() };
    let Reader { bytes, calls, .. } = &loading.reader;
    let out = unsafe { std::slice::from_raw_parts_mut(out.cast::<u8>(), n) };
    out.copy_from_slice(&bytes[offset as usize..][..n]);
    if calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(4) {
        unsafe { rz_model_free(load_with(MODEL, &loading.params)) };
    }
    0
}

/// The pieces of a load keep their bytes to themselves while a read callback loads another model.
#[test]
fn a_reader_may_load_another_model() {
    let mut runtime = null_mut();
    let params = rz_runtime_params { threads: 4, ..sized() };
    expect(RZ_OK, |e| unsafe { rz_runtime_new(&params, &mut runtime, e) });
    let params = rz_model_params { runtime, ..sized() };
    let reader = Reader { bytes: fs::read(MODEL).expect("the model"), calls: AtomicU32::new(0), most: u32::MAX };
    let loading = LoadingReader { reader, params };
    let user = (&raw const loading).cast_mut().cast();
    let size = loading.reader.bytes.len() as u64;
    let source = rz_source { size, read: Some(read_and_load), user, ..source(RZ_SOURCE_READER) };
    let expected = logits(load());
    assert_eq!(logits(try_load(RZ_OK, &[source], &loading.params).0), expected);
    assert!(loading.reader.calls.load(Ordering::Relaxed) > 4);
    unsafe { rz_runtime_free(runtime) };
}

unsafe extern "C" fn read_to_the_end(offset: u64, out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let bytes = unsafe { &*user.cast::<&[u8]>() };
    let Some(bytes) = bytes.get(offset as usize..offset as usize + n) else { return RZ_ERR_FORMAT };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    0
}

/// A file that is shorter than its source says is damaged, as one on disk that was cut.
#[test]
fn a_file_that_ends_early_is_damaged() {
    let bytes = fs::read(MODEL).expect("the model");
    let cut = tempfile::NamedTempFile::new().expect("a file");
    for n in [0, 10, 1000, bytes.len() / 2, bytes.len() - 1, bytes.len()] {
        let mut held = &bytes[..n];
        let user = (&raw mut held).cast();
        let size = bytes.len() as u64;
        let source = rz_source { size, read: Some(read_to_the_end), user, ..source(RZ_SOURCE_READER) };
        let (mut model, mut err) = (null_mut(), no_error());
        let status = unsafe { rz_model_load_from(&source, 1, null(), &mut model, &mut err) };
        if n == bytes.len() {
            assert_eq!(status, RZ_OK);
            unsafe { rz_model_free(model) };
            continue;
        }
        assert_eq!((status, err.system_code), (RZ_ERR_FORMAT, 0), "{n} bytes");
        assert!(text_of(&err.message).contains("the file ends before byte"), "{}", text_of(&err.message));
        fs::write(cut.path(), held).expect("a file");
        let path = CString::new(cut.path().to_str().expect("UTF-8")).expect("no NUL");
        expect(RZ_ERR_FORMAT, |e| unsafe { rz_model_load(path.as_ptr(), null(), &mut model, e) });
    }
}

fn refused(what: &str, status: rz_status, sources: &[rz_source]) {
    let message = try_load(status, sources, null()).1;
    assert!(message.contains(what), "{message:?} does not name {what:?}");
}

/// Descriptors of a C runtime mean nothing to the library on Windows.
#[cfg(windows)]
#[test]
fn descriptors_are_refused() {
    refused("RZ_SOURCE_FD", RZ_ERR_UNSUPPORTED, &[rz_source { fd: 3, ..source(RZ_SOURCE_FD) }]);
}

#[cfg(unix)]
#[test]
fn a_model_is_the_same_from_a_descriptor() {
    use std::os::fd::AsRawFd;

    let bytes = fs::read(MODEL).expect("the model");
    let expected = logits(load());
    // Within a pack file, in front of and after which there are others.
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), [&[7; 1234], &bytes[..], &[9; 99]].concat()).expect("a file");
    let open = fs::File::open(file.path()).expect("the file");
    let fd = rz_source { fd: open.as_raw_fd(), offset: 1234, size: bytes.len() as u64, ..source(RZ_SOURCE_FD) };
    assert_eq!(logits(try_load(RZ_OK, &[fd], null()).0), expected);
    let alone = fs::File::open(MODEL).expect("the file");
    let whole = rz_source { fd: alone.as_raw_fd(), ..source(RZ_SOURCE_FD) };
    assert_eq!(logits(try_load(RZ_OK, &[whole], null()).0), expected);
    // The descriptor is the caller's still.
    open.metadata().expect("an open file");

    refused("fd is -1", RZ_ERR_INVALID_ARGUMENT, &[rz_source { fd: -1, ..source(RZ_SOURCE_FD) }]);
    refused("descriptor", RZ_ERR_IO, &[rz_source { fd: i32::MAX, ..source(RZ_SOURCE_FD) }]);
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    refused("regular file", RZ_ERR_IO, &[rz_source { fd: pipe.as_raw_fd(), ..source(RZ_SOURCE_FD) }]);
    let file = fs::File::open(MODEL).expect("the file");
    let fd = |offset, size| rz_source { fd: file.as_raw_fd(), offset, size, ..source(RZ_SOURCE_FD) };
    for range in [fd(1, bytes.len() as u64), fd(u64::MAX, 2), fd(bytes.len() as u64 + 1, 0)] {
        refused("it must end within the file, which has", RZ_ERR_FORMAT, &[range]);
    }
    // A size that is not that of the file.
    refused("", RZ_ERR_FORMAT, &[fd(0, bytes.len() as u64 / 2)]);
}

/// A model within a package file is mapped where it is, at offsets that are multiples of a page and others, and stays
/// usable when the descriptor is closed.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_mapped_at_any_offset() {
    use std::os::fd::AsRawFd;

    let bytes = fs::read(MODEL).expect("the model");
    let params = rz_model_params { flags: RZ_MODEL_MMAP, ..sized() };
    let expected = logits(load_with(MODEL, &params));
    for offset in [0, 1, 1234, 4096, 16_384, 65_536 + 32] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), [&vec![7; offset], &bytes[..], &[9; 99]].concat()).expect("a file");
        let open = fs::File::open(file.path()).expect("the file");
        let (offset, size) = (offset as u64, bytes.len() as u64);
        let fd = rz_source { fd: open.as_raw_fd(), offset, size, ..source(RZ_SOURCE_FD) };
        let (model, _) = try_load(RZ_OK, &[fd], &params);
        drop(open);
        // The system's own list of what the process maps.
        let maps = fs::read_to_string("/proc/self/maps").expect("the maps");
        assert!(maps.contains(file.path().to_str().expect("UTF-8")), "{offset}: {maps}");
        assert_eq!(logits(model), expected, "{offset}");
        let maps = fs::read_to_string("/proc/self/maps").expect("the maps");
        assert!(!maps.contains(file.path().to_str().expect("UTF-8")), "{offset}");
    }
    let file = fs::File::open(MODEL).expect("the file");
    let fd = |offset, size| rz_source { fd: file.as_raw_fd(), offset, size, ..source(RZ_SOURCE_FD) };
    for (status, what, source) in [
        (RZ_ERR_FORMAT, "it must end within the file, which has", fd(1, bytes.len() as u64)),
        (RZ_ERR_FORMAT, "", fd(0, bytes.len() as u64 / 2)),
        (RZ_ERR_FORMAT, "", fd(1, 0)),
        (RZ_ERR_UNSUPPORTED, "needs files or sources of the kind RZ_SOURCE_FD", memory(&bytes)),
    ] {
        let (_, message) = try_load(status, &[source], &params);
        assert!(message.contains(what), "{message}");
    }
}

#[test]
fn lies_about_sources_are_statuses() {
    let bytes = fs::read(MODEL).expect("the model");
    let good = memory(&bytes);
    refused("0 sources", RZ_ERR_INVALID_ARGUMENT, &[]);
    refused("kind is 9", RZ_ERR_INVALID_ARGUMENT, &[rz_source { kind: 9, ..good }]);
    refused("data", RZ_ERR_INVALID_ARGUMENT, &[rz_source { data: null(), ..good }]);
    refused("read is NULL", RZ_ERR_INVALID_ARGUMENT, &[rz_source { size: 9, ..source(RZ_SOURCE_READER) }]);
    refused("reserved", RZ_ERR_VERSION, &[rz_source { reserved: 1, ..good }]);
    refused("struct_size", RZ_ERR_INVALID_ARGUMENT, &[rz_source { struct_size: 0, ..good }]);
    refused("sources[1]", RZ_ERR_INVALID_ARGUMENT, &[rz_source { name: c"a".as_ptr(), ..good }, good]);
    let named = |name: &'static std::ffi::CStr| rz_source { name: name.as_ptr(), ..good };
    refused("twice", RZ_ERR_INVALID_ARGUMENT, &[named(c"a"), named(c"a")]);
    for name in [c"", c"/a", c"../a", c"a/../b"] {
        refused("name", RZ_ERR_INVALID_ARGUMENT, &[named(name)]);
    }
    // Sizes that are not those of the data.
    refused("", RZ_ERR_FORMAT, &[rz_source { size: bytes.len() as u64 / 2, ..good }]);
    refused("", RZ_ERR_FORMAT, &[rz_source { size: 0, ..good }]);
    refused("", RZ_ERR_FORMAT, &[rz_source { size: 1000, ..good }]);
    let reader = Reader { bytes: bytes[..bytes.len() - 1].to_vec(), calls: AtomicU32::new(0), most: u32::MAX };
    let longer = rz_source { size: bytes.len() as u64, ..reader_source(&reader) };
    refused("cannot read", RZ_ERR_IO, &[longer]);
    let mut params: rz_model_params = zeroed();
    (params.struct_size, params.flags) = (size_of::<rz_model_params>() as u32, RZ_MODEL_MMAP);
    try_load(RZ_ERR_UNSUPPORTED, &[good], &params);
}

/// A folder whose files come from memory, each under its name.
#[test]
fn a_folder_comes_from_memory() {
    let data = |n: usize| vec![0u8; 4 * n];
    let (hidden, vocab, ffn) = (32, 16, 64);
    let mut tensors: Vec<(String, Vec<usize>)> =
        vec![("model.embed_tokens.weight".into(), vec![vocab, hidden]), ("model.norm.weight".into(), vec![hidden])];
    for (name, shape) in [
        ("input_layernorm", vec![hidden]),
        ("post_attention_layernorm", vec![hidden]),
        ("self_attn.q_proj", vec![hidden, hidden]),
        ("self_attn.k_proj", vec![hidden, hidden]),
        ("self_attn.v_proj", vec![hidden, hidden]),
        ("self_attn.o_proj", vec![hidden, hidden]),
        ("mlp.gate_proj", vec![ffn, hidden]),
        ("mlp.up_proj", vec![ffn, hidden]),
        ("mlp.down_proj", vec![hidden, ffn]),
    ] {
        tensors.push((format!("model.layers.0.{name}.weight"), shape));
    }
    // Two shards, and the index that names them.
    let names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
    let shard = |tensors: &[(String, Vec<usize>)]| {
        let (mut header, mut at) = (Vec::new(), 0);
        for (name, shape) in tensors {
            let end = at + 4 * shape.iter().product::<usize>();
            header.push(format!(r#""{name}":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{at},{end}]}}"#));
            at = end;
        }
        let header = format!("{{{}}}", header.join(","));
        [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &data(at / 4)].concat()
    };
    let shards = [shard(&tensors[..4]), shard(&tensors[4..])];
    let place =
        |(i, (name, _)): (usize, &(String, Vec<usize>))| format!(r#""{name}":"{}""#, names[usize::from(i >= 4)]);
    let map: Vec<String> = tensors.iter().enumerate().map(place).collect();
    let index = format!(r#"{{"weight_map":{{{}}}}}"#, map.join(","));
    let config = r#"{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":32,"intermediate_size":64,
        "num_attention_heads":2,"num_key_value_heads":2,"num_hidden_layers":1,"vocab_size":16,"rms_norm_eps":1e-5,
        "max_position_embeddings":64,"tie_word_embeddings":true,"hidden_act":"silu","rope_theta":10000.0}"#;
    let files = [
        ("config.json", config.as_bytes()),
        ("model.safetensors.index.json", index.as_bytes()),
        (names[0], &shards[0]),
        (names[1], &shards[1]),
    ];
    let names: Vec<CString> = files.iter().map(|(name, _)| CString::new(*name).expect("no NUL")).collect();
    let sources: Vec<rz_source> =
        files.iter().zip(&names).map(|((_, bytes), name)| rz_source { name: name.as_ptr(), ..memory(bytes) }).collect();
    let (model, _) = try_load(RZ_OK, &sources, null());
    let mut info = sized::<rz_model_info>();
    expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
    assert_eq!((info.n_layers, info.hidden_dim, info.vocab_size), (1, 32, 16));
    unsafe { rz_model_free(model) };
    let message = try_load(RZ_ERR_IO, &sources[..3], null()).1;
    assert!(message.contains("model-00002-of-00002.safetensors"), "{message}");
}
