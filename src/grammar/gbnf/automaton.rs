//! Position automata (a state per character class) of regular parts of a GBNF grammar. They show which characters
//! prolong a match of one part to a longer match of another.

use super::rules::{Class, Times};

/// Maximum number of states for copies of a counted repetition; beyond that, it counts as unbounded.
const MAX_COPIED: usize = 64;

/// A set of bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Bytes([u64; 4]);

impl Bytes {
    /// Returns the first UTF-8 bytes of a class's characters.
    fn leading(class: &Class) -> Bytes {
        let mut out = Bytes::default();
        for &(first, last) in &class.ranges {
            for byte in leading_byte(first)..=leading_byte(last) {
                out.0[usize::from(byte) / 64] |= 1 << (byte % 64);
            }
        }
        out
    }

    pub fn add(&mut self, other: Bytes) {
        self.0.iter_mut().zip(other.0).for_each(|(bits, other)| *bits |= other);
    }

    pub fn meets(&self, other: &Bytes) -> bool {
        self.0.iter().zip(other.0).any(|(bits, other)| bits & other != 0)
    }

    /// True if both have a common ASCII byte.
    fn meets_ascii(&self, other: &Bytes) -> bool {
        self.0[..2].iter().zip(other.0).any(|(bits, other)| bits & other != 0)
    }
}

fn leading_byte(code: u32) -> u8 {
    let byte = match code {
        0..0x80 => code,
        0x80..0x800 => 0xc0 | code >> 6,
        0x800..0x10000 => 0xe0 | code >> 12,
        _ => 0xf0 | code >> 18,
    };
    byte as u8
}

/// An automaton that accepts at least the matches of a part.
pub struct Automaton<'r> {
    states: Vec<State<'r>>,
    /// The states of first characters.
    starts: Vec<usize>,
    /// The first bytes of nonempty matches.
    pub first: Bytes,
}

struct State<'r> {
    class: &'r Class,
    leading: Bytes,
    next: Vec<usize>,
    /// The first bytes of `next`.
    next_bytes: Bytes,
    is_end: bool,
}

/// The states of the first and the last characters of a part.
pub struct Fragment {
    starts: Vec<usize>,
    ends: Vec<usize>,
    is_optional: bool,
}

/// Builds an automaton, part by part.
#[derive(Default)]
pub struct Builder<'r> {
    states: Vec<State<'r>>,
    /// States and transitions added so far.
    pub steps: usize,
}

impl<'r> Builder<'r> {
    pub fn class(&mut self, class: &'r Class) -> Fragment {
        let leading = Bytes::leading(class);
        let state = State { class, leading, next: Vec::new(), next_bytes: Bytes::default(), is_end: false };
        self.states.push(state);
        self.steps += 1;
        let at = vec![self.states.len() - 1];
        Fragment { starts: at.clone(), ends: at, is_optional: false }
    }

    fn join(&mut self, from: &[usize], to: &[usize]) {
        let mut bytes = Bytes::default();
        to.iter().for_each(|state| bytes.add(self.states[*state].leading));
        for &state in from {
            self.states[state].next.extend(to);
            self.states[state].next_bytes.add(bytes);
        }
        self.steps += from.len() * to.len();
    }

    pub fn empty() -> Fragment {
        Fragment { starts: Vec::new(), ends: Vec::new(), is_optional: true }
    }

    pub fn then(&mut self, mut first: Fragment, second: Fragment) -> Fragment {
        self.join(&first.ends, &second.starts);
        if first.is_optional {
            first.starts.extend(&second.starts);
        }
        let mut ends = second.ends;
        if second.is_optional {
            ends.extend(&first.ends);
        }
        self.steps += first.starts.len() + ends.len();
        Fragment { starts: first.starts, ends, is_optional: first.is_optional && second.is_optional }
    }

    pub fn either(mut one: Fragment, other: Fragment) -> Fragment {
        one.starts.extend(other.starts);
        one.ends.extend(other.ends);
        Fragment { is_optional: one.is_optional || other.is_optional, ..one }
    }

    /// Repeats what `write` adds. Counts that need many states are ignored.
    pub fn repeated<E>(
        &mut self,
        times: &Times,
        mut write: impl FnMut(&mut Self) -> Result<Fragment, E>,
    ) -> Result<Fragment, E> {
        let before = self.states.len();
        let mut out = write(self)?;
        let states = self.states.len() - before;
        match times.most {
            Some(0) => return Ok(Self::empty()),
            Some(most) if (most as usize).saturating_mul(states) <= MAX_COPIED => {
                for i in 1..most {
                    let mut copy = write(self)?;
                    copy.is_optional |= i >= times.least;
                    out = self.then(out, copy);
                }
            }
            _ => self.join(&out.ends, &out.starts),
        }
        out.is_optional |= times.least == 0;
        Ok(out)
    }

    pub fn finish(mut self, whole: Fragment) -> Automaton<'r> {
        let mut first = Bytes::default();
        for &state in &whole.starts {
            first.add(self.states[state].leading);
        }
        whole.ends.iter().for_each(|state| self.states[*state].is_end = true);
        for state in &mut self.states {
            state.next.sort_unstable();
            state.next.dedup();
        }
        let mut starts = whole.starts;
        starts.sort_unstable();
        starts.dedup();
        Automaton { states: self.states, starts, first }
    }
}

/// The overlap of two automata.
#[derive(Clone, Copy, Default)]
pub struct Meeting {
    /// True if both have a common nonempty match.
    pub is_shared: bool,
    /// The bytes that may follow a match of the first within a longer match of the second, and vice versa.
    pub longer: [Bytes; 2],
}

/// Compares two automata. Subtracts the number of pairs of states from `left`; `None` if there are more.
pub fn meeting(a: &Automaton, b: &Automaton, left: &mut usize) -> Option<Meeting> {
    let mut out = Meeting::default();
    let mut seen = vec![false; a.states.len() * b.states.len()];
    *left = left.checked_sub(seen.len() / 64)?;
    let mut pending = Vec::new();
    let mut push = |pending: &mut Vec<(usize, usize)>, froms: &[usize], tos: &[usize]| -> Option<()> {
        *left = left.checked_sub(froms.len() * tos.len())?;
        for &p in froms {
            for &q in tos {
                let at = p * b.states.len() + q;
                if !seen[at] && overlap(&a.states[p], &b.states[q]) {
                    seen[at] = true;
                    pending.push((p, q));
                }
            }
        }
        Some(())
    };
    push(&mut pending, &a.starts, &b.starts)?;
    while let Some((p, q)) = pending.pop() {
        let (p, q) = (&a.states[p], &b.states[q]);
        out.is_shared |= p.is_end && q.is_end;
        if p.is_end {
            out.longer[0].add(q.next_bytes);
        }
        if q.is_end {
            out.longer[1].add(p.next_bytes);
        }
        push(&mut pending, &p.next, &q.next)?;
    }
    Some(out)
}

fn overlap(a: &State, b: &State) -> bool {
    if !a.leading.meets(&b.leading) {
        return false;
    }
    if a.leading.meets_ascii(&b.leading) {
        return true;
    }
    let (mut others, mut current) = (b.class.ranges.iter(), None);
    for &(first, last) in &a.class.ranges {
        loop {
            match current.or_else(|| others.next()) {
                None => return false,
                Some(&(_, end)) if end < first => current = None,
                Some(&(start, _)) if start <= last => return true,
                other => {
                    current = other;
                    break;
                }
            }
        }
    }
    false
}
