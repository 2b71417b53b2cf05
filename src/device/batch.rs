//! The inputs of a step with its sequences, and their validation against the program and the executor.

use super::sequence::Sequence;
use crate::error::{Error, Result};
use crate::graph::program::Program;
use crate::graph::step::{CHOSEN_BEFORE, MEDIA_ROW, StepInputs, StepLimits};
use crate::sampling::MAX_ENTRIES;

/// The inputs of a step, and the sequences that it extends.
pub struct Batch<'a, 's> {
    pub inputs: StepInputs<'a>,
    /// The sequences, each once, indexed by the sequence numbers of the inputs.
    pub sequences: &'a mut [&'s mut Sequence],
}

impl Batch<'_, '_> {
    /// Fails if the batch is inconsistent, or does not fit the program or `limits`. `follows`: true if the executor
    /// accepts `CHOSEN_BEFORE`.
    pub fn check(&self, program: &Program, limits: StepLimits, follows: bool) -> Result<()> {
        let StepInputs { ids, positions, sequences: numbers, outputs, rules, media, rope_positions, spans, .. } =
            self.inputs;
        let (n, n_outputs) = (ids.len(), outputs.len());
        let StepLimits { max_tokens, max_outputs } = limits;
        if n == 0 || n > max_tokens || n_outputs > max_outputs || self.sequences.len() > max_tokens {
            return Err(Error::invalid(format!(
                "a step of {n} tokens, {n_outputs} outputs and {} caches; 1 to {max_tokens} and 0 to {max_outputs} fit",
                self.sequences.len()
            )));
        }
        if positions.len() != n || numbers.len() != n {
            let (positions, numbers) = (positions.len(), numbers.len());
            return Err(Error::invalid(format!(
                "a step has {n} ids, {positions} positions and {numbers} sequence numbers; they must be equally many"
            )));
        }
        if [rope_positions.len(), spans.len()].iter().any(|len| ![0, n].contains(len)) {
            return Err(Error::invalid(format!(
                "a step has {n} ids, {} rotary positions and {} spans; the last two must be 0 or equally many",
                rope_positions.len(),
                spans.len()
            )));
        }
        if !media.is_empty() {
            if program.reads_ids() {
                return Err(Error::unsupported(
                    "media are not supported by a network that reads token ids in its layers",
                ));
            }
            let (rows, width) = (ids.iter().filter(|id| **id == MEDIA_ROW).count(), program.media_width());
            if rows != media.len() || media.iter().any(|row| row.len() < width) {
                let narrowest = media.iter().map(|row| row.len()).min().unwrap_or(0);
                let given = format!("{} media rows of at least {narrowest} numbers are given", media.len());
                return Err(Error::invalid(format!("{given}; {rows} rows of at least {width} numbers are needed")));
            }
        }
        if !outputs.is_sorted_by(|a, b| a < b) || outputs.last().is_some_and(|&last| last as usize >= n) {
            return Err(Error::invalid(format!("outputs are {outputs:?}; they must ascend and be below {n}")));
        }
        if !rules.is_empty() && rules.len() != n_outputs {
            return Err(Error::invalid(format!(
                "{} sampling rules are given for {n_outputs} outputs; they must be equally many",
                rules.len()
            )));
        }
        if let Some(rule) = rules.iter().flatten().find(|rule| rule.entries() > MAX_ENTRIES) {
            return Err(Error::invalid(format!(
                "a sampling rule has {} entries; it must have at most {MAX_ENTRIES}",
                rule.entries()
            )));
        }
        for sequence in self.sequences.iter() {
            if (&sequence.spec().layers, &sequence.spec().recurrent) != (&program.kv_layers, &program.recurrent) {
                return Err(Error::Mismatch(format!("the cache belongs to another model: {:?}", sequence.spec())));
            }
        }
        if !numbers.is_sorted() {
            return Err(Error::invalid("the tokens of a step are not in order"));
        }
        self.inputs.runs().try_for_each(|(number, tokens)| self.check_run(program, number, tokens, follows))
    }

    /// Checks the tokens of one sequence.
    fn check_run(&self, program: &Program, number: u32, tokens: std::ops::Range<usize>, follows: bool) -> Result<()> {
        let Some(sequence) = self.sequences.get(number as usize) else {
            return Err(Error::invalid(format!(
                "sequence {number} does not exist; the step has {}",
                self.sequences.len()
            )));
        };
        let (capacity, room) = (sequence.spec().capacity, sequence.spec().max_step);
        let mut next = sequence.len();
        for i in tokens.clone() {
            let (id, position) = (self.inputs.ids[i], self.inputs.positions[i] as usize);
            if position >= capacity {
                return Err(Error::ContextFull { what: "the text", held: position, more: 1, capacity });
            }
            let is_row = !self.inputs.media.is_empty() && id == MEDIA_ROW;
            if id as usize >= program.max_ids && !is_row && !(follows && id == CHOSEN_BEFORE) {
                return Err(Error::invalid(format!(
                    "token {id} is outside the vocabulary; it must be below {}",
                    program.max_ids
                )));
            }
            if position >= program.max_positions {
                return Err(Error::invalid(format!(
                    "position {position} is too large; the model has {} learned positions",
                    program.max_positions
                )));
            }
            let is_first = i == tokens.start;
            // A pipelined step follows an uncommitted one.
            let is_ahead = follows && is_first && id == CHOSEN_BEFORE;
            if !program.recurrent.is_empty() && position != next && !is_ahead {
                return Err(Error::invalid(format!(
                    "position {position} does not continue a recurrent sequence; it must be {next}"
                )));
            }
            if !is_first && position < next {
                return Err(Error::invalid("the tokens of a step are not in order"));
            }
            next = position + 1;
        }
        for [from, to] in self.inputs.spans.get(tokens.clone()).unwrap_or_default() {
            if from > to || *to as usize > next {
                return Err(Error::invalid(format!(
                    "the span from {from} to {to} exceeds a sequence of {next} positions"
                )));
            }
        }
        if tokens.len() > room {
            let n = tokens.len();
            return Err(Error::invalid(format!("{n} tokens of a sequence, steps of its cache have {room}")));
        }
        Ok(())
    }
}
