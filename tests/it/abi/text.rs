//! Text through the C interface: sizes in two calls, streams, chat templates, metadata, tokens.

use super::host::*;
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::chat::*;
use realizar::ffi::generate::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::status::*;
use realizar::ffi::text::*;

#[test]
fn text_is_utf8() {
    let model = load_text();
    let (mut n, mut token) = (0, 0);
    unsafe {
        refused("text is not UTF-8 at byte 2", |e| {
            rz_tokenize_into(model, c"ab\xff".as_ptr(), 3, 0, &mut token, 1, &mut n, null(), e)
        });
        refused("key is not UTF-8 at byte 0", |e| {
            rz_model_meta_into(model, c"\xff".as_ptr(), null_mut(), 0, &mut n, e)
        });
        refused("json is not UTF-8 at byte 0", |e| {
            rz_chat_render_into(model, c"\xc3".as_ptr(), 1, 0, null_mut(), 0, &mut n, null(), e)
        });
        fails(RZ_ERR_NOT_FOUND, "no metadata key", |e| {
            rz_model_meta_into(model, c"no.such".as_ptr(), null_mut(), 0, &mut n, e)
        });
        rz_model_free(model);
    }
}

/// Asks for the size with nothing, fails with one too few, and gets all with enough.
#[test]
fn sizes_are_asked_for_in_two_calls() {
    let model = load_text();
    let key = c"general.architecture".as_ptr();
    let mut len = 0;
    let mut text = [0x55 as c_char; 8];
    unsafe {
        expect(RZ_OK, |e| rz_model_meta_into(model, key, null_mut(), 0, &mut len, e));
        assert_eq!(len, 5);
        len = 0;
        let message =
            expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_model_meta_into(model, key, text.as_mut_ptr(), 4, &mut len, e));
        assert!(message.contains('4') && message.contains('5'), "{message}");
        assert_eq!((len, text), (5, [0x55; 8]));
        // A capacity that is larger than any memory is a caller who knows the size.
        expect(RZ_OK, |e| rz_model_meta_into(model, key, text.as_mut_ptr(), usize::MAX, &mut len, e));
        assert_eq!((len, text_of(&text[..5]).as_str(), text[5]), (5, "llama", 0x55));

        let hello = c"Once upon a time";
        let mut tokens = [u32::MAX; 32];
        let mut n = 0;
        let tokenize = |capacity, out: &mut [u32; 32], n: &mut usize, status| {
            expect(status, |e| {
                rz_tokenize_into(model, hello.as_ptr(), 16, 1, out.as_mut_ptr(), capacity, n, null(), e)
            });
        };
        tokenize(1, &mut tokens, &mut n, RZ_ERR_BUFFER_TOO_SMALL);
        assert!(n > 1 && tokens == [u32::MAX; 32]);
        let needed = n;
        tokenize(n, &mut tokens, &mut n, RZ_OK);
        assert_eq!((n, tokens[0]), (needed, BOS));
        expect(RZ_OK, |e| rz_tokenize_into(model, null(), 0, 0, null_mut(), 0, &mut n, null(), e));
        assert_eq!(n, 0, "no text, no tokens");

        let mut back = [0 as c_char; 64];
        expect(RZ_OK, |e| rz_detokenize_into(model, tokens.as_ptr(), needed, 0, back.as_mut_ptr(), 64, &mut len, e));
        assert_eq!(text_of(&back), "Once upon a time");
        refused("token", |e| rz_detokenize_into(model, &512, 1, 0, back.as_mut_ptr(), 64, &mut len, e));
        rz_model_free(model);
    }
}

