//! Media rows and prompts through the C interface. The oracle needs no encoder: rows that equal the embeddings of
//! tokens must give bit-identical results to these tokens.

use super::host::*;
use std::ffi::c_void;
use std::path::Path;
use std::ptr::{null, null_mut};

use realizar::ffi::cache::*;
use realizar::ffi::cancel::RZ_NO_LIMIT;
use realizar::ffi::generate::*;
use realizar::ffi::job::*;
use realizar::ffi::media::*;
use realizar::ffi::model::*;
use realizar::ffi::model_info::*;
use realizar::ffi::prompt::*;
use realizar::ffi::sampler::*;
use realizar::ffi::saved::*;
use realizar::ffi::score::*;
use realizar::ffi::status::*;
use realizar::format::{Access, Source};
use realizar::quant;

use crate::support::published::file_of;
use crate::support::tiny::{Tiny, architectures};

const WIDTH: usize = 64;

/// The embeddings of a model in single precision.
fn table(path: &Path) -> Vec<f32> {
    let source = Source::open(path, Access::Read).expect("a model");
    let tensor = source.tensor("token_embd.weight").expect("a table");
    let mut bytes = vec![0; 4 * tensor.shape.n_elements() as usize];
    source.read(tensor, 0, &mut bytes).expect("the table");
    bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

/// Rows that are the embeddings of tokens times a factor.
fn rows_of(table: &[f32], width: usize, tokens: &[u32], factor: f32) -> Vec<f32> {
    let row = |token: &u32| table[*token as usize * width..][..width].iter().map(|x| x * factor).collect::<Vec<_>>();
    tokens.iter().flat_map(row).collect()
}

pub struct Medium(pub *mut rz_media);

impl Medium {
    fn new(model: *const rz_model, kind: u32, rows: &[f32], width: usize, [columns, lines]: [u32; 2]) -> Medium {
        let (mut media, n) = (null_mut(), rows.len() / width);
        expect(RZ_OK, |e| unsafe {
            rz_media_from_rows(model, kind, rows.as_ptr(), n, width as u32, columns, lines, &mut media, e)
        });
        Medium(media)
    }

    /// Rows that stand for tokens of the common model.
    pub fn of(model: *const rz_model, tokens: &[u32]) -> Medium {
        let rows = rows_of(&table(Path::new(MODEL)), WIDTH, tokens, 1.0);
        Medium::new(model, RZ_MEDIA_IMAGE, &rows, WIDTH, [0; 2])
    }

    /// Rows of one line.
    pub fn of_rows(model: *const rz_model, kind: u32, rows: &[f32], width: usize) -> Medium {
        Medium::new(model, kind, rows, width, [0; 2])
    }

    pub fn info(&self) -> rz_media_info {
        let mut info = sized::<rz_media_info>();
        expect(RZ_OK, |e| unsafe { rz_media_info_get(self.0, &mut info, e) });
        info
    }

    pub fn rows(&self) -> Vec<f32> {
        let mut n = 0;
        expect(RZ_OK, |e| unsafe { rz_media_rows_into(self.0, null_mut(), 0, &mut n, e) });
        let mut rows = vec![0f32; n];
        expect(RZ_OK, |e| unsafe { rz_media_rows_into(self.0, rows.as_mut_ptr(), rows.len(), &mut n, e) });
        assert_eq!(n, rows.len());
        rows
    }

    pub fn part(&self) -> rz_part {
        rz_part { tokens: null(), n_tokens: 0, media: self.0 }
    }
}

impl Drop for Medium {
    fn drop(&mut self) {
        unsafe { rz_media_free(self.0) };
    }
}

pub fn text(tokens: &[u32]) -> rz_part {
    rz_part { tokens: tokens.as_ptr(), n_tokens: tokens.len(), media: null() }
}

pub struct Prompt(pub *mut rz_prompt);

impl Prompt {
    pub fn new(model: *const rz_model, parts: &[rz_part]) -> Prompt {
        let mut prompt = null_mut();
        expect(RZ_OK, |e| unsafe { rz_prompt_new(model, parts.as_ptr(), parts.len(), 0, &mut prompt, e) });
        Prompt(prompt)
    }

    pub fn tokens(&self) -> Vec<u32> {
        let (mut tokens, mut n) = (vec![0; unsafe { rz_prompt_len(self.0) }], 0);
        expect(RZ_OK, |e| unsafe { rz_prompt_tokens_into(self.0, tokens.as_mut_ptr(), tokens.len(), &mut n, e) });
        assert_eq!(n, tokens.len());
        tokens
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        unsafe { rz_prompt_free(self.0) };
    }
}

impl Host {
    pub fn fill(&self, prompt: &Prompt, first: usize) {
        expect(RZ_OK, |e| unsafe { rz_prefill_prompt(self.cache, prompt.0, first, null(), e) });
    }

    fn common(&self, prompt: &Prompt) -> u32 {
        let mut common = u32::MAX;
        expect(RZ_OK, |e| unsafe { rz_cache_match_prompt(self.cache, prompt.0, &mut common, e) });
        common
    }

    pub fn rewind(&self, len: u32) {
        expect(RZ_OK, |e| unsafe { rz_cache_truncate(self.cache, len, e) });
    }

    pub fn held(&self) -> Vec<u32> {
        let (mut tokens, mut n) = (vec![0; self.len() as usize], 0);
        expect(RZ_OK, |e| unsafe { rz_cache_tokens_into(self.cache, tokens.as_mut_ptr(), tokens.len(), &mut n, e) });
        tokens
    }

    pub fn bits(&self) -> Vec<u32> {
        let (mut logits, mut n) = (vec![0f32; 512], 0);
        expect(RZ_OK, |e| unsafe { rz_logits_into(self.cache, logits.as_mut_ptr(), logits.len(), &mut n, e) });
        logits[..n].iter().map(|x| x.to_bits()).collect()
    }

    /// A cache of the same model.
    pub fn beside(&self, capacity: u32) -> Host {
        Host { model: null_mut(), cache: new_cache(self.model, capacity) }
    }

    pub fn of_cache(cache: *mut rz_cache) -> Host {
        Host { model: null_mut(), cache }
    }
}

/// Tokens that none follows from the other.
pub fn ids(n: u32) -> Vec<u32> {
    (0..n).map(|i| if i == 0 { BOS } else { 3 + i * 37 % 500 }).collect()
}

/// The tokens with a picture in place of those from `from` to `to`.
fn with_picture(model: *const rz_model, ids: &[u32], [from, to]: [usize; 2]) -> Prompt {
    let medium = Medium::of(model, &ids[from..to]);
    Prompt::new(model, &[text(&ids[..from]), medium.part(), text(&ids[to..])])
}

#[test]
fn rows_of_embeddings_are_the_tokens() {
    let host = Host::new(64);
    let ids = ids(40);
    host.prefill(&ids);
    let (expected, next) = (host.bits(), host.decode(7));
    for [from, to] in [[0, 1], [0, 40], [39, 40], [1, 39], [8, 24], [20, 20]] {
        // An empty list of tokens is a part as well.
        let prompt = match from == to {
            true => Prompt::new(host.model, &[text(&ids[..from]), text(&[]), text(&ids[to..])]),
            false => with_picture(host.model, &ids, [from, to]),
        };
        let mut shown = ids.clone();
        shown[from..to].fill(RZ_TOKEN_MEDIA);
        assert_eq!(prompt.tokens(), shown);
        let other = host.beside(64);
        other.fill(&prompt, 0);
        assert!(other.bits() == expected, "{from} to {to}");
        assert_eq!((other.held(), other.decode(7)), (shown, next));
    }
}

/// A cache that was rewound to any place, within a picture too, goes on from there.
#[test]
fn prompts_are_cut_everywhere() {
    let host = Host::new(64);
    let ids = ids(40);
    host.prefill(&ids);
    let expected = host.bits();
    let media = [Medium::of(host.model, &ids[5..17]), Medium::of(host.model, &ids[17..20])];
    // Two pictures, one after the other, and the first one twice.
    let parts = [text(&ids[..5]), media[0].part(), media[1].part(), text(&ids[20..])];
    let prompt = Prompt::new(host.model, &parts);
    let other = host.beside(64);
    for first in 0..40 {
        other.fill(&prompt, first);
        assert!(other.bits() == expected, "from {first}");
        assert_eq!(other.common(&prompt), 40);
        other.rewind(first as u32 + 1);
        if first + 1 < 40 {
            assert_eq!(other.common(&prompt), first as u32 + 1);
        }
    }
    let twice = Prompt::new(host.model, &[media[1].part(), media[1].part()]);
    drop(media);
    let (other, tokens) = (host.beside(64), [&ids[17..20], &ids[17..20]].concat());
    other.fill(&twice, 0);
    host.rewind(0);
    host.prefill(&tokens);
    assert!(other.bits() == host.bits());
}

/// Long prompts are cut into steps, and media with them.
#[test]
fn pictures_longer_than_a_step() {
    let host = Host::new(1400);
    let ids: Vec<u32> = ids(1300);
    host.prefill(&ids);
    let other = host.beside(1400);
    other.fill(&with_picture(host.model, &ids, [3, 1290]), 0);
    assert!(other.bits() == host.bits());
}

#[test]
fn forks_shifts_and_releases_keep_pictures() {
    let host = Host::new(64);
    let ids = ids(40);
    let prompt = with_picture(host.model, &ids, [10, 20]);
    let other = host.beside(64);
    other.fill(&prompt, 0);
    drop(prompt);
    let mut fork = null_mut();
    expect(RZ_OK, |e| unsafe { rz_cache_fork(other.cache, &mut fork, e) });
    let fork = Host::of_cache(fork);
    // Ahead of the picture, into it from both sides, out of its middle, all of it.
    for [keep, drop] in [[2, 4], [7, 3], [10, 2], [5, 1], [4, 20]] {
        let mut left = host.held();
        if left.is_empty() {
            host.prefill(&ids);
            left = ids.clone();
        }
        left.drain(keep..keep + drop);
        host.rewind(0);
        host.prefill(&left);
        expect(RZ_OK, |e| unsafe { rz_cache_shift(other.cache, keep as u32, drop as u32, e) });
        assert_eq!(other.len(), left.len() as u32);
        expect(RZ_OK, |e| unsafe { rz_cache_release(other.cache, e) });
        assert!(other.bits() == host.bits(), "{keep} {drop}");
    }
    assert!(!other.held().contains(&RZ_TOKEN_MEDIA));
    host.rewind(0);
    host.prefill(&ids);
    assert!(fork.bits() == host.bits());
    fork.rewind(15);
    expect(RZ_OK, |e| unsafe { rz_prefill(fork.cache, ids[15..].as_ptr(), 25, null(), e) });
    assert!(fork.bits() == host.bits());
}

#[test]
fn equal_rows_match_and_others_do_not() {
    let host = Host::new(64);
    let ids = ids(30);
    let (one, same) = (with_picture(host.model, &ids, [5, 15]), with_picture(host.model, &ids, [5, 15]));
    let mut changed = ids.clone();
    changed[9] += 1;
    let other = with_picture(host.model, &changed, [5, 15]);
    let longer = with_picture(host.model, &ids, [5, 16]);
    host.fill(&one, 0);
    assert_eq!([&one, &same, &other, &longer].map(|prompt| host.common(prompt)), [30, 30, 5, 5]);
    let mut common = 0;
    // Neither the tokens that the rows stand for nor what lists show match.
    for tokens in [ids, one.tokens()] {
        expect(RZ_OK, |e| unsafe { rz_cache_match(host.cache, tokens.as_ptr(), tokens.len(), &mut common, e) });
        assert_eq!(common, 5);
    }
    let hashes = [1, 1, 2, 1].map(|lines| {
        let rows = rows_of(&table(Path::new(MODEL)), WIDTH, &[4, 5], 1.0);
        Medium::new(host.model, RZ_MEDIA_IMAGE, &rows, WIDTH, [2 / lines, lines]).info().hash
    });
    assert!(hashes[0] == hashes[1] && hashes[0] != hashes[2] && hashes[0] == hashes[3]);
    // SHA-256 of "rows", kind, width, columns, lines and the numbers, by sha256sum.
    let zeros = Medium::new(host.model, RZ_MEDIA_IMAGE, &[0.0; WIDTH], WIDTH, [0; 2]).info().hash;
    assert_eq!(zeros.map(|byte| format!("{byte:02x}")).concat(), ZEROS);
}

/// The digest by `(printf rows; zeros 8; printf '\x40\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0'; zeros 256) |
/// sha256sum`, where `zeros() { head -c $1 /dev/zero; }`.
const ZEROS: &str = "de33936cf94a37f81ab6b6e29e249e6c5743ee3d511d960795ac5ab2f7d5c54d";

fn new_job(cache: *mut rz_cache, params: rz_job_params) -> *mut rz_job {
    let (mut job, struct_size) = (null_mut(), size_of::<rz_job_params>() as u32);
    expect(RZ_OK, |e| unsafe { rz_job_new(cache, &rz_job_params { struct_size, ..params }, &mut job, e) });
    job
}

fn made(job: *mut rz_job) -> Vec<u32> {
    let (mut tokens, mut n) = (vec![0; 64], 0);
    expect(RZ_OK, |e| unsafe { rz_job_tokens_into(job, tokens.as_mut_ptr(), tokens.len(), &mut n, e) });
    tokens.truncate(n);
    tokens
}

/// Works on jobs in slices of one share until all have ended.
fn work(jobs: &[*mut rz_job]) {
    let mut err = no_error();
    while unsafe { rz_jobs_step(jobs.as_ptr(), jobs.len(), 0, &mut err) } == RZ_AGAIN {}
    assert_eq!(err.code, RZ_DONE, "{}", text_of(&err.message));
}

#[test]
fn jobs_read_pictures_beside_texts() {
    let host = Host::new(512);
    let ids = ids(400);
    let expected = {
        let params = rz_job_params { tokens: ids.as_ptr(), n_tokens: ids.len(), max_tokens: 20, ..zeroed() };
        let job = new_job(host.cache, params);
        work(&[job]);
        let tokens = made(job);
        unsafe { rz_job_free(job) };
        tokens
    };
    assert_eq!(expected.len(), 20);
    let prompt = with_picture(host.model, &ids, [30, 390]);
    let caches: Vec<Host> = (0..4).map(|_| host.beside(512)).collect();
    // One has the beginning of the prompt, within the picture, and drafts out of the text.
    caches[1].fill(&prompt, 0);
    caches[1].rewind(100);
    let params = rz_job_params { max_tokens: 20, ..zeroed() };
    let with = rz_job_params { prompt: prompt.0, ..params };
    let jobs = [
        new_job(caches[0].cache, with),
        new_job(caches[1].cache, rz_job_params { prompt_first: 100, draft: RZ_DRAFT_LOOKUP, ..with }),
        new_job(caches[2].cache, rz_job_params { tokens: ids.as_ptr(), n_tokens: 400, ..params }),
    ];
    drop(prompt);
    work(&jobs);
    for (job, cache) in jobs.into_iter().zip(&caches) {
        assert_eq!(made(job), expected);
        unsafe { rz_job_free(job) };
        assert_eq!(
            (cache.len(), cache.held()[40]),
            (419, if cache.cache == caches[2].cache { ids[40] } else { RZ_TOKEN_MEDIA })
        );
    }
    // A job that is freed on the way leaves whole pieces, with which the cache goes on.
    let prompt = with_picture(host.model, &ids, [30, 390]);
    let job = new_job(caches[3].cache, rz_job_params { prompt: prompt.0, ..params });
    for _ in 0..500 {
        unsafe { rz_job_step(job, 0, null_mut()) };
        if caches[3].len() > 0 {
            break;
        }
        let mut info = sized::<rz_job_info>();
        expect(RZ_OK, |e| unsafe { rz_job_info_get(job, &mut info, e) });
        if info.prompt_done > 0 {
            break;
        }
    }
    unsafe { rz_job_free(job) };
    let len = caches[3].len();
    assert!((31..400).contains(&len), "{len}");
    caches[3].fill(&prompt, len as usize);
    caches[0].rewind(0);
    caches[0].prefill(&ids);
    assert!(caches[3].bits() == caches[0].bits());
}

/// Samplers and drafts that look at earlier tokens see none at a row.
#[test]
fn choices_see_no_token_at_a_row() {
    let host = Host::new(64);
    let ids = ids(30);
    let prompt = with_picture(host.model, &ids, [4, 28]);
    let mut params: rz_sampler_params = sized();
    (params.repeat_penalty, params.dry_multiplier, params.no_repeat_ngram_size) = (1.3, 0.8, 2);
    let mut sampler = null_mut();
    expect(RZ_OK, |e| unsafe { rz_sampler_new(&params, &mut sampler, e) });
    host.fill(&prompt, 0);
    let mut token = 0;
    expect(RZ_OK, |e| unsafe { rz_sample(host.cache, sampler, &mut token, e) });
    assert!(token < 512);
    unsafe { rz_sampler_free(sampler) };
}

/// Memory that something is saved to and loaded from.
pub struct File {
    pub bytes: Vec<u8>,
    pub at: usize,
}

pub unsafe extern "C" fn write(data: *const c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    file.bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(data.cast(), n) });
    0
}

