//! Decides how many draft tokens pay. The decision uses the time of passes with and without drafts, the acceptance rate
//! of each kind of draft token, and the time that drafts have won and lost so far.

use std::time::Duration;

/// Number of kinds of draft tokens; tokens of a kind have a similar acceptance rate.
pub const KINDS: usize = 8;

/// Number of passes without a draft after which their time is known, and number of passes with drafts before the next
/// pass without a draft.
const KNOWN: usize = 2;
const REFRESH: u32 = 100;
/// Bound on the time that drafts may lose: a fraction of the total time, plus a fraction of one pass.
const LOSS: f64 = 0.015;
const FIRST_LOSS: f64 = 0.5;
/// Time that a draft token adds to a pass, as a fraction of the pass: minimum, and value before any measurement.
const ROW: f64 = 0.03;
/// Number of passes between the first two probes while drafts do not pay, and number of draft tokens in a probe.
const PROBE: u32 = 8;
const PROBE_TOKENS: usize = 2;
/// Decay of older observations per observation, and weight of the prior in observations.
const DECAY: f64 = 0.97;
const GUESS: f64 = 4.0;
/// Size classes of drafts, each with a measured cost: 1, 2, to 4, to 8, to 16, more.
const SIZES: usize = 6;

pub struct DraftPolicy {
    /// Accepted and verified tokens of each kind, decayed.
    rates: [(f64, f64); KINDS],
    /// True if the next pass recomputes the accepted tokens after a rejection (recurrent models).
    repeats: bool,
    /// Times of passes without drafts with the present number of rows.
    plain: Recent,
    rows: usize,
    /// Time of one more row, by size class.
    row: [Recent; SIZES],
    /// The longest draft so far. The next one has at most twice as many tokens.
    largest: usize,
    /// Times in which a draft model generates one draft token.
    making: Recent,
    /// Time that drafts have won so far, and time of all passes.
    balance: f64,
    spent: f64,
    since_plain: u32,
    since_probe: u32,
    probe: u32,
    /// True if the draft of the open pass is a probe.
    is_probe: bool,
}

/// A finished pass.
#[derive(Clone, Copy)]
pub struct PassStats {
    pub time: Duration,
    /// Rows of the pass, and draft tokens among them, of all jobs.
    pub rows: usize,
    pub drafted: usize,
    /// True if the pass also had prompt tokens, so that its time is not comparable.
    pub is_mixed: bool,
}

impl DraftPolicy {
    /// `guesses`: prior acceptance rates by kind. `repeats`: a rejection makes the next pass recompute accepted tokens.
    pub fn new(guesses: [f64; KINDS], repeats: bool) -> DraftPolicy {
        DraftPolicy {
            rates: guesses.map(|guess| (guess * GUESS, GUESS)),
            repeats,
            plain: Recent::default(),
            rows: 0,
            row: Default::default(),
            largest: 0,
            making: Recent::default(),
            balance: 0.0,
            spent: 0.0,
            since_plain: 0,
            since_probe: 0,
            probe: PROBE,
            is_probe: false,
        }
    }

    fn rate(&self, kind: u8) -> f64 {
        self.rates.get(usize::from(kind)).map_or(0.0, |(right, seen)| right / seen)
    }

    /// Returns the time that `n` draft tokens add to a pass, which takes `plain` without them.
    fn cost(&self, n: usize, plain: f64) -> f64 {
        let near = |size: usize| (0..SIZES).filter_map(move |i| Some((i.abs_diff(size), self.row[i].median()?)));
        let row = near(size(n)).min_by_key(|(distance, _)| *distance).map_or(0.0, |(_, row)| row);
        n as f64 * row.max(ROW * plain)
    }

    /// True if the time of a pass without drafts is unknown or outdated.
    pub fn needs_plain(&self) -> bool {
        self.plain.len() < KNOWN || self.since_plain >= REFRESH
    }

    /// True if a draft is allowed: pass times are known, and losses are within bounds.
    pub fn allows(&self) -> bool {
        self.plain.median().is_some_and(|plain| !self.needs_plain() && self.may_lose(plain) > 0.0)
    }

    /// Returns the time that this job's drafts may still lose; the jobs of a pass share the allowance.
    fn may_lose(&self, plain: f64) -> f64 {
        self.balance + (LOSS * self.spent + FIRST_LOSS * plain) / self.rows.max(1) as f64
    }

    /// True if drafts pay although making them takes time, or if a probe is due.
    pub fn allows_making(&mut self) -> bool {
        self.allows() && (self.allows_one_more(0, 1.0) || self.is_time_to_probe())
    }

