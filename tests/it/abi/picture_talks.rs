//! Conversations, stores and embeddings with images through the C interface. The oracle uses the tokens whose
//! embeddings equal the rows of the image.

use super::conversation::*;
use super::host::*;
use super::media::{File, Medium, Prompt, ids, read, text, write};
use super::pictures::chat;
use std::ffi::c_void;
use std::ptr::{null, null_mut};

use realizar::ffi::conversation::*;
use realizar::ffi::conversation_media::*;
use realizar::ffi::conversation_saved::*;
use realizar::ffi::embed::*;
use realizar::ffi::generate::*;
use realizar::ffi::grammar::*;
use realizar::ffi::job::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::prompt::*;
use realizar::ffi::reply::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;
use realizar::ffi::store::*;
use serde_json::{Value as Json, json};

/// A template that writes placeholders for pictures of users, and loses what notes say.
const SEES: &str = "{% for m in messages %}<{{ m.role }}>{% if m.role == 'note' %}{% elif m.content is string %}{{ m.content }}{% else %}\
    {% for p in m.content %}{% if p.type == 'image' and m.role == 'user' %}<image>{% elif p.type == 'text' %}{{ p.text }}{% endif %}\
    {% endfor %}{% endif %}{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}";

fn talk(template: &str) -> Talk {
    let file = with_template(template);
    Talk::of(load_with(file.path().to_str().expect("UTF-8"), null()), "", 512, 0)
}

/// A message with pictures between texts.
fn shown(role: &str, texts: &[&str], media: &[usize]) -> Json {
    let mut parts = Vec::new();
    for i in 0..texts.len().max(media.len()) {
        parts.extend(texts.get(i).map(|text| json!({"type": "text", "text": text})));
        parts.extend(media.get(i).map(|media| json!({"type": "image", "media": media})));
    }
    json!({"role": role, "content": parts})
}

fn add(talk: &Talk, status: rz_status, messages: &Json, media: &[&Medium]) -> String {
    let (json, handles) = (messages.to_string(), media.iter().map(|m| m.0).collect::<Vec<_>>());
    expect(status, |e| unsafe {
        let at = json.as_ptr().cast();
        rz_conversation_add(talk.handle, at, json.len(), handles.as_ptr(), handles.len(), e)
    })
}

/// The tokens that a host gives the model: those of the messages, and those that pictures stand for in their order.
fn tokens_of(model: *const rz_model, messages: &Json, media: &[&Medium], stand_for: &[&[u32]]) -> Vec<u32> {
    let chat_json = json!({"messages": messages, "add_generation_prompt": true}).to_string();
    let handles: Vec<_> = media.iter().map(|medium| medium.0).collect();
    let (status, prompt, message) = chat(model, &chat_json, &handles);
    assert_eq!(status, RZ_OK, "{message}");
    let mut rows = stand_for.iter().flat_map(|tokens| tokens.iter().copied());
    let tokens = prompt.tokens().into_iter();
    let tokens = tokens.map(|id| if id == RZ_TOKEN_MEDIA { rows.next().expect("a row") } else { id }).collect();
    assert!(rows.next().is_none());
    tokens
}

/// Checks that a reply to the messages so far is the one to the tokens.
fn replies(talk: &Talk, media: &[&Medium], stand_for: &[&[u32]]) {
    let tokens = tokens_of(talk.model, &talk.messages(0), media, stand_for);
    let want = greedy(talk.model, &tokens, 12);
    let parts = talk.reply(reply_params(12));
    let plain = r#"{"messages": [{"role": "user", "content": ""}]}"#;
    let expected = parsed(talk.model, plain, &want, RZ_CHAT_EVENT_CONTENT);
    assert_eq!(text_of_kind(&parts, RZ_CHAT_EVENT_CONTENT), expected);
    assert_eq!(talk.info().prompt_tokens as usize, tokens.len());
}

fn hash_of(talk: &Talk, number: u32) -> [u8; 32] {
    let mut media = null_mut();
    expect(RZ_OK, |e| unsafe { rz_conversation_media(talk.handle, number, &mut media, e) });
    Medium(media).info().hash
}

