//! Calls with a separate cancel: what they return after it is fired, and that they change nothing then.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use super::host::*;
use super::media::Medium;
use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::chat::*;
use realizar::ffi::conversation::*;
use realizar::ffi::conversation_saved::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::prompt::*;
use realizar::ffi::reply::*;
use realizar::ffi::saved::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

const CHAT: &str = r#"{"messages": [{"role": "user", "content": "Hi"}]}"#;

/// What is saved, and a cancel that the caller's function fires after so many pieces.
struct File {
    bytes: Vec<u8>,
    at: usize,
    pieces: usize,
    cancel: *mut rz_cancel,
}

impl File {
    fn count(&mut self) {
        self.pieces = self.pieces.saturating_sub(1);
        if self.pieces == 0 {
            unsafe { rz_cancel_fire(self.cancel) };
        }
    }
}

unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    file.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), n) });
    file.count();
    0
}

unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    let Some(bytes) = file.bytes.get(file.at..file.at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    file.at += n;
    file.count();
    0
}

fn new_cancel() -> *mut rz_cancel {
    let mut cancel = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cancel_new(&mut cancel, e) });
    cancel
}

#[test]
fn texts_are_not_cut_once_their_cancel_is_fired() {
    let model = load_with(with_template("{{ messages[0].content }}").path().to_str().expect("UTF-8"), null());
    let cancel = new_cancel();
    let (json, json_len) = (CHAT.as_ptr().cast(), CHAT.len());
    // Without spaces: one piece for some tokenizers, whose merging alone takes long.
    let long = "a".repeat(8 << 20);
    let (mut n, mut parser, mut prompt) = (77, null_mut(), null_mut());
    let mut tokens = vec![0; 1 << 20];
    unsafe {
        let mut tokenize = |text: &str, capacity, n: &mut usize, e| {
            rz_tokenize_into(model, text.as_ptr().cast(), text.len(), 0, tokens.as_mut_ptr(), capacity, n, cancel, e)
        };
        expect(RZ_OK, |e| rz_cancel_deadline(cancel, 2000, e));
        expect(RZ_ERR_DEADLINE, |e| tokenize(&long, 1 << 20, &mut n, e));
        rz_cancel_reset(cancel);
        expect(RZ_OK, |e| tokenize("ab", 8, &mut 0, e));
        rz_cancel_fire(cancel);
        expect(RZ_ERR_CANCELLED, |e| tokenize("ab", 8, &mut n, e));
        let (out, to) = ([0u8; 64].as_mut_ptr().cast(), [0u32; 64].as_mut_ptr());
        expect(RZ_ERR_CANCELLED, |e| rz_chat_render_into(model, json, json_len, 0, out, 64, &mut n, cancel, e));
        expect(RZ_ERR_CANCELLED, |e| rz_chat_tokenize_into(model, json, json_len, 0, to, 64, &mut n, cancel, e));
        expect(RZ_ERR_CANCELLED, |e| rz_chat_parser_new(model, json, json_len, cancel, &mut parser, e));
        expect(RZ_ERR_CANCELLED, |e| rz_prompt_from_chat(model, json, json_len, 0, null(), 0, cancel, &mut prompt, e));
        assert!(n == 77 && parser.is_null() && prompt.is_null());
        rz_cancel_free(cancel);
        rz_model_free(model);
    }
}

#[test]
fn saves_and_loads_end_between_two_pieces() {
    let model = load_with(with_template("{{ messages[0].content }}").path().to_str().expect("UTF-8"), null());
    let host = Host { model, cache: new_cache(model, 64) };
    host.prefill(&[BOS, 403, 407, 261]);
    let medium = Medium::of(host.model, &[403, 407]);
    let params = sized::<rz_conversation_params>();
    let (mut talk, cancel) = (null_mut(), new_cancel());
    expect(RZ_OK, |e| unsafe { rz_conversation_new(host.model, &params, &mut talk, e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_add_text(talk, c"user".as_ptr(), c"Hi".as_ptr(), 2, e) });
    let mut file = File { bytes: Vec::new(), at: 0, pieces: usize::MAX, cancel };
    let user = (&raw mut file).cast::<c_void>();
    let set = |pieces, clear: bool| unsafe {
        let file = &mut *user.cast::<File>();
        rz_cancel_reset(cancel);
        (file.pieces, file.at) = (pieces, 0);
        if clear {
            file.bytes.clear();
        }
    };
    let with_cancel = rz_conversation_params { cancel, ..params };
    type Call<'a> = Box<dyn Fn(*mut rz_error) -> rz_status + 'a>;
    let pairs: [(Call, Call); 3] = unsafe {
        [
            (
                Box::new(|e| rz_cache_save(host.cache, Some(write), user, cancel, e)),
                Box::new(|e| {
                    let mut cache = null_mut();
                    let status = rz_cache_load(host.model, null(), Some(read), user, cancel, &mut cache, e);
                    rz_cache_free(cache);
                    status
                }),
            ),
            (
                Box::new(|e| rz_media_save(medium.0, Some(write), user, cancel, e)),
                Box::new(|e| {
                    let mut media = null_mut();
                    let status = rz_media_load(host.model, Some(read), user, cancel, &mut media, e);
                    rz_media_free(media);
                    status
                }),
            ),
            (
                Box::new(|e| rz_conversation_save(talk, Some(write), user, cancel, e)),
                Box::new(|e| {
                    let mut loaded = null_mut();
                    let status = rz_conversation_load(host.model, &with_cancel, Some(read), user, &mut loaded, e);
                    rz_conversation_free(loaded);
                    status
                }),
            ),
        ]
    };
    for (save, load) in pairs {
        set(1, true);
        expect(RZ_ERR_CANCELLED, &save);
        set(usize::MAX, true);
        expect(RZ_OK, &save);
        set(1, false);
        expect(RZ_ERR_CANCELLED, &load);
        set(usize::MAX, false);
        expect(RZ_OK, &load);
    }
    unsafe {
        rz_conversation_free(talk);
        rz_cancel_free(cancel);
    }
    assert_eq!(host.len(), 4, "a save that ended early left the cache as it was");
}