    /// True if one more draft token pays after `n` tokens that are all accepted with probability `right`.
    pub fn allows_one_more(&self, n: usize, right: f64) -> bool {
        let Some(plain) = self.plain.median() else { return false };
        match self.making.median() {
            _ if n == 0 && self.is_probe => true,
            None => n == 0,
            Some(making) => n < self.longest() && right * plain > self.cost(1, plain) + making,
        }
    }

    fn longest(&self) -> usize {
        (2 * self.largest).max(1)
    }

    /// Returns the acceptance rate of a kind.
    pub fn likelihood(&self, kind: u8) -> f64 {
        self.rate(kind)
    }

    /// Returns the length of the draft prefix with the highest throughput, for a pass of `jobs` jobs.
    pub fn length(&mut self, kinds: &[u8], jobs: usize) -> usize {
        let Some(plain) = self.plain.median().filter(|_| self.allows()) else { return 0 };
        if self.is_probe {
            return kinds.len().min(PROBE_TOKENS).min(self.longest());
        }
        let (mut tokens, mut right) = (jobs as f64, 1.0);
        let mut best = (tokens / plain, 0);
        for (i, kind) in kinds.iter().enumerate().take(self.longest()) {
            right *= self.rate(*kind);
            tokens += right;
            let cost = self.cost(i + 1, plain);
            if cost > self.may_lose(plain) {
                break;
            }
            let repeated = if self.repeats { 1.0 - right } else { 0.0 };
            let speed = tokens / (plain + (1.0 + repeated) * cost);
            if speed > best.0 {
                best = (speed, i + 1);
            }
        }
        let attempt = kinds.len().min(PROBE_TOKENS).min(self.longest());
        let is_attempt =
            best.1 == 0 && attempt > 0 && self.cost(attempt, plain) <= self.may_lose(plain) && self.is_time_to_probe();
        if is_attempt { attempt } else { best.1 }
    }

    fn is_time_to_probe(&mut self) -> bool {
        self.since_probe += 1;
        self.is_probe = self.since_probe >= self.probe;
        if self.is_probe {
            self.since_probe = 0;
        }
        self.is_probe
    }

    /// Records the time of making a draft of `n` tokens.
    pub fn made(&mut self, seconds: f64, n: usize) {
        if n > 0 {
            self.making.push(seconds / n as f64);
        }
        self.spent += seconds;
        self.balance -= seconds.min(4.0 * self.making.median().unwrap_or(0.0) * n.max(1) as f64);
    }

    /// Records a pass with a job's draft: the first `compared` tokens were verified, the first `right` accepted. `jobs`
    /// is the number of jobs that generated tokens in it.
    pub fn passed(&mut self, pass: PassStats, kinds: &[u8], right: usize, compared: usize, jobs: usize) {
        self.spent += pass.time.as_secs_f64();
        for (i, kind) in kinds.iter().enumerate().take(compared) {
            if let Some((hits, seen)) = self.rates.get_mut(usize::from(*kind)) {
                (*hits, *seen) = (*hits * DECAY + f64::from(u8::from(i < right)), *seen * DECAY + 1.0);
            }
        }
        if !pass.is_mixed {
            self.measure(pass);
        }
        let Some(plain) = self.plain.median().filter(|_| !kinds.is_empty()) else { return };
        let making = self.making.median().unwrap_or(0.0) * kinds.len() as f64;
        let repeated = if self.repeats && right < kinds.len() { self.cost(right + 1, plain) } else { 0.0 };
        let won = right as f64 * plain / jobs as f64 - self.cost(kinds.len(), plain) - repeated;
        self.balance += won;
        if self.is_probe {
            self.probe = if won > making { PROBE } else { self.probe.saturating_mul(2) };
            self.is_probe = false;
        }
    }

    /// Learns from the time of a pass.
    fn measure(&mut self, pass: PassStats) {
        let seconds = pass.time.as_secs_f64();
        let rows = pass.rows - pass.drafted;
        if self.rows != rows {
            (self.plain, self.rows) = (Recent::default(), rows);
        }
        if pass.drafted == 0 {
            self.plain.push(seconds);
            self.since_plain = 0;
        } else if let Some(plain) = self.plain.median() {
            let row = &mut self.row[size(pass.drafted)];
            row.push((seconds - plain).max(0.0) / pass.drafted as f64);
            self.since_plain += 1;
            self.largest = self.largest.max(pass.drafted);
        }
    }
}