/// Token by token the text is the same, however small the buffer was at first.
#[test]
fn a_text_stream_waits_for_room() {
    let model = load_text();
    let text = "Zoë said: naïve 🦀!";
    let mut tokens = [0; 64];
    let mut n = 0;
    let mut stream = null_mut();
    let mut collected = Vec::new();
    unsafe {
        expect(RZ_OK, |e| {
            rz_tokenize_into(model, text.as_ptr().cast(), text.len(), 0, tokens.as_mut_ptr(), 64, &mut n, null(), e)
        });
        expect(RZ_OK, |e| rz_textstream_new(model, &mut stream, e));
        rz_model_free(model);
        for &token in &tokens[..n] {
            let mut len = usize::MAX;
            let mut out = [0u8; 64];
            expect(RZ_OK, |e| rz_textstream_push_into(stream, token, null_mut(), 0, &mut len, e));
            let needed = len;
            expect(RZ_OK, |e| rz_textstream_push_into(stream, token, out.as_mut_ptr().cast(), 64, &mut len, e));
            assert_eq!(len, needed);
            assert!(std::str::from_utf8(&out[..len]).is_ok(), "whole characters only");
            collected.extend_from_slice(&out[..len]);
        }
        assert_eq!(std::str::from_utf8(&collected), Ok(text));

        // Half a character is held back until the end.
        let crab = (3..259).map(|id| (id, id - 3)).find(|&(_, byte)| byte == 0xf0).expect("a byte token").0;
        let (mut len, mut out) = (0, [0u8; 8]);
        expect(RZ_OK, |e| rz_textstream_push_into(stream, crab, out.as_mut_ptr().cast(), 8, &mut len, e));
        assert_eq!(len, 0);
        expect(RZ_ERR_BUFFER_TOO_SMALL, |e| rz_textstream_flush_into(stream, out.as_mut_ptr().cast(), 1, &mut len, e));
        expect(RZ_OK, |e| rz_textstream_flush_into(stream, out.as_mut_ptr().cast(), 8, &mut len, e));
        assert_eq!(&out[..len], "\u{fffd}".as_bytes());
        refused("token", |e| rz_textstream_push_into(stream, 512, out.as_mut_ptr().cast(), 8, &mut len, e));
        rz_textstream_free(stream);
    }
}

/// After a prompt the space at the start of a word stays, which is left out where a text begins.
#[test]
fn a_text_stream_follows_a_prompt() {
    let model = load_text();
    let tokens = |text: &str| {
        let (mut tokens, mut n) = ([0; 32], 0);
        expect(RZ_OK, |e| unsafe {
            rz_tokenize_into(model, text.as_ptr().cast(), text.len(), 1, tokens.as_mut_ptr(), 32, &mut n, null(), e)
        });
        tokens[..n].to_vec()
    };
    let (prompt, all) = (tokens("Once upon a"), tokens("Once upon a time"));
    assert!(all.starts_with(&prompt));
    let (mut stream, mut len, mut out) = (null_mut(), 0, [0 as c_char; 64]);
    let mut push = |stream, token| unsafe {
        expect(RZ_OK, |e| rz_textstream_push_into(stream, token, out.as_mut_ptr(), 64, &mut len, e));
        text_of(&out[..len])
    };
    unsafe {
        expect(RZ_OK, |e| rz_textstream_new(model, &mut stream, e));
        refused("token 512", |e| rz_textstream_follow(stream, [BOS, prompt[1], 512].as_ptr(), 3, e));
        let first = all[prompt.len()];
        assert!(!push(stream, first).starts_with(' '), "the refused call changed nothing");
        expect(RZ_OK, |e| rz_textstream_flush_into(stream, null_mut(), 0, &mut 0, e));
        expect(RZ_OK, |e| rz_textstream_follow(stream, null(), 0, e));
        expect(RZ_OK, |e| rz_textstream_follow(stream, prompt.as_ptr(), prompt.len(), e));
        let text: String = all[prompt.len()..].iter().map(|&token| push(stream, token)).collect();
        assert_eq!(text, " time");
        rz_textstream_free(stream);
        rz_model_free(model);
    }
}