#[test]
fn a_reply_to_pictures_is_what_a_host_makes_by_hand() {
    for template in [SEES, TEMPLATE] {
        let talk = talk(template);
        let ids = ids(60);
        let (a, b) = (Medium::of(talk.model, &ids[5..30]), Medium::of(talk.model, &ids[30..41]));
        add(&talk, RZ_OK, &json!([shown("user", &["Once", " and"], &[1, 0])]), &[&a, &b]);
        assert_eq!(talk.info().n_media, 2);
        replies(&talk, &[&a, &b], &[&ids[30..41], &ids[5..30]]);
        // The second turn names a picture again, which is there once, and its rows are not computed again.
        add(&talk, RZ_OK, &shown("user", &["Then"], &[0]), &[&b]);
        let info = talk.info();
        assert_eq!((info.n_messages, info.n_media, info.state), (3, 2, realizar::ffi::job::RZ_STATE_ENDED));
        assert_eq!(talk.messages(2)[0]["content"][1], json!({"type": "image", "media": 1}));
        replies(&talk, &[&a, &b], &[&ids[30..41], &ids[5..30], &ids[30..41]]);
        assert!(talk.info().reused_tokens > 40, "{}", talk.info().reused_tokens);
        assert_eq!([hash_of(&talk, 0), hash_of(&talk, 1)], [a.info().hash, b.info().hash]);
        fails(RZ_ERR_NOT_FOUND, "number is 2", |e| unsafe {
            rz_conversation_media(talk.handle, 2, &mut null_mut(), e)
        });

        // An edited message, and one without pictures.
        expect(RZ_OK, |e| unsafe { rz_conversation_rewind(talk.handle, 0, e) });
        assert_eq!(talk.info().n_media, 0);
        let other = Medium::of(talk.model, &ids[31..42]);
        add(&talk, RZ_OK, &shown("user", &["Once", " and"], &[0, 1]), &[&other, &a]);
        replies(&talk, &[&other, &a], &[&ids[31..42], &ids[5..30]]);
        talk.add("user", "Now");
        replies(&talk, &[&other, &a], &[&ids[31..42], &ids[5..30]]);
        drop((a, b, other));
        let second = talk.fork();
        assert_eq!(second.info().n_media, 2);
        for talk in [&talk, &second] {
            talk.add("user", "More");
            talk.reply(reply_params(9));
        }
        assert_eq!(talk.messages(0), second.messages(0));
    }
}

#[test]
fn conversations_are_saved_with_their_pictures() {
    let talk = talk(SEES);
    let ids = ids(60);
    let (a, b) = (Medium::of(talk.model, &ids[5..30]), Medium::of(talk.model, &ids[30..41]));
    add(&talk, RZ_OK, &shown("user", &["Once"], &[0]), &[&a]);
    talk.reply(reply_params(9));
    // One that was read, one that was not.
    add(&talk, RZ_OK, &shown("user", &["Then"], &[0]), &[&b]);
    let mut file = File { bytes: Vec::new(), at: 0 };
    let user = (&raw mut file).cast::<c_void>();
    expect(RZ_OK, |e| unsafe { rz_conversation_save(talk.handle, Some(write), user, null(), e) });
    let whole = file.bytes.clone();
    let load = |bytes: &[u8]| {
        let mut handle = null_mut();
        unsafe { *user.cast::<File>() = File { bytes: bytes.to_vec(), at: 0 } };
        let status = unsafe { rz_conversation_load(talk.model, null(), Some(read), user, &mut handle, null_mut()) };
        assert_eq!(handle.is_null(), status != RZ_OK);
        (status, Talk { model: null_mut(), handle })
    };
    let (status, loaded) = load(&whole);
    assert_eq!(status, RZ_OK);
    assert_eq!(loaded.info().n_media, 2);
    assert_eq!([hash_of(&loaded, 0), hash_of(&loaded, 1)], [a.info().hash, b.info().hash]);
    for talk in [&talk, &loaded] {
        talk.reply(reply_params(9));
        assert!(talk.info().reused_tokens > 25);
    }
    assert_eq!(talk.messages(0), loaded.messages(0));
    for at in (0..whole.len()).step_by(whole.len() / 211) {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        assert!(load(&damaged).0 < 0, "byte {at} of {}", whole.len());
    }
    for len in (0..whole.len()).step_by(whole.len() / 53) {
        assert!(load(&whole[..len]).0 < 0, "{len}");
    }
}

