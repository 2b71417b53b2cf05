//! Readers of const handles: any number of threads, concurrently with each other and with a call that works on the
//! handle.
//!
//! The oracle is the header: such calls succeed, the values that they return only grow, and the working call is not
//! disturbed.

use super::conversation::{Talk, reply_params, size};
use super::encoding::step;
use super::host::*;
use super::pictures::{Seer, params, pixels};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use realizar::ffi::cache::*;
use realizar::ffi::cancel::*;
use realizar::ffi::conversation::*;
use realizar::ffi::encoder::*;
use realizar::ffi::job::*;
use realizar::ffi::media::*;
use realizar::ffi::sampler::*;
use realizar::ffi::status::*;

use crate::vision;

/// A handle for other threads.
struct Shared<T>(*mut T);
unsafe impl<T> Send for Shared<T> {}
unsafe impl<T> Sync for Shared<T> {}

const READERS: usize = 3;

/// Runs `work` while threads read; the number of times that they did, all of them.
fn read_beside(read: impl Fn() + Sync, work: impl FnOnce()) -> usize {
    let (is_done, n_read, first) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                read();
                first.fetch_add(1, Ordering::SeqCst);
                while !is_done.load(Ordering::SeqCst) {
                    read();
                    n_read.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        while first.load(Ordering::SeqCst) < READERS {
            thread::yield_now();
        }
        work();
        is_done.store(true, Ordering::SeqCst);
    });
    n_read.into_inner()
}

fn job_info(job: *const rz_job) -> rz_job_info {
    let mut info = rz_job_info { struct_size: size::<rz_job_info>(), ..zeroed() };
    expect(RZ_OK, |e| unsafe { rz_job_info_get(job, &mut info, e) });
    info
}

#[test]
fn a_job_is_read_while_it_is_stepped() {
    let host = Host::new(512);
    let tokens = [BOS, 403, 407];
    let params = rz_job_params {
        struct_size: size::<rz_job_params>(),
        max_tokens: 200,
        tokens: tokens.as_ptr(),
        n_tokens: tokens.len(),
        ..zeroed()
    };
    let mut job = null_mut();
    expect(RZ_OK, |e| unsafe { rz_job_new(host.cache, &params, &mut job, e) });
    let shared = Shared(job);
    let read = || {
        let shared = &shared;
        let (before, now) = (job_info(shared.0), job_info(shared.0));
        assert!(before.n_tokens <= now.n_tokens && now.n_tokens <= 200, "{} {}", before.n_tokens, now.n_tokens);
        expect(RZ_OK, |e| unsafe { rz_job_error(shared.0, e) });
    };
    let n = read_beside(read, || {
        let mut status = RZ_AGAIN;
        while status == RZ_AGAIN {
            status = unsafe { rz_job_step(job, 100, null_mut()) };
        }
        assert_eq!(status, RZ_DONE);
    });
    assert!(n > 0);
    assert_eq!((job_info(job).n_tokens, job_info(job).state), (200, RZ_STATE_ENDED));
    unsafe { rz_job_free(job) };
}

/// One call that makes many tokens: the counts of the passes are seen before it ends.
#[test]
fn the_counts_of_a_reply_grow_while_one_call_makes_it() {
    let talk = Talk::new("", 600, RZ_OVERFLOW_FAIL);
    talk.add("user", "one two three");
    talk.begin(reply_params(300));
    let handle = Shared(talk.handle);
    let seen = AtomicUsize::new(0);
    let read = || {
        let handle = &handle;
        let info = talk_info(handle.0);
        assert!(info.n_messages == 1 || info.n_messages == 2 && info.state == RZ_STATE_ENDED);
        seen.fetch_or(usize::from(info.n_tokens > 0 && info.state == RZ_STATE_TOKENS), Ordering::SeqCst);
        let json = messages(handle.0);
        assert!(json.as_array().is_some_and(|all| (1..=2).contains(&all.len())), "{json}");
    };
    let n = read_beside(read, || {
        // A budget that no reply needs.
        let status = unsafe { rz_conversation_step(talk.handle, 600_000_000, null_mut()) };
        assert_eq!(status, RZ_DONE);
    });
    assert!(n > 0 && seen.into_inner() == 1);
    assert_eq!((talk_info(talk.handle).n_messages, talk_info(talk.handle).state), (2, RZ_STATE_ENDED));
}