/// Returns the size class of a number of draft tokens.
fn size(n: usize) -> usize {
    (n.max(1).next_power_of_two().trailing_zeros() as usize).min(SIZES - 1)
}

/// A ring of recent values; outliers do not affect its median.
#[derive(Clone, Copy, Default)]
struct Recent {
    values: [f64; 9],
    n: usize,
}

impl Recent {
    fn push(&mut self, value: f64) {
        self.values[self.n % self.values.len()] = value;
        self.n += 1;
    }

    fn len(&self) -> usize {
        self.n.min(self.values.len())
    }

    fn median(&self) -> Option<f64> {
        let mut sorted = self.values;
        let sorted = &mut sorted[..self.len()];
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the speedup by drafts for a simulated text. `chance` is the acceptance probability by place and kind.
    /// Each draft token makes a pass slower by `row`, and times have 10% noise.
    fn speed(
        policy: &mut DraftPolicy,
        tokens: usize,
        row: f64,
        making: f64,
        jobs: usize,
        chance: impl Fn(usize, u8) -> f64,
    ) -> f64 {
        let mut state = tokens as u64 + 7;
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64 / (1u64 << 53) as f64
        };
        let (mut made, mut time, mut n_passes) = (0, 0.0, 0.0);
        while made < tokens {
            let mut kinds: Vec<u8> = (0..8).map(|i| (made / 16 % 3 + i / 3) as u8).collect();
            if making > 0.0 {
                let is_asked = policy.allows_making();
                let n = (0..8).take_while(|n| is_asked && policy.allows_one_more(*n, 0.9f64.powi(*n as i32))).count();
                kinds.truncate(n);
                policy.made(making * n as f64, n);
                time += 1e3 * making * n as f64;
            } else if !policy.allows() {
                kinds.clear();
            }
            let room = if policy.needs_plain() { 0 } else { kinds.len() };
            let n = policy.length(&kinds[..room], jobs);
            let right = (0..n).take_while(|i| uniform() < chance(made + i, kinds[*i])).count();
            let noise = if uniform() < 0.03 { 5.0 } else { 0.95 + uniform() / 10.0 };
            let pass = (1.0 + row * n as f64) * noise;
            let taken =
                PassStats { time: Duration::from_secs_f64(pass * 1e-3), rows: jobs + n, drafted: n, is_mixed: false };
            policy.passed(taken, &kinds[..n], right, (right + 1).min(n), jobs);
            time += pass / noise;
            made += right + 1;
            n_passes += 1.0;
        }
        // Without drafts this job generates one token per pass.
        let others = (jobs - 1) as f64 * n_passes;
        (others + made as f64) / time / jobs as f64
    }

    #[test]
    fn drafts_never_cost_much_and_pay_where_they_are_right() {
        for row in [0.03, 0.1, 0.3, 1.0] {
            for tokens in [60, 200, 2000] {
                for jobs in [1, 4] {
                    for chance in [0.0, 0.05, 0.2, 0.5, 0.8, 0.99] {
                        let mut policy = DraftPolicy::new([0.2, 0.35, 0.5, 0.6, 0.75, 0.85, 0.9, 0.9], false);
                        let found = speed(&mut policy, tokens, row, 0.0, jobs, |_, _| chance);
                        assert!(found > 0.97, "{found} with {row} a row, {tokens} tokens, {jobs} jobs, {chance} right");
                        if chance > 0.9 && row < 0.2 && tokens > 100 && jobs == 1 {
                            assert!(found > 1.5, "{found} with {row} a row, {tokens} tokens");
                        }
                    }
                    // A text that changes: drafts are accepted at first, then never.
                    let mut policy = DraftPolicy::new([0.5; KINDS], false);
                    let found = speed(&mut policy, tokens, row, 0.0, jobs, |at, _| if at < 30 { 0.9 } else { 0.0 });
                    assert!(found > 0.97, "{found} with {row} a row, {tokens} tokens, {jobs} jobs");
                }
            }
        }
    }

    #[test]
    fn drafts_that_take_time_are_made_where_they_pay() {
        for (chance, making, least) in
            [(0.0, 0.3e-3, 0.97), (0.3, 0.3e-3, 0.97), (0.9, 0.05e-3, 1.5), (0.9, 1e-3, 0.97)]
        {
            for tokens in [100, 1000] {
                let mut policy = DraftPolicy::new([0.6; KINDS], false);
                let found = speed(&mut policy, tokens, 0.1, making, 1, |_, _| chance);
                assert!(found > least, "{found} where {chance} are right, {tokens} tokens");
            }
        }
    }
}