#[test]
fn pictures_that_do_not_belong_into_a_conversation_are_refused() {
    let (first, foreign) = (talk(SEES), talk(SEES));
    let (own, other) = (Medium::of(first.model, &[7, 8]), Medium::of(foreign.model, &[7, 8]));
    first.add("system", "S");
    let one = shown("user", &["Once"], &[0]);
    let says = |status, messages: &Json, media: &[&Medium], what: &str| {
        let message = add(&first, status, messages, media);
        assert!(message.contains(what), "{message}");
        assert_eq!((first.info().n_messages, first.info().n_media), (1, 0));
    };
    let bad = RZ_ERR_INVALID_ARGUMENT;
    says(RZ_ERR_MISMATCH, &one, &[&other], "entry 0: the media item belongs to another model");
    says(bad, &one, &[], "messages[0].content[1].media is 0, there are 0");
    says(bad, &one, &[&own, &own], "entry 1: no part of a message");
    says(bad, &shown("user", &[], &[1]), &[&own], "media is 1, there are 1");
    says(bad, &json!({"role": "user", "content": [{"type": "image"}]}), &[&own], "not the number of a media item");
    says(bad, &json!([]), &[&own], "entry 0: no part of a message");
    says(bad, &json!({"role": "user", "content": [{"type": "video"}]}), &[&own], "not the number of a media item");
    says(RZ_ERR_UNSUPPORTED, &json!({"role": "user", "content": [{"type": "file"}]}), &[], "\"file\"; only text");
    let json = one.to_string();
    refused("entry 0: media is NULL", |e| unsafe {
        rz_conversation_add(first.handle, json.as_ptr().cast(), json.len(), &null_mut(), 1, e)
    });
    refused("media is NULL", |e| unsafe {
        rz_conversation_add(first.handle, json.as_ptr().cast(), json.len(), null(), 1, e)
    });
    refused("media", |e| unsafe {
        rz_conversation_add(first.handle, json.as_ptr().cast(), json.len(), [null_mut()].as_ptr(), usize::MAX, e)
    });
    refused("messages[0].content[1].media is 0, there are 0", |e| unsafe {
        rz_conversation_add(first.handle, json.as_ptr().cast(), json.len(), null(), 0, e)
    });
    // A role in which the template has none: the conversation goes on without the message.
    add(&first, RZ_OK, &shown("note", &["Found"], &[0]), &[&own]);
    let params = reply_params(3);
    let message = expect(RZ_ERR_UNSUPPORTED, |e| unsafe { rz_conversation_reply(first.handle, &params, e) });
    assert!(message.contains("leaves out a picture"), "{message}");
    assert_eq!((first.info().n_messages, first.info().n_media), (2, 1));
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(first.handle, 1, e) });
    add(&first, RZ_OK, &one, &[&own]);
    first.reply(reply_params(3));
    // More than its cache has room for.
    let long = Medium::of(first.model, &ids(600));
    add(&first, RZ_OK, &one, &[&long]);
    expect(RZ_ERR_CONTEXT_FULL, |e| unsafe { rz_conversation_reply(first.handle, &params, e) });
    expect(RZ_OK, |e| unsafe { rz_conversation_rewind(first.handle, 3, e) });
    first.add("user", "Well");
    first.reply(reply_params(3));
    assert_eq!(first.info().n_messages, 5);
}

#[test]
fn stores_know_pictures_by_their_hashes() {
    let talk = talk(SEES);
    let ids = ids(60);
    let folder = tempfile::tempdir().expect("a folder");
    let path = std::ffi::CString::new(folder.path().join("s").to_str().expect("UTF-8")).expect("no NUL");
    let new_store = || {
        let mut store = null_mut();
        let params =
            rz_store_params { struct_size: size::<rz_store_params>(), min_tokens: 10, path: path.as_ptr(), ..zeroed() };
        expect(RZ_OK, |e| unsafe { rz_store_new(talk.model, &params, &mut store, e) });
        store
    };
    let with = |tokens: &[u32]| {
        let medium = Medium::of(talk.model, tokens);
        Prompt::new(talk.model, &[text(&ids[..4]), medium.part(), text(&ids[30..40])])
    };
    let (prompt, same, other) = (with(&ids[4..30]), with(&ids[4..30]), with(&ids[5..31]));
    let take = |store, prompt: &Prompt| {
        let (mut cache, mut common) = (null_mut(), 0);
        expect(RZ_OK, |e| unsafe { rz_store_take_prompt(store, prompt.0, null(), null(), &mut cache, &mut common, e) });
        (Host { model: null_mut(), cache }, common)
    };
    let mut store = new_store();
    let (host, common) = take(store, &prompt);
    assert_eq!((common, host.len()), (0, 0));
    host.fill(&prompt, 0);
    expect(RZ_OK, |e| unsafe { rz_store_put(store, host.cache, e) });
    let expected = host.bits();
    for round in 0..2 {
        let (again, common) = take(store, &same);
        // All but the last token.
        assert_eq!((common, again.len()), (39, 39), "{round}");
        again.fill(&same, 39);
        assert!(again.bits() == expected);
        assert_eq!(take(store, &other).1, 0, "{round}");
        // The second time from the folder.
        unsafe { rz_store_free(store) };
        store = new_store();
    }
    let foreign = Host::new(64);
    let alien = Prompt::new(foreign.model, &[text(&ids[..20])]);
    expect(RZ_ERR_MISMATCH, |e| unsafe {
        rz_store_take_prompt(store, alien.0, null(), null(), &mut null_mut(), &mut 0, e)
    });
    refused("prompt is NULL", |e| unsafe {
        rz_store_take_prompt(store, null(), null(), null(), &mut null_mut(), &mut 0, e)
    });
    unsafe { rz_store_free(store) };

    // Conversations with a store: the picture of one is the beginning of the other.
    store = new_store();
    let medium = Medium::of(talk.model, &ids[4..40]);
    let params = rz_conversation_params { struct_size: size::<rz_conversation_params>(), store, ..zeroed() };
    let mut answers = Vec::new();
    for reused in [false, true] {
        let mut handle = null_mut();
        expect(RZ_OK, |e| unsafe { rz_conversation_new(talk.model, &params, &mut handle, e) });
        let one = Talk { model: null_mut(), handle };
        add(&one, RZ_OK, &shown("user", &["Once"], &[0]), &[&medium]);
        one.reply(reply_params(6));
        assert_eq!(one.info().reused_tokens > 36, reused);
        answers.push(one.messages(0));
    }
    assert_eq!(answers[0], answers[1]);
    unsafe { rz_store_free(store) };
}