fn talk_info(conversation: *const rz_conversation) -> rz_conversation_info {
    let mut info = rz_conversation_info { struct_size: size::<rz_conversation_info>(), ..zeroed() };
    expect(RZ_OK, |e| unsafe { rz_conversation_info_get(conversation, &mut info, e) });
    info
}

fn messages(conversation: *const rz_conversation) -> serde_json::Value {
    let (mut json, mut n) = (vec![0u8; 1 << 16], 0);
    let (out, room) = (json.as_mut_ptr().cast(), json.len());
    expect(RZ_OK, |e| unsafe { rz_conversation_json_into(conversation, 0, out, room, &mut n, e) });
    serde_json::from_slice(&json[..n]).expect("JSON")
}

/// Forks of several threads at once, of a conversation with an unfinished reply too, which is not in them.
#[test]
fn conversations_are_forked_by_several_threads_at_once() {
    let talk = Talk::new("", 64, RZ_OVERFLOW_FAIL);
    talk.add("user", "one");
    for begins in [false, true] {
        if begins {
            talk.begin(reply_params(8));
            expect(RZ_AGAIN, |e| unsafe { rz_conversation_step(talk.handle, RZ_NO_LIMIT, e) });
        }
        let handle = Shared(talk.handle);
        let fork = || {
            let handle = &handle;
            let mut fork = null_mut();
            expect(RZ_OK, |e| unsafe { rz_conversation_fork(handle.0, &mut fork, e) });
            assert_eq!((talk_info(fork).n_messages, talk_info(fork).state), (1, 0));
            unsafe { rz_conversation_free(fork) };
        };
        thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| (0..50).for_each(|_| fork())))));
    }
    assert_eq!(talk_info(talk.handle).n_tokens, 1);
}

#[test]
fn jobs_of_several_threads_are_given_one_sampler() {
    let params = rz_sampler_params { struct_size: size::<rz_sampler_params>(), temperature: 1.0, ..zeroed() };
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    let (host, shared) = (Host::new(64), Shared(sampler));
    let (model, tokens) = (Shared(host.model), [BOS, 403, 407]);
    let make = || {
        let (model, shared) = (&model, &shared);
        let cache = new_cache(model.0, 16);
        let params = rz_job_params {
            struct_size: size::<rz_job_params>(),
            tokens: tokens.as_ptr(),
            n_tokens: tokens.len(),
            sampler: shared.0,
            ..zeroed()
        };
        let mut job = null_mut();
        expect(RZ_OK, |e| unsafe { rz_job_new(cache, &params, &mut job, e) });
        unsafe {
            rz_job_free(job);
            rz_cache_free(cache);
        }
    };
    thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| (0..50).for_each(|_| make())))));
    unsafe { rz_sampler_free(sampler) };
}

#[test]
fn a_medium_is_described_while_it_is_encoded() {
    let seer = Seer::new("idefics3");
    let picture = vision::picture([130, 66]);
    let picture = pixels(RZ_PIXELS_RGB8, [130, 66], &picture.rgb);
    let medium = seer.pixels(&picture, &rz_media_params { flags: RZ_ENCODE_STEPS, ..params() });
    let shared = Shared(medium.0);
    let read = || {
        let shared = &shared;
        let mut info = rz_media_info { struct_size: size::<rz_media_info>(), ..zeroed() };
        expect(RZ_OK, |e| unsafe { rz_media_info_get(shared.0, &mut info, e) });
        assert!(info.n_rows > 0 && info.kind == RZ_MEDIA_IMAGE);
    };
    read_beside(read, || while step(&medium, 0).0 == RZ_AGAIN {});
    assert_eq!(step(&medium, 0).0, RZ_DONE);
}