#[test]
fn a_model_without_weights_has_text_only() {
    let model = load_text();
    let (mut n, mut tokens) = (0, [0; 8]);
    let mut cache = null_mut();
    unsafe {
        expect(RZ_OK, |e| rz_tokenize_into(model, c"a".as_ptr(), 1, 0, tokens.as_mut_ptr(), 8, &mut n, null(), e));
        refused("without its weights", |e| rz_cache_new(model, null(), &mut cache, e));
        assert_eq!((rz_token_is_end(model, 2), rz_token_is_end(model, 5), rz_token_is_end(model, u32::MAX)), (1, 0, 0));
        expect(RZ_ERR_UNSUPPORTED, |e| {
            rz_chat_render_into(model, CHAT.as_ptr(), CHAT.count_bytes(), 0, null_mut(), 0, &mut n, null(), e)
        });
        rz_model_free(model);
    }
    assert!(cache.is_null());
}

const CHAT: &CStr =
    c"{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief.\"}, {\"role\": \"user\", \"content\": \"Gr\xc3\xbc\xc3\x9fe!\"}]}";

/// Renders with a template; the status and the text or the message.
fn chat(template: &str) -> (rz_status, String) {
    let file = with_template(template);
    let model = load_with(file.path().to_str().expect("UTF-8"), null());
    let (mut text, mut len, mut err) = ([0u8; 256], 0, no_error());
    unsafe {
        let status = rz_chat_render_into(
            model,
            CHAT.as_ptr(),
            CHAT.count_bytes(),
            1,
            text.as_mut_ptr().cast(),
            256,
            &mut len,
            null(),
            &mut err,
        );
        // Whatever the template is, the model goes on.
        let cache = new_cache(model, 4);
        expect(RZ_OK, |e| rz_decode_token(cache, BOS, null_mut(), &mut 0, e));
        rz_cache_free(cache);
        rz_model_free(model);
        let said =
            if status == RZ_OK { String::from_utf8_lossy(&text[..len]).into_owned() } else { text_of(&err.message) };
        (status, said)
    }
}

#[test]
fn a_chat_is_written_by_the_models_template() {
    let turns = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}";
    let prompt = "{% if add_generation_prompt %}<assistant>{% endif %}";
    let (status, text) = chat(&format!("{turns}{prompt}"));
    assert_eq!((status, text.as_str()), (RZ_OK, "<system>Be brief.<user>Grüße!<assistant>"));
    let (status, message) = chat("{{ raise_exception('no system turns here') }}");
    assert!(status == RZ_ERR_INVALID_ARGUMENT && message.contains("no system turns here"), "{status} {message}");
    let (status, message) = chat("{% for m in messages %}");
    assert_eq!(status, RZ_ERR_UNSUPPORTED, "{message}");
    for endless in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
        "{{ 'x' * 1000000000000 }}",
    ] {
        let (status, message) = chat(endless);
        assert!([RZ_ERR_INVALID_ARGUMENT, RZ_ERR_LIMIT].contains(&status), "{status} {message}");
    }
}

/// Tells a host which of template and tokenizer writes the token that begins a text.
#[test]
fn a_model_tells_whether_its_template_begins_the_text() {
    let told = |path: &str| {
        let model = load_with(path, null());
        let mut info: rz_model_info = sized();
        expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
        unsafe { rz_model_free(model) };
        info.chat_template
    };
    let with = |template: &str| told(with_template(template).path().to_str().expect("UTF-8"));
    assert_eq!(told(MODEL), 0);
    assert_eq!(with("{% for m in messages %}"), 0, "one that does not compile");
    assert_eq!(with("{{ messages[0].content }}"), RZ_TEMPLATE_PRESENT);
    assert_eq!(with("{{ raise_exception('system first') }}"), RZ_TEMPLATE_PRESENT);
    assert_eq!(with("{{ bos_token }}{{ messages[0].content }}"), RZ_TEMPLATE_PRESENT | RZ_TEMPLATE_WRITES_BOS);
    assert_eq!(with("<s>{{ messages[0].content }}"), RZ_TEMPLATE_PRESENT | RZ_TEMPLATE_WRITES_BOS);
}