/// Answers about a picture follow a schema in a job, in a session and in a conversation; the first two are those to the
/// tokens that its rows stand for.
#[test]
fn answers_to_pictures_follow_a_schema() {
    const SCHEMA: &str = r#"{"type": "object", "properties": {"animal": {"enum": ["cat", "dog"]}, "n": {"type": "integer", "minimum": 0,
        "maximum": 9}}, "required": ["animal", "n"], "additionalProperties": false}"#;
    let is_one = |text: &str| {
        let answer: Json = serde_json::from_str(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert!(["cat", "dog"].iter().any(|animal| answer["animal"] == *animal), "{text}");
        assert!(answer["n"].as_u64().is_some_and(|n| n < 10), "{text}");
    };
    let talk = talk(SEES);
    let ids = ids(60);
    let medium = Medium::of(talk.model, &ids[5..40]);
    let prompt = Prompt::new(talk.model, &[text(&ids[..5]), medium.part(), text(&ids[40..])]);
    let (mut grammar, mut sampler) = (null_mut(), null_mut());
    let greedy = rz_sampler_params { struct_size: size::<rz_sampler_params>(), ..zeroed() };
    expect(RZ_OK, |e| unsafe {
        let (at, len) = (SCHEMA.as_ptr().cast(), SCHEMA.len());
        rz_grammar_new(talk.model, RZ_GRAMMAR_JSON_SCHEMA, 0, at, len, null(), &mut grammar, e)
    });
    let hosts = [(); 3].map(|()| Host { model: null_mut(), cache: new_cache(talk.model, 256) });
    let params = rz_job_params { struct_size: size::<rz_job_params>(), max_tokens: 100, grammar, ..zeroed() };
    let jobs = [
        rz_job_params { prompt: prompt.0, ..params },
        rz_job_params { tokens: ids.as_ptr(), n_tokens: ids.len(), ..params },
    ];
    let made = [0, 1].map(|i| {
        let (mut job, mut tokens, mut n) = (null_mut(), [0; 128], 0);
        expect(RZ_OK, |e| unsafe { rz_job_new(hosts[i].cache, &jobs[i], &mut job, e) });
        while unsafe { rz_job_step(job, 0, null_mut()) } == RZ_AGAIN {}
        expect(RZ_OK, |e| unsafe { rz_job_tokens_into(job, tokens.as_mut_ptr(), 128, &mut n, e) });
        unsafe { rz_job_free(job) };
        tokens[..n].to_vec()
    });
    assert_eq!(made[0], made[1]);
    // A session by hand: all but the last token, then token after token.
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&greedy, &mut sampler, e) });
    expect(RZ_OK, |e| unsafe { rz_sampler_grammar_set(sampler, grammar, e) });
    let ahead = Prompt::new(talk.model, &[text(&ids[..5]), medium.part(), text(&ids[40..59])]);
    hosts[2].fill(&ahead, 0);
    let (mut token, mut by_hand) = (ids[59], Vec::new());
    while by_hand.len() < made[0].len() {
        let before = token;
        expect(RZ_OK, |e| unsafe { rz_decode_token(hosts[2].cache, before, sampler, &mut token, e) });
        by_hand.push(token);
    }
    assert_eq!(by_hand, made[0]);
    let plain = r#"{"messages": [{"role": "user", "content": ""}]}"#;
    is_one(&parsed(talk.model, plain, &by_hand, RZ_CHAT_EVENT_CONTENT));
    add(&talk, RZ_OK, &shown("user", &["Which?"], &[0]), &[&medium]);
    let (at, grammar_len) = (SCHEMA.as_ptr().cast(), SCHEMA.len());
    let schema =
        rz_reply_params { grammar_kind: RZ_GRAMMAR_JSON_SCHEMA, grammar: at, grammar_len, ..reply_params(100) };
    is_one(&text_of_kind(&talk.reply(schema), RZ_CHAT_EVENT_CONTENT));
    unsafe {
        rz_sampler_free(sampler);
        rz_grammar_free(grammar);
    }
}