pub unsafe extern "C" fn read(out: *mut c_void, n: usize, user: *mut c_void) -> i32 {
    let file = unsafe { &mut *user.cast::<File>() };
    let Some(bytes) = file.bytes.get(file.at..file.at + n) else { return 5 };
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), out.cast(), n) };
    file.at += n;
    0
}

#[test]
fn caches_are_saved_with_their_pictures() {
    let host = Host::new(64);
    let ids = ids(30);
    let media = [Medium::of(host.model, &ids[5..15]), Medium::of(host.model, &ids[20..22])];
    let parts = [text(&ids[..5]), media[0].part(), text(&ids[15..20]), media[1].part(), media[0].part()];
    let prompt = Prompt::new(host.model, &parts);
    host.fill(&prompt, 0);
    host.rewind(30);
    let mut file = File { bytes: Vec::new(), at: 0 };
    let user = (&raw mut file).cast::<c_void>();
    expect(RZ_OK, |e| unsafe { rz_cache_save(host.cache, Some(write), user, null(), e) });
    let whole = file.bytes.clone();
    let load = |bytes: &[u8]| {
        let (mut cache, mut err) = (null_mut(), no_error());
        unsafe { *user.cast::<File>() = File { bytes: bytes.to_vec(), at: 0 } };
        let status = unsafe { rz_cache_load(host.model, null(), Some(read), user, null(), &mut cache, &mut err) };
        (status, cache)
    };
    let (status, loaded) = load(&whole);
    assert_eq!(status, RZ_OK);
    let loaded = Host::of_cache(loaded);
    assert_eq!((loaded.held(), loaded.common(&prompt)), (host.held(), 30));
    // The steps that it computes again have the rows too.
    expect(RZ_OK, |e| unsafe { rz_cache_release(loaded.cache, e) });
    host.fill(&prompt, 30);
    loaded.fill(&prompt, 30);
    assert!(loaded.bits() == host.bits());
    // Tokens lie after the head of 17 numbers, then the number of media, and the first one: all of it is looked at.
    let media_at = 8 * 17 + 4 * 30;
    for at in (0..8 * 16).chain((0..40).map(|i| 8 * i)) {
        let mut damaged = whole.clone();
        damaged[media_at + at] ^= 0x41;
        let (status, _) = load(&damaged);
        let known = [RZ_ERR_FORMAT, RZ_ERR_IO, RZ_ERR_OUT_OF_MEMORY, RZ_ERR_LIMIT];
        assert!(known.contains(&status), "{status} at {at}");
    }
    for len in (0..whole.len()).step_by(97) {
        assert_eq!(load(&whole[..len]).0, RZ_ERR_IO, "{len}");
    }
}

