//! The inputs of one step. Everything else of a step is in its program.

use super::program::Program;
use super::state::State;
pub use super::state_spec::StepLimits;
use crate::error::{Error, Result};
use crate::sampling::{MAX_ENTRIES, SamplingRule};

/// Id in `Batch::ids` that stands for the token chosen behind an output of the step that was submitted before: for token `i`
/// the output `i`.
pub const FOLLOWING: u32 = u32::MAX;

/// The tokens of one step, `n = ids.len()` of any mix of sequences.
pub struct Batch<'a> {
    /// `[n]`
    pub ids: &'a [u32],
    /// `[n]`, position of each token in its sequence, ascending within each.
    pub positions: &'a [u32],
    /// `[n]`, index into `states`, ascending: tokens of one sequence stand together.
    pub slots: &'a [u32],
    /// The sequences, each once.
    pub states: &'a mut [&'a mut State],
    /// Tokens whose logits are wanted, as indices into `ids`, ascending.
    pub outputs: &'a [u32],
    /// The rule by which a device chooses the token behind each output, the most likely one where there is none; empty:
    /// nowhere. The CPU heeds none. In a step whose tokens are all `FOLLOWING` those of the step before go on.
    pub rules: &'a [Option<SamplingRule<'a>>],
}

impl Batch<'_> {
    /// Refuses a batch that fits neither itself, nor the program, nor the room. `follows`: `FOLLOWING` has a meaning.
    pub fn check(&self, program: &Program, limits: StepLimits, follows: bool) -> Result<()> {
        let (n, outputs) = (self.ids.len(), self.outputs.len());
        let StepLimits { max_tokens, max_outputs } = limits;
        if n == 0 || n > max_tokens || outputs > max_outputs || self.states.len() > max_tokens {
            return Err(Error::invalid(format!(
                "a step of {n} tokens, {outputs} outputs and {} caches; 1 to {max_tokens} and 0 to {max_outputs} fit",
                self.states.len()
            )));
        }
        if self.positions.len() != n || self.slots.len() != n {
            let (positions, slots) = (self.positions.len(), self.slots.len());
            return Err(Error::invalid(format!("{n} ids, {positions} positions, {slots} slots")));
        }
        if !self.outputs.is_sorted_by(|a, b| a < b) || self.outputs.last().is_some_and(|&last| last as usize >= n) {
            return Err(Error::invalid(format!("outputs {:?} of {n} tokens", self.outputs)));
        }
        if !self.rules.is_empty() && self.rules.len() != outputs {
            return Err(Error::invalid(format!("{} rules for {outputs} outputs", self.rules.len())));
        }
        if let Some(rule) = self.rules.iter().flatten().find(|rule| rule.entries() > MAX_ENTRIES) {
            return Err(Error::invalid(format!("a rule of {} entries, {MAX_ENTRIES} are possible", rule.entries())));
        }
        for state in self.states.iter() {
            if (&state.spec().layers, &state.spec().memories) != (&program.states, &program.memories) {
                return Err(Error::Mismatch(format!("a cache of another model: {:?}", state.spec())));
            }
        }
        let (ids, positions) = (program.max_ids, program.max_positions);
        let mut first = 0;
        for (i, (&id, (&position, &slot))) in self.ids.iter().zip(self.positions.iter().zip(self.slots)).enumerate() {
            let Some(state) = self.states.get(slot as usize) else {
                return Err(Error::invalid(format!("slot {slot} of {} caches", self.states.len())));
            };
            let capacity = state.spec().capacity;
            if position as usize >= capacity {
                return Err(Error::ContextFull { len: position as usize, capacity, more: 1 });
            }
            if id as usize >= ids && !(follows && id == FOLLOWING) {
                return Err(Error::invalid(format!("token {id} of {ids}")));
            }
            if position as usize >= positions {
                return Err(Error::invalid(format!("position {position} of {positions} learned ones")));
            }
            let first_of = i.checked_sub(1).is_none_or(|before| self.slots[before] != slot);
            let next = if first_of { state.len() } else { self.positions[i - 1] as usize + 1 };
            // A step ahead goes on behind one that is not committed yet.
            let is_ahead = follows && first_of && id == FOLLOWING;
            if !program.memories.is_empty() && position as usize != next && !is_ahead {
                return Err(Error::invalid(format!(
                    "position {position} of a recurrent sequence that goes on at {next}"
                )));
            }
            match i.checked_sub(1).map(|before| (self.slots[before], self.positions[before])) {
                Some((same, before)) if same == slot && before < position => {}
                Some((other, _)) if other >= slot => {
                    return Err(Error::invalid("the tokens of a step are not in order"));
                }
                _ => first = i,
            }
            let (count, room) = (i - first + 1, state.spec().max_step);
            if count > room {
                return Err(Error::invalid(format!("{count} tokens of a sequence, steps of its cache have {room}")));
            }
        }
        Ok(())
    }

    /// True where the capacity of the caches is above a bound; those of a batch are all on one side of it.
    pub fn is_longer_than(&self, above: usize) -> bool {
        self.states.iter().any(|state| state.spec().capacity > above)
    }
}
