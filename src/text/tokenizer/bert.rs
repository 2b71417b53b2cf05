//! BERT's normalizer and pre-tokenizer as pipeline steps: control characters, Han characters as words, accents, case,
//! and splits at white space and punctuation.

use crate::error::Result;
use crate::text::tokenizer::pieces::{Behavior, Form, Splitter, TextStep};

/// The steps of the normalizer.
pub struct Bert {
    /// True to drop control characters and turn all white space into spaces.
    pub clean: bool,
    /// True to put spaces around Han characters.
    pub han: bool,
    /// True to keep accents.
    pub accents: bool,
    pub lowercase: bool,
}

/// Control, format, private and unassigned characters, except common white space.
const CONTROL: &str = r"[\u{0}\u{FFFD}\p{Cc}\p{Cf}\p{Co}&&[^\t\n\r]]";

/// The blocks of Han characters, with the gap in their fifth range of the original.
const HAN: &str = "[\u{4E00}-\u{9FFF}\u{3400}-\u{4DBF}\u{20000}-\u{2A6DF}\u{2A700}-\u{2B73F}\u{2B740}-\u{2B81F}\u{2B920}-\u{2CEAF}\u{F900}-\u{FAFF}\u{2F800}-\u{2FA1F}]";

/// Appends the steps of the normalizer.
pub fn bert_normalizer(options: Bert, steps: &mut Vec<TextStep>) -> Result<()> {
    let all = |pattern: &str| Splitter::pattern(pattern, Behavior::Isolated, false);
    let replace = |pattern: &str, to: &str| Ok(TextStep::ReplacePattern { pattern: all(pattern)?, to: to.to_owned() });
    if options.clean {
        steps.push(replace(CONTROL, "")?);
        steps.push(replace(r"\s", " ")?);
    }
    if options.han {
        steps.push(TextStep::Surround(all(HAN)?));
    }
    if !options.accents {
        steps.push(TextStep::Normalize(Form::Nfd));
        steps.push(replace(r"\p{Mn}+", "")?);
    }
    if options.lowercase {
        steps.push(TextStep::Lowercase);
    }
    Ok(())
}

/// Appends the steps of the pre-tokenizer.
pub fn bert_pre_tokenizer(steps: &mut Vec<TextStep>) -> Result<()> {
    steps.push(TextStep::Split(Splitter::pattern(r"\s+", Behavior::Removed, false)?));
    steps.push(TextStep::Split(Splitter::pattern(r"[\p{P}!-/:-@\[-`{-~]", Behavior::Isolated, false)?));
    Ok(())
}
