//! Performance counters of one model: dispatches, latencies, and time by phase. All counters are relaxed atomics, so
//! recording takes no lock. A snapshot may contain some concurrent updates and lack others.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use crate::device::{DeviceKind, Part, Times};

/// A measured phase of a session or a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Load,
    Tokenize,
    Prefill,
    Decode,
    Sample,
    Detokenize,
    Encode,
}

impl Phase {
    pub const ALL: [Phase; 7] =
        [Phase::Load, Phase::Tokenize, Phase::Prefill, Phase::Decode, Phase::Sample, Phase::Detokenize, Phase::Encode];
}

const BACKENDS: usize = 2;
const BUCKETS: usize = 32;

/// Counters, shared by all threads that use a model.
#[derive(Debug, Default)]
pub struct Metrics {
    backends: [Dispatches; BACKENDS],
    phases: [Total; Phase::ALL.len()],
    parts: [Total; Part::ALL.len()],
}

/// The values of all counters at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    backends: [DispatchSnapshot; BACKENDS],
    phases: [PhaseSnapshot; Phase::ALL.len()],
    parts: [PhaseSnapshot; Part::ALL.len()],
}

/// Dispatches to one kind of backend and their latencies in nanoseconds; all zero if there were none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DispatchSnapshot {
    pub count: u64,
    pub sum_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    /// Variance in square nanoseconds.
    pub variance_ns2: f64,
    /// Histogram of latencies in microseconds: bucket 0 below 1, bucket `i` from `2^(i-1)` to below `2^i`, the last one
    /// from `2^30`.
    pub histogram: [u64; BUCKETS],
    /// Bytes that the dispatches read and wrote.
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct PhaseSnapshot {
    pub count: u64,
    pub sum_ns: u64,
}

impl Metrics {
    pub fn new() -> Metrics {
        Metrics::default()
    }

    /// Records a dispatch that took `latency` and moved `bytes`.
    pub fn record_dispatch(&self, backend: DeviceKind, latency: Duration, bytes: u64) {
        self.backends[backend as usize].record(nanoseconds(latency), bytes);
    }

    pub fn record_phase(&self, phase: Phase, time: Duration) {
        self.phases[phase as usize].record(nanoseconds(time));
    }

    /// Adds the times of a step's parts.
    pub fn record_parts(&self, times: &Times) {
        for (total, (count, sum)) in self.parts.iter().zip(times).filter(|(_, (count, _))| *count > 0) {
            total.count.fetch_add(*count, Relaxed);
            total.sum.fetch_add(nanoseconds(*sum), Relaxed);
        }
    }

    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            backends: std::array::from_fn(|i| self.backends[i].snapshot()),
            phases: std::array::from_fn(|i| self.phases[i].snapshot()),
            parts: std::array::from_fn(|i| self.parts[i].snapshot()),
        }
    }

    /// Resets to zero. Concurrent updates may be counted in part.
    pub fn reset(&self) {
        self.backends.iter().for_each(Dispatches::reset);
        self.phases.iter().chain(&self.parts).for_each(Total::reset);
    }
}

impl Snapshot {
    pub fn backend(&self, kind: DeviceKind) -> &DispatchSnapshot {
        &self.backends[kind as usize]
    }

    pub fn phase(&self, phase: Phase) -> &PhaseSnapshot {
        &self.phases[phase as usize]
    }

    pub fn part(&self, part: Part) -> &PhaseSnapshot {
        &self.parts[part as usize]
    }
}

#[derive(Debug, Default)]
struct Total {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Total {
    fn record(&self, ns: u64) {
        self.count.fetch_add(1, Relaxed);
        self.sum.fetch_add(ns, Relaxed);
    }

    fn snapshot(&self) -> PhaseSnapshot {
        PhaseSnapshot { count: self.count.load(Relaxed), sum_ns: self.sum.load(Relaxed) }
    }

    fn reset(&self) {
        self.count.store(0, Relaxed);
        self.sum.store(0, Relaxed);
    }
}

/// Counters of one backend, on cache lines of their own to avoid false sharing.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Dispatches {
    total: Total,
    /// Complement of the smallest latency, so that 0 means none.
    not_min: AtomicU64,
    max: AtomicU64,
    /// Sum of squares in 128 bits, because a few dispatches of a second each overflow 64.
    squares_low: AtomicU64,
    squares_high: AtomicU64,
    bytes: AtomicU64,
    histogram: [AtomicU64; BUCKETS],
}

impl Dispatches {
    fn record(&self, ns: u64, bytes: u64) {
        self.total.record(ns);
        self.not_min.fetch_max(!ns, Relaxed);
        self.max.fetch_max(ns, Relaxed);
        self.bytes.fetch_add(bytes, Relaxed);
        self.histogram[bucket(ns)].fetch_add(1, Relaxed);

        let square = u128::from(ns) * u128::from(ns);
        let low = square as u64;
        let carry = self.squares_low.fetch_add(low, Relaxed).checked_add(low).is_none();
        let high = (square >> 64) as u64 + u64::from(carry);
        if high > 0 {
            self.squares_high.fetch_add(high, Relaxed);
        }
    }