#[test]
fn media_are_saved_alone() {
    let host = Host::new(64);
    let medium = Medium::of(host.model, &ids(9));
    let mut file = File { bytes: Vec::new(), at: 0 };
    let user = (&raw mut file).cast::<c_void>();
    expect(RZ_OK, |e| unsafe { rz_media_save(medium.0, Some(write), user, null(), e) });
    let whole = file.bytes.clone();
    let load = |status, bytes: &[u8]| {
        let mut media = null_mut();
        unsafe { *user.cast::<File>() = File { bytes: bytes.to_vec(), at: 0 } };
        expect(status, |e| unsafe { rz_media_load(host.model, Some(read), user, null(), &mut media, e) });
        Medium(media)
    };
    let loaded = load(RZ_OK, &whole);
    let (info, was) = (loaded.info(), medium.info());
    assert_eq!((info.hash, info.n_rows, info.n_tokens, info.columns, info.lines), (was.hash, 9, 9, 9, 1));
    assert_eq!((info.kind, info.row_dim, info.bytes, was.kind), (RZ_MEDIA_IMAGE, 64, 4 * 9 * 64, RZ_MEDIA_IMAGE));
    assert_eq!(loaded.rows(), rows_of(&table(Path::new(MODEL)), WIDTH, &ids(9), 1.0));
    assert_eq!(loaded.rows(), medium.rows());
    let with = |at: usize| {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        damaged
    };
    load(RZ_ERR_FORMAT, &with(0));
    load(RZ_ERR_VERSION, &with(8));
    load(RZ_ERR_MISMATCH, &with(16));
    load(RZ_ERR_FORMAT, &with(24 + 15));
    load(RZ_ERR_FORMAT, &with(whole.len() - 100));
    load(RZ_ERR_FORMAT, &with(whole.len() - 1));
    load(RZ_ERR_IO, &whole[..whole.len() - 1]);
}