/// The text that a call writes, sized by a first call; the status where that is another failure.
fn written(call: impl Fn(*mut c_char, usize, *mut usize) -> rz_status) -> Result<Vec<u8>, rz_status> {
    let mut len = usize::MAX;
    match call(null_mut(), 0, &mut len) {
        RZ_OK => {}
        status => return Err(status),
    }
    let mut bytes = vec![0u8; len];
    assert_eq!(call(bytes.as_mut_ptr().cast(), len, &mut len), RZ_OK);
    Ok(bytes)
}

#[test]
fn metadata_can_be_listed() {
    let model = load_text();
    let err = null_mut();
    let key = |i| written(|out, capacity, len| unsafe { rz_model_meta_key_into(model, i, out, capacity, len, err) });
    let keys: Vec<String> =
        (0..).map_while(|i| key(i).ok()).map(|key| String::from_utf8(key).expect("UTF-8")).collect();
    assert!(keys.is_sorted() && keys.iter().any(|key| key == "llama.block_count"), "{keys:?}");
    assert_eq!(key(keys.len()), Err(RZ_ERR_NOT_FOUND));
    for key in &keys {
        let key = CString::new(key.as_str()).expect("no NUL");
        let value =
            written(|out, capacity, len| unsafe { rz_model_meta_into(model, key.as_ptr(), out, capacity, len, err) });
        assert!(value.is_ok(), "{key:?}");
    }
    let element = |key: &'static CStr, i| {
        written(|out, capacity, len| unsafe {
            rz_model_meta_element_into(model, key.as_ptr(), i, out, capacity, len, err)
        })
    };
    assert_eq!(element(c"general.architecture", 0), Err(RZ_ERR_INVALID_ARGUMENT), "no array");
    assert_eq!(element(c"none", 0), Err(RZ_ERR_NOT_FOUND));
    assert_eq!(element(c"tokenizer.ggml.tokens", 0), Err(RZ_ERR_UNSUPPORTED), "the tokenizer keeps them");
    unsafe { rz_model_free(model) };
}

/// Grammars outside the library need the bytes of every token, also of those that are a part of a character.
#[test]
fn the_bytes_of_every_token_can_be_read() {
    let model = load_text();
    let token = |id| {
        let attributes = std::cell::Cell::new(0);
        let bytes = written(|out, capacity, len| unsafe {
            rz_token_bytes_into(model, id, out.cast(), capacity, len, attributes.as_ptr(), null_mut())
        });
        (bytes, attributes.get())
    };
    // The vocabulary of this model: <unk>, <s>, </s>, the 256 bytes, then pieces.
    assert_eq!(token(1), (Ok(b"<s>".to_vec()), RZ_ATTR_CONTROL));
    assert_eq!(token(2), (Ok(b"</s>".to_vec()), RZ_ATTR_CONTROL | RZ_ATTR_END));
    for byte in 0..=255u8 {
        assert_eq!(token(3 + u32::from(byte)), (Ok(vec![byte]), RZ_ATTR_BYTE));
    }
    assert_eq!(token(259).1, RZ_ATTR_NORMAL);
    assert_eq!(token(512).0, Err(RZ_ERR_INVALID_ARGUMENT));

    let text = "Zoë said: naïve 🦀!";
    let (mut tokens, mut n) = ([0; 64], 0);
    expect(RZ_OK, |e| unsafe {
        rz_tokenize_into(model, text.as_ptr().cast(), text.len(), 0, tokens.as_mut_ptr(), 64, &mut n, null(), e)
    });
    let bytes: Vec<u8> = tokens[..n].iter().flat_map(|&id| token(id).0.expect("a token")).collect();
    assert_eq!(String::from_utf8(bytes).expect("UTF-8"), format!(" {text}"));
    // The attributes may be passed over.
    let mut len = 0;
    expect(RZ_OK, |e| unsafe { rz_token_bytes_into(model, 1, null_mut(), 0, &mut len, null_mut(), e) });
    unsafe { rz_model_free(model) };
}
