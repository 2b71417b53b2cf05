//! The number of threads changes during calls: every result is bit-identical to what a single caller gets, and every
//! call ends. The reference is the same runtime before anything changes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use realizar::engine::{CacheParams, Model, Session};
use realizar::quant;

use crate::support::models;
use crate::support::save::save;
use crate::support::tiny::Tiny;

/// Callers, and how long they go on.
const CALLERS: usize = 8;
const TIME: Duration = Duration::from_secs(4);
/// A caller that has finished nothing for this long hangs.
const HANG: Duration = Duration::from_secs(60);

/// The bits of the logits after a prompt of `n` tokens and one decoded token.
fn bits(session: &mut Session, n: usize) -> Vec<u32> {
    let tokens: Vec<u32> = (0..n as u32).map(|i| 3 + i * 7 % 90).collect();
    session.truncate(0).unwrap();
    session.prefill(&tokens, None).unwrap();
    session.decode(5, None).unwrap();
    session.logits().unwrap().iter().map(|x| x.to_bits()).collect()
}

#[test]
fn results_and_calls_do_not_depend_on_the_number_of_threads_changing() {
    let (_dir, path, _) = save(&Tiny::new("llama", quant::Q8_0));
    let runtime = models::runtime(2);
    let model = Model::load(&path, models::on(runtime.clone(), models::cpu())).unwrap();
    let session =
        |model: &Arc<Model>| Session::new(model, &CacheParams { capacity: 64, ..Default::default() }).unwrap();
    let mut alone = session(&model);
    let expected: Vec<_> = (1..41).map(|n| bits(&mut alone, n)).collect();
    let (ends, counts) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; CALLERS + 2]);
    std::thread::scope(|scope| {
        for (i, count) in counts.iter().enumerate() {
            let (ends, model, runtime, expected, path) = (&ends, &model, &runtime, &expected, &path);
            scope.spawn(move || {
                let mut own = session(model);
                for round in 0.. {
                    let n = (i * 11 + round * 7) % 40;
                    match i {
                        // Sometimes the previous number, and sometimes more than there are processors.
                        0 => runtime.set_threads([1, 2, 2, 1, 3, 1, 1, 5][round % 8]).unwrap(),
                        // Another model is loaded and freed, with the same runtime and with its own runtime.
                        1 if round % 2 == 0 => assert!(
                            bits(
                                &mut session(&Model::load(path, models::on(runtime.clone(), models::cpu())).unwrap()),
                                n + 1
                            ) == expected[n]
                        ),
                        1 => {
                            let other = models::runtime(2);
                            let model = Model::load(path, models::on(other.clone(), models::cpu())).unwrap();
                            other.set_threads(3).unwrap();
                            drop(other);
                            assert!(bits(&mut session(&model), n + 1) == expected[n]);
                        }
                        _ => assert!(bits(&mut own, n + 1) == expected[n], "caller {i}, round {round}"),
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    if ends.load(Ordering::Relaxed) {
                        return;
                    }
                    if i == 0 {
                        std::thread::sleep(Duration::from_micros(400 * (round as u64 % 3)));
                    }
                }
            });
        }
        let started = Instant::now();
        let mut before = ([0; CALLERS + 2], [started; CALLERS + 2]);
        while started.elapsed() < TIME {
            std::thread::sleep(Duration::from_millis(20));
            for (i, count) in counts.iter().enumerate() {
                let now = count.load(Ordering::Relaxed);
                if now != before.0[i] {
                    (before.0[i], before.1[i]) = (now, Instant::now());
                }
                // A thread that spins for ever cannot be joined.
                if before.1[i].elapsed() > HANG {
                    eprintln!("thread {i} hangs after {now} rounds");
                    std::process::abort();
                }
            }
        }
        ends.store(true, Ordering::Relaxed);
    });
    let counts = counts.map(AtomicU64::into_inner);
    println!("rounds: {counts:?}");
    assert!(counts.iter().all(|n| *n > 0), "{counts:?}");
}