#[test]
fn rows_that_no_model_takes_are_refused() {
    let host = Host::new(64);
    let mut rows = vec![0.5; 4 * WIDTH];
    let from = |rows: &[f32], kind, n, width, columns, lines| {
        let mut media = null_mut();
        let mut err = no_error();
        let status = unsafe {
            rz_media_from_rows(host.model, kind, rows.as_ptr(), n, width, columns, lines, &mut media, &mut err)
        };
        assert!(media.is_null() || status == RZ_OK);
        unsafe { rz_media_free(media) };
        (status, text_of(&err.message))
    };
    assert_eq!(from(&rows, RZ_MEDIA_AUDIO, 4, 64, 2, 2).0, RZ_OK);
    let (refused, ok) = (RZ_ERR_INVALID_ARGUMENT, from(&rows, RZ_MEDIA_IMAGE, 4, 64, 0, 0).0);
    assert_eq!(ok, RZ_OK);
    for (kind, n, width, columns, lines, what) in [
        (RZ_MEDIA_IMAGE, 2, 128, 0, 0, "rows have 128 numbers; the model takes 64"),
        (RZ_MEDIA_IMAGE, 0, 64, 0, 0, "0 rows"),
        (RZ_MEDIA_IMAGE, 4, 64, 3, 1, "the grid is 3 x 1; it must have 4 rows"),
        (RZ_MEDIA_IMAGE, 4, 64, u32::MAX, 2, "it must have 4 rows"),
        (RZ_MEDIA_IMAGE, 4, 0, 0, 0, "rows have 0 numbers"),
        (RZ_MEDIA_IMAGE, usize::MAX / 2, 64, 0, 0, "larger than memory"),
        (0, 4, 64, 0, 0, "kind is 0"),
        (3, 4, 64, 0, 0, "kind is 3"),
    ] {
        let (status, message) = from(&rows, kind, n, width, columns, lines);
        assert!(status == refused && message.contains(what), "{status} {message}");
    }
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        rows[3 * WIDTH + 5] = bad;
        let (status, message) = from(&rows, RZ_MEDIA_IMAGE, 4, 64, 0, 0);
        assert!(status == refused && message.contains("number 5 of row 3"), "{message}");
    }
}