    fn snapshot(&self) -> DispatchSnapshot {
        let count = self.total.count.load(Relaxed);
        if count == 0 {
            return DispatchSnapshot::default();
        }
        let sum_ns = self.total.sum.load(Relaxed);
        let squares = u128::from(self.squares_high.load(Relaxed)) << 64 | u128::from(self.squares_low.load(Relaxed));
        // Integer subtraction: floating point would lose a variance that is small relative to the mean.
        let spread = squares.saturating_sub(u128::from(sum_ns) * u128::from(sum_ns) / u128::from(count));
        DispatchSnapshot {
            count,
            sum_ns,
            min_ns: !self.not_min.load(Relaxed),
            max_ns: self.max.load(Relaxed),
            variance_ns2: spread as f64 / count as f64,
            histogram: std::array::from_fn(|i| self.histogram[i].load(Relaxed)),
            bytes: self.bytes.load(Relaxed),
        }
    }

    fn reset(&self) {
        self.total.reset();
        let single = [&self.not_min, &self.max, &self.squares_low, &self.squares_high, &self.bytes];
        single.into_iter().chain(&self.histogram).for_each(|counter| counter.store(0, Relaxed));
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn bucket(ns: u64) -> usize {
    let us = ns / 1000;
    ((u64::BITS - us.leading_zeros()) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double() {
        let found = [0, 999, 1000, 1999, 2000, 3999, 4000, 1 << 62].map(bucket);
        assert_eq!(found, [0, 0, 1, 1, 2, 2, 3, 31]);
        for i in 1..31 {
            assert_eq!((bucket(1000 << (i - 1)), bucket((1000 << i) - 1)), (i, i));
        }
    }

    #[test]
    fn moments_are_those_of_the_numbers() {
        let metrics = Metrics::new();
        // Latencies of 5 s that vary by nanoseconds; their squares exceed 64 bits.
        let latencies: Vec<u64> = (0..100).map(|i| 5_000_000_000 + i * i % 17).collect();
        for &ns in &latencies {
            metrics.record_dispatch(DeviceKind::Cpu, Duration::from_nanos(ns), 3);
        }
        let mean_over = latencies.iter().map(|ns| ns - 5_000_000_000).sum::<u64>() as f64 / 100.0;
        let variance =
            latencies.iter().map(|ns| ((ns - 5_000_000_000) as f64 - mean_over).powi(2)).sum::<f64>() / 100.0;

        let snapshot = metrics.snapshot();
        let cpu = snapshot.backend(DeviceKind::Cpu);
        assert_eq!((cpu.count, cpu.bytes, cpu.histogram[23]), (100, 300, 100));
        assert_eq!(cpu.sum_ns, latencies.iter().sum::<u64>());
        assert_eq!((cpu.min_ns, cpu.max_ns), (5_000_000_000, 5_000_000_016));
        assert!((cpu.variance_ns2 - variance).abs() < 0.01, "{} {variance}", cpu.variance_ns2);
        assert_eq!(snapshot.backend(DeviceKind::Gpu), &DispatchSnapshot::default());
    }

    #[test]
    fn phases_are_apart_and_reset_clears_all() {
        let metrics = Metrics::new();
        for (i, phase) in (1..).zip(Phase::ALL) {
            metrics.record_phase(phase, Duration::from_nanos(i));
            metrics.record_phase(phase, Duration::from_nanos(i));
        }
        metrics.record_dispatch(DeviceKind::Gpu, Duration::MAX, u64::MAX);
        let snapshot = metrics.snapshot();
        for (i, phase) in (1..).zip(Phase::ALL) {
            assert_eq!(snapshot.phase(phase), &PhaseSnapshot { count: 2, sum_ns: 2 * i });
        }
        assert_eq!(snapshot.backend(DeviceKind::Gpu).max_ns, u64::MAX);
        metrics.reset();
        assert_eq!(metrics.snapshot(), Snapshot::default());
        metrics.record_dispatch(DeviceKind::Gpu, Duration::from_nanos(7), 1);
        assert_eq!(metrics.snapshot().backend(DeviceKind::Gpu).min_ns, 7);
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        let metrics = Metrics::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for ns in 0..10_000 {
                        metrics.record_dispatch(DeviceKind::Cpu, Duration::from_nanos(ns << 24), 2);
                    }
                });
            }
        });
        let snapshot = metrics.snapshot();
        let cpu = snapshot.backend(DeviceKind::Cpu);
        assert_eq!((cpu.count, cpu.bytes, cpu.histogram.iter().sum()), (40_000, 80_000, 40_000));
        // Variance of 0..n is (n^2 - 1) / 12.
        let expected = (1e8 - 1.0) / 12.0 * (1u64 << 48) as f64;
        assert!((cpu.variance_ns2 / expected - 1.0).abs() < 1e-12);
    }
}