#[test]
fn prompts_with_pictures_are_embedded() {
    let host = Host::new(16);
    let ids = ids(500);
    let params = rz_embed_params { struct_size: size::<rz_embed_params>(), ..zeroed() };
    let embed = |status, pooling, flags, prompts: &[*mut rz_prompt], room: usize| {
        let (params, mut out, mut n) = (rz_embed_params { pooling, flags, ..params }, vec![0f32; room], 0);
        let message = expect(status, |e| unsafe {
            let (at, len) = (prompts.as_ptr(), prompts.len());
            rz_embed_prompts_into(host.model, &params, at, len, out.as_mut_ptr(), room, &mut n, null(), e)
        });
        (out, n, message)
    };
    // Short ones side by side, and one that fills a step.
    let texts = [&ids[..9], &ids[..40], &ids[..500]];
    let prompts = texts.map(|tokens| {
        let (from, to) = (3, tokens.len() - 2);
        let medium = Medium::of(host.model, &tokens[from..to]);
        Prompt::new(host.model, &[text(&tokens[..from]), medium.part(), text(&tokens[to..])])
    });
    let handles = prompts.each_ref().map(|prompt| prompt.0);
    for pooling in [RZ_POOLING_MEAN, RZ_POOLING_LAST] {
        let (vectors, n, _) = embed(RZ_OK, pooling, RZ_EMBED_RAW, &handles, 3 * 64);
        let (mut expected, mut written) = (vec![0f32; 3 * 64], 0);
        let params = rz_embed_params { pooling, flags: RZ_EMBED_RAW, ..params };
        expect(RZ_OK, |e| unsafe {
            let (tokens, lengths) = (texts.map(<[u32]>::as_ptr), texts.map(<[u32]>::len));
            let (tokens, lengths) = (tokens.as_ptr(), lengths.as_ptr());
            rz_embed_into(host.model, &params, tokens, lengths, 3, expected.as_mut_ptr(), 192, &mut written, null(), e)
        });
        assert_eq!([n, written], [192; 2]);
        assert!(vectors == expected);
    }
    let (_, n, _) = embed(RZ_ERR_BUFFER_TOO_SMALL, RZ_POOLING_NONE, 0, &handles, 0);
    assert_eq!(n, 549 * 64);
    let other = Host::new(16);
    let foreign = Prompt::new(other.model, &[text(&ids[..5])]);
    let (_, _, message) = embed(RZ_ERR_MISMATCH, RZ_POOLING_MEAN, 0, &[handles[0], foreign.0], 128);
    assert!(message.contains("entry 1"), "{message}");
    let (_, _, message) = embed(RZ_ERR_INVALID_ARGUMENT, RZ_POOLING_MEAN, 0, &[null_mut()], 64);
    assert!(message.contains("entry 0: prompt is NULL"), "{message}");
    let empty = Prompt::new(host.model, &[text(&[])]);
    assert!(embed(RZ_ERR_INVALID_ARGUMENT, RZ_POOLING_MEAN, 0, &[empty.0], 64).2.contains("text 0 has no tokens"));
    embed(RZ_ERR_VERSION, RZ_POOLING_MEAN, 2, &handles, 192);
    embed(RZ_OK, RZ_POOLING_MEAN, 0, &[], 0);
    // Ids of rows without rows are no tokens.
    let row = [RZ_TOKEN_MEDIA];
    let (start, length) = (row.as_ptr(), 1);
    refused("token", |e| unsafe {
        let params = rz_embed_params { pooling: RZ_POOLING_MEAN, ..params };
        rz_embed_into(host.model, &params, &start, &length, 1, [0f32; 64].as_mut_ptr(), 64, &mut 0, null(), e)
    });
}