#[test]
fn prompts_of_what_does_not_belong_together_are_refused() {
    let (host, other) = (Host::new(64), Host::new(64));
    let medium = Medium::of(other.model, &[4, 5]);
    let ids = [BOS, 4, 5];
    let new = |parts: &[rz_part], flags| {
        let (mut prompt, mut err) = (null_mut(), no_error());
        let status = unsafe { rz_prompt_new(host.model, parts.as_ptr(), parts.len(), flags, &mut prompt, &mut err) };
        assert!(prompt.is_null());
        (status, text_of(&err.message))
    };
    let says = |(status, message): (rz_status, String), expected, what: &str| {
        assert!(status == expected && message.contains(what), "{status} {message}");
    };
    says(new(&[text(&ids), medium.part()], 0), RZ_ERR_MISMATCH, "entry 1");
    let (both, neither) = (rz_part { tokens: ids.as_ptr(), ..medium.part() }, zeroed());
    says(new(&[text(&ids), both], 0), RZ_ERR_INVALID_ARGUMENT, "entry 1: tokens and media are both set");
    says(new(&[neither], 0), RZ_ERR_INVALID_ARGUMENT, "entry 0: tokens is NULL");
    says(new(&[text(&ids)], 2), RZ_ERR_VERSION, "flags");
    for id in [512, RZ_TOKEN_MEDIA, u32::MAX] {
        says(new(&[text(&[1]), text(&[2, id])], 0), RZ_ERR_INVALID_ARGUMENT, "entry 1: token");
        let tokens = [3, id];
        refused("index 1", |e| unsafe { rz_prefill(host.cache, tokens.as_ptr(), 2, null(), e) });
        let mut scores = [0.0; 2];
        refused("index 1", |e| unsafe { rz_score(host.cache, tokens.as_ptr(), 2, scores.as_mut_ptr(), null(), e) });
        refused("index 0", |e| unsafe { rz_decode_token(host.cache, id, null_mut(), &mut 0, e) });
        let params = rz_job_params { tokens: &id, n_tokens: 1, ..sized() };
        refused("index 0", |e| unsafe { rz_job_new(host.cache, &params, &mut null_mut(), e) });
    }
    let prompt = Prompt::new(other.model, &[text(&ids), medium.part()]);
    expect(RZ_ERR_MISMATCH, |e| unsafe { rz_prefill_prompt(host.cache, prompt.0, 0, null(), e) });
    expect(RZ_ERR_MISMATCH, |e| unsafe { rz_cache_match_prompt(host.cache, prompt.0, &mut 0, e) });
    let params = rz_job_params { prompt: prompt.0, ..sized() };
    expect(RZ_ERR_MISMATCH, |e| unsafe { rz_job_new(host.cache, &params, &mut null_mut(), e) });
    let params = rz_job_params { tokens: ids.as_ptr(), n_tokens: 3, ..params };
    refused("both", |e| unsafe { rz_job_new(other.cache, &params, &mut null_mut(), e) });
    refused("none is number 6", |e| unsafe { rz_prefill_prompt(other.cache, prompt.0, 6, null(), e) });
    refused("no tokens", |e| unsafe { rz_prefill_prompt(other.cache, prompt.0, 5, null(), e) });
    assert_eq!((host.len(), other.len()), (0, 0));

    // The cache is as it was where there is no room.
    let small = other.beside(4);
    expect(RZ_ERR_CONTEXT_FULL, |e| unsafe { rz_prefill_prompt(small.cache, prompt.0, 0, null(), e) });
    small.fill(&prompt, 2);
    let bits = small.bits();
    expect(RZ_ERR_CONTEXT_FULL, |e| unsafe { rz_prefill_prompt(small.cache, prompt.0, 3, null(), e) });
    assert!(small.bits() == bits && small.held() == [5, RZ_TOKEN_MEDIA, RZ_TOKEN_MEDIA]);

    let freed = Medium::of(other.model, &[4]);
    unsafe {
        rz_media_free(freed.0);
        rz_media_free(null_mut());
        rz_prompt_free(null_mut());
        assert_eq!(rz_prompt_len(null()), 0);
        let of_prompt = prompt.0.cast::<rz_media>();
        refused("another kind", |e| {
            rz_media_info_get(of_prompt, &mut rz_media_info { struct_size: 16, ..zeroed() }, e)
        });
        refused("media is NULL", |e| rz_media_rows_into(null(), null_mut(), 0, &mut 0, e));
    }
    std::mem::forget(freed);
}

/// A model whose pictures' rows see each other, and rows for it.
fn mutual() -> (tempfile::TempDir, Host, Vec<f32>) {
    let tiny = architectures(|name| Tiny::new(name, quant::F32)).into_iter().find(|(name, _)| *name == "gemma3");
    let (bytes, ..) = tiny.expect("a model").1.build();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("tiny.gguf");
    std::fs::write(&path, bytes).expect("a file");
    let model = load_with(path.to_str().expect("UTF-8"), null());
    let host = Host { model, cache: new_cache(model, 1024) };
    let table = table(&path);
    let width = table.len() / 300;
    (folder, host, rows_of(&table, width, &ids(64).iter().map(|id| id % 300).collect::<Vec<_>>(), 3.0))
}

#[test]
fn pictures_whose_rows_see_each_other_stay_whole() {
    let (_folder, host, rows) = mutual();
    let width = rows.len() / 64;
    let small = |n: u32| (0..n).map(|i| 3 + i * 7 % 290).collect::<Vec<u32>>();
    let medium = Medium::new(host.model, RZ_MEDIA_IMAGE, &rows, width, [8, 8]);
    // The picture lies over the end of the first step.
    let (before, behind) = (small(490), small(30));
    let prompt = Prompt::new(host.model, &[text(&before), medium.part(), text(&behind)]);
    host.fill(&prompt, 0);
    let expected = host.bits();
    assert_eq!(host.common(&prompt), 584);

    // Within the picture nothing is cut, and nothing matches.
    refused("begins at 490", |e| unsafe { rz_cache_truncate(host.cache, 500, e) });
    refused("begins at 490", |e| unsafe { rz_prefill_prompt(host.cache, prompt.0, 553, null(), e) });
    refused("begins at 490", |e| unsafe { rz_cache_shift(host.cache, 400, 100, e) });
    refused("begins at 490", |e| unsafe { rz_cache_shift(host.cache, 500, 60, e) });
    assert!(host.bits() == expected);
    for first in [0, 1, 300, 489, 490, 554, 583] {
        host.rewind(first);
        host.fill(&prompt, first as usize);
        assert!(host.bits() == expected, "{first}");
    }
    // A picture at the end is computed again as a whole.
    let ends = Prompt::new(host.model, &[text(&before), medium.part()]);
    let other = host.beside(1024);
    other.fill(&ends, 0);
    let at_the_end = other.bits();
    expect(RZ_OK, |e| unsafe { rz_cache_release(other.cache, e) });
    expect(RZ_OK, |e| unsafe { rz_prefill(other.cache, behind.as_ptr(), 30, null(), e) });
    assert!(other.bits() == expected);
    other.rewind(554);
    expect(RZ_OK, |e| unsafe { rz_cache_shift(other.cache, 554, 0, e) });
    let mut scores = [0.0; 30];
    expect(RZ_OK, |e| unsafe { rz_score(other.cache, behind.as_ptr(), 30, scores.as_mut_ptr(), null(), e) });
    other.rewind(0);
    other.fill(&ends, 0);
    let logits: Vec<f32> = other.bits().into_iter().map(f32::from_bits).collect();
    let sum: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
    let of_first = f64::from(logits[behind[0] as usize]) - sum.ln();
    assert!((f64::from(scores[0]) - of_first).abs() < 1e-5 && other.bits() == at_the_end);

    // Rows that see later ones are not those of a sound, which do not.
    let sound = Medium::new(host.model, RZ_MEDIA_AUDIO, &rows, width, [8, 8]);
    other.rewind(0);
    other.fill(&Prompt::new(host.model, &[text(&before), sound.part(), text(&behind)]), 0);
    assert!(other.bits() != expected);
    other.rewind(500);

    // Shifts drop a picture as a whole.
    expect(RZ_OK, |e| unsafe { rz_cache_shift(host.cache, 490, 64, e) });
    other.rewind(0);
    other.prefill(&[before.clone(), behind.clone()].concat());
    assert!(host.bits() == other.bits());

    // Jobs, beside one that makes tokens: steps bend around the picture.
    let caches = [host.beside(1024), host.beside(1024), host.beside(1024)];
    let params = rz_job_params { max_tokens: 8, ..zeroed() };
    let beside = rz_job_params { tokens: before.as_ptr(), n_tokens: 9, max_tokens: 200, ..params };
    let talks = new_job(caches[2].cache, beside);
    for _ in 0..4 {
        unsafe { rz_job_step(talks, u64::MAX, null_mut()) };
    }
    let with = rz_job_params { prompt: prompt.0, ..params };
    let jobs = [new_job(caches[0].cache, with), new_job(caches[1].cache, with), talks];
    work(&jobs);
    let alone = host.beside(1024);
    alone.fill(&prompt, 0);
    let mut expected = vec![0];
    expect(RZ_OK, |e| unsafe { rz_sample(alone.cache, null_mut(), &mut expected[0], e) });
    for i in 0..7 {
        let token = expected[i];
        expected.push(alone.decode(token));
    }
    for job in &jobs[..2] {
        assert_eq!(made(*job), expected);
    }
    jobs.into_iter().for_each(|job| unsafe { rz_job_free(job) });

    // More rows than a step takes.
    let many = rows.repeat(9);
    let mut media = null_mut();
    expect(RZ_ERR_LIMIT, |e| unsafe {
        rz_media_from_rows(host.model, RZ_MEDIA_IMAGE, many.as_ptr(), 576, width as u32, 0, 0, &mut media, e)
    });
}

#[test]
fn a_source_is_all_that_a_job_needs() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/architectures/t5-gated.json");
    let data = serde_json::from_slice(&std::fs::read(data).expect("data")).expect("JSON");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t5.gguf");
    std::fs::write(&path, file_of(&data).build().0).expect("a file");
    let model = load_with(path.to_str().expect("a path"), null());
    let mut info = sized::<rz_model_info>();
    expect(RZ_OK, |e| unsafe { rz_model_info_get(model, &mut info, e) });
    assert_eq!((info.reads_source, info.n_layers), (1, 3));

    let (source, mut media) = ([5u32, 9, 60, 1], null_mut());
    let make = |model, tokens: &[u32], media: &mut *mut rz_media, e: *mut rz_error| unsafe {
        rz_media_from_tokens(model, tokens.as_ptr(), tokens.len(), null(), media, e)
    };
    expect(RZ_OK, |e| make(model, &source, &mut media, e));
    let medium = Medium(media);
    let told = medium.info();
    assert_eq!((told.kind, told.n_rows, told.n_tokens, told.row_dim), (RZ_MEDIA_TEXT, 4, 5, 48));
    let prompt = Prompt::new(model, &[medium.part()]);
    assert_eq!(prompt.tokens(), [RZ_TOKEN_MEDIA, RZ_TOKEN_MEDIA, RZ_TOKEN_MEDIA, RZ_TOKEN_MEDIA, 2]);

    let cache = new_cache(model, 32);
    let mut job = null_mut();
    let mut params = rz_job_params { max_tokens: 6, ..sized() };
    (params.tokens, params.n_tokens) = (source.as_ptr(), source.len());
    expect(RZ_ERR_INVALID_ARGUMENT, |e| unsafe { rz_job_new(cache, &params, &mut job, e) });
    (params.tokens, params.n_tokens, params.prompt) = (null(), 0, prompt.0);
    expect(RZ_OK, |e| unsafe { rz_job_new(cache, &params, &mut job, e) });
    while unsafe { rz_job_step(job, RZ_NO_LIMIT, null_mut()) } == RZ_AGAIN {}
    let (mut tokens, mut n) = ([0; 8], 0);
    expect(RZ_OK, |e| unsafe { rz_job_tokens_into(job, tokens.as_mut_ptr(), 8, &mut n, e) });
    unsafe { rz_job_free(job) };
    // The first of them follows the prompt alone.
    expect(RZ_OK, |e| unsafe { rz_cache_truncate(cache, 0, e) });
    expect(RZ_OK, |e| unsafe { rz_prefill_prompt(cache, prompt.0, 0, null(), e) });
    let mut first = 0;
    expect(RZ_OK, |e| unsafe { rz_sample(cache, null_mut(), &mut first, e) });
    assert_eq!((n, tokens[0]), (6, first));
    unsafe { rz_cache_free(cache) };

    let host = Host::new(16);
    let mut none = null_mut();
    let why = expect(RZ_ERR_UNSUPPORTED, |e| make(host.model, &source, &mut none, e));
    assert!(why.contains("reads none"), "{why}");
    expect(RZ_ERR_INVALID_ARGUMENT, |e| make(model, &[], &mut none, e));
    expect(RZ_ERR_INVALID_ARGUMENT, |e| make(null(), &source, &mut none, e));
    assert!(none.is_null());
    unsafe { rz_model_free(model) };
}
