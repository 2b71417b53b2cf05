//! The pre-tokenizers named by `tokenizer.ggml.pre` in GGUF files. The patterns are published with the models' own
//! tokenizers; the names are written by converters to GGUF.

use crate::error::{Error, Result};
use crate::text::tokenizer::merge::WholePieces;
use crate::text::tokenizer::pieces::{Behavior, Form, Splitter, TextStep};

pub struct PreTokenizer {
    pub normalize: Option<TextStep>,
    pub steps: Vec<TextStep>,
    /// Pieces that are a token as a whole, taken without merging.
    pub whole_pieces: WholePieces,
    pub bos: Bos,
    pub spelling: Spelling,
}

/// When a text begins with BOS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bos {
    /// If the file says so.
    IfTold,
    /// Unless the file says otherwise.
    Default,
    /// Whatever the file says.
    Always,
}

/// The spelling of tokens in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Spelling {
    /// GPT-2's byte alphabet.
    ByteLevel,
    /// UTF-8 with U+2581 for spaces and `<0xNN>` for bytes.
    VisibleSpace,
    /// UTF-8 without spaces.
    Words,
}

struct Row {
    names: &'static [&'static str],
    patterns: &'static [&'static str],
    whole_pieces: WholePieces,
    bos: Bos,
    spelling: Spelling,
}

const fn row(names: &'static [&'static str], patterns: &'static [&'static str]) -> Row {
    Row { names, patterns, whole_pieces: WholePieces::Never, bos: Bos::IfTold, spelling: Spelling::ByteLevel }
}

pub const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
pub const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub const QWEN2: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
pub const KIMI_K2: &str = r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Lines, and the runs of newlines between them.
const LINES: &str = r"[^\n]+|[\n]+";
/// White space that is dropped.
const WHITE_SPACE: &str = r"\s+";
const BLOOM: &str = r" ?[^(\s|.,!?…。，、।۔،)]+";
const KANA_AND_HAN: &str = "[一-龥\u{3040}-ゟ゠-ヿ]+";
/// The cased letters of an early Unicode version, as listed by DeepSeek LLM.
const CASED: &str = concat!(
    r"\s?[",
    r"A-Za-z\u{b5}\u{c0}-\u{d6}\u{d8}-\u{f6}\u{f8}-\u{1ba}\u{1bc}-\u{1bf}\u{1c4}-\u{293}\u{295}-",
    r"\u{2af}\u{370}-\u{373}\u{376}\u{377}\u{37b}-\u{37d}\u{37f}\u{386}\u{388}-\u{38a}\u{38c}\u{38e}-",
    r"\u{3a1}\u{3a3}-\u{3f5}\u{3f7}-\u{481}\u{48a}-\u{52f}\u{531}-\u{556}\u{10a0}-\u{10c5}\u{13a0}-",
    r"\u{13f5}\u{13f8}-\u{13fd}\u{1c90}-\u{1cba}\u{1cbd}-\u{1cbf}\u{1d00}-\u{1d2b}\u{1d6b}-\u{1d77}",
    r"\u{1d79}-\u{1d9a}\u{1e00}-\u{1f15}\u{1f18}-\u{1f1d}\u{1f20}-\u{1f45}\u{1f48}-\u{1f4d}\u{1f50}-",
    r"\u{1f57}\u{1f59}\u{1f5b}\u{1f5d}\u{1f5f}-\u{1f7d}\u{1f80}-\u{1fb4}\u{1fb6}-\u{1fbc}\u{1fbe}",
    r"\u{1fc2}-\u{1fc4}\u{1fc6}-\u{1fcc}\u{1fd0}-\u{1fd3}\u{1fd6}-\u{1fdb}\u{1fe0}-\u{1fec}\u{1ff2}-",
    r"\u{1ff4}\u{1ff6}-\u{1ffc}\u{2102}\u{2107}\u{210a}-\u{2113}\u{2115}\u{2119}-\u{211d}\u{2124}",
    r"\u{2126}\u{2128}\u{212a}-\u{212d}\u{212f}-\u{2134}\u{2139}\u{213c}-\u{213f}\u{2145}-\u{2149}",
    r"\u{214e}\u{2183}\u{2184}\u{2c00}-\u{2c7b}\u{2c7e}-\u{2ce4}\u{2ceb}-\u{2cee}\u{2cf2}\u{2cf3}",
    r"\u{a640}-\u{a66d}\u{a680}-\u{a69b}\u{a722}-\u{a76f}\u{a771}-\u{a787}\u{a78b}-\u{a78e}\u{ab70}-",
    r"\u{abbf}\u{fb00}-\u{fb06}\u{fb13}-\u{fb17}\u{ff21}-\u{ff3a}\u{ff41}-\u{ff5a}\u{10400}-\u{1044f}",
    r"\u{104b0}-\u{104d3}\u{104d8}-\u{104fb}\u{10c80}-\u{10cb2}\u{10cc0}-\u{10cf2}\u{118a0}-\u{118df}",
    r"\u{1e900}-\u{1e943}",
    r"]+",
);
/// Groups of three digits from the end of the run, like `\p{N}+` with `(?=(\d{3})+(?!\d))`.
const THOUSANDS: &str = "";

const TABLE: &[Row] = &[
    row(&["default", ""], &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"]),
    row(
        &[
            "gpt-2",
            "gpt2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "phi-2",
            "gigachat",
            "a.x-4.0",
            "mellum",
            "exaone4",
            "modern-bert",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "jina-v1-en",
            "jina-v2-code",
            "roberta-bpe",
        ],
        &[GPT2],
    ),
    row(
        &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"],
        &[r"\p{N}", GPT2],
    ),
    Row {
        whole_pieces: WholePieces::Any,
        bos: Bos::Default,
        ..row(
            &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"],
            &[LLAMA3],
        )
    },
    row(&["dbrx", "smaug-bpe", "chatglm-bpe"], &[LLAMA3]),
    Row { whole_pieces: WholePieces::Any, ..row(&["glm4", "glm5"], &[LLAMA3]) },
    // The digits are split off first.
    Row { whole_pieces: WholePieces::Any, ..row(&["minicpm5"], &[r"\p{N}{1,3}", LLAMA3]) },
    row(
        &["qwen2", "deepseek-r1-qwen", "kormo", "stablelm2", "hunyuan", "megrez", "solar-open", "grok-2", "f2llmv2"],
        &[QWEN2],
    ),
    row(&["laguna"], &[LINES, QWEN2]),
    // Turkish has suffixes after apostrophes.
    row(&["ufakzeka"], &[r"[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]),
    row(&["qwen35"], &[QWEN35]),
    row(&["gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"], &[GPT4O]),
    Row { whole_pieces: WholePieces::Any, ..row(&["granite-embed-multi-97m"], &[GPT4O]) },
    row(&["tiny_aya", "cohere2moe"], &[r"\d{1,3}(?=(?:\d{3})*\b)", GPT4O]),
    Row {
        whole_pieces: WholePieces::Any,
        bos: Bos::Default,
        ..row(
            &["tekken"],
            &[
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        )
    },
    row(&["kimi-k2"], &[KIMI_K2]),
    row(
        &["bailingmoe", "bailingmoe2", "llada-moe"],
        &[r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"],
    ),
    row(
        &["seed-coder"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+",
        ],
    ),
    row(
        &["exaone-moe"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+",
        ],
    ),
    row(&["deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"], &[r"\p{N}{1,3}", KANA_AND_HAN, DEEPSEEK3]),
    row(&["deepseek-coder"], &["[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-\u{d7ff}]+", r"\p{N}"]),
    row(
        &["deepseek-llm"],
        &[
            "[\r\n]",
            CASED,
            r"\s?[!-/:-~\u{ff01}-\u{ff0f}\u{ff1a}-\u{ff5e}\u{2018}-\u{201f}\u{3000}-\u{3002}]+",
            r"\s+$",
            "[一-龥ࠀ-一가-\u{d7ff}]+",
            r"\p{N}+",
        ],
    ),
    row(&["falcon"], &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"]),
    row(
        &["chameleon"],
        &[
            "<sentinel:[0-9]+>",
            "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
            "([\t\n]|    |  )",
            r"\p{N}",
            r"[\p{P}!-/:-@\[-`{-~]",
            GPT2,
        ],
    ),
    row(
        &["spark2_5"],
        &[
            r"\p{N}{1,3}",
            KANA_AND_HAN,
            r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+|[\r\n]|\s+(?!\S)|\s+"##,
            r"\p{N}",
        ],
    ),
    row(
        &["afmoe"],
        &[
            THOUSANDS,
            "[一-\u{9fff}㐀-\u{4dbf}\u{f900}-\u{faff}\u{3040}-ゟ゠-ヿ\u{ff65}-\u{ff9f}\u{2f00}-\u{2fdf}\u{e40}-\u{e7f}\u{e80}-\u{eff}\u{1780}-\u{17ff}\u{1000}-\u{109f}\u{aa60}-\u{aa7f}\u{a9e0}-\u{a9ff}가-\u{d7af}\u{1100}-\u{11ff}]+",
            DEEPSEEK3,
        ],
    ),
    Row {
        whole_pieces: WholePieces::Any,
        ..row(
            &["youtu"],
            &[
                "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥\u{3040}-ゟ゠-ヿ]+",
                r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
            ],
        )
    },
    row(
        &["jais-2"],
        &[
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}",
        ],
    ),
    Row {
        whole_pieces: WholePieces::Newlines,
        bos: Bos::Always,
        spelling: Spelling::VisibleSpace,
        ..row(&["gemma4", "granite-embed-multi-311m"], &[LINES])
    },
    Row { spelling: Spelling::VisibleSpace, ..row(&["sarvam-moe"], &[LINES]) },
    Row { spelling: Spelling::Words, ..row(&["whitespace"], &[WHITE_SPACE]) },
    row(&["superbpe"], &[THOUSANDS]),
    row(&["poro-chat", "bloom", "gpt3-finnish"], &[BLOOM]),
    row(&["viking"], &[BLOOM, r"\p{N}"]),
];

/// Names of tokenizers that apply Unicode NFC before splitting. GGUF has no key for that; the published tokenizers of
/// these models do it: Qwen and derivatives, Cohere, GPT-NeoX, and, outside of `tokenizers`, StableLM 2 and Hunyuan.
const COMPOSED: &[&str] = &[
    "qwen2",
    "qwen35",
    "deepseek-r1-qwen",
    "f2llmv2",
    "stablelm2",
    "hunyuan",
    "command-r",
    "tiny_aya",
    "cohere2moe",
    "mpt",
    "olmo",
    "modern-bert",
];

/// Fails with `Unsupported` for an unknown name, because a guess would silently produce wrong tokens.
pub fn by_name(name: &str) -> Result<PreTokenizer> {
    let row = TABLE
        .iter()
        .find(|row| row.names.contains(&name))
        .ok_or_else(|| Error::unsupported(format!("tokenizer.ggml.pre is {name:?}, which is not supported")))?;
    let step = |&pattern: &&str| {
        Ok(TextStep::Split(match pattern {
            THOUSANDS => Splitter::pattern(r"\p{N}+", Behavior::Thousands, false)?,
            WHITE_SPACE => Splitter::pattern(pattern, Behavior::Removed, false)?,
            _ => Splitter::pattern(pattern, Behavior::Isolated, false)?,
        }))
    };
    let steps = row.patterns.iter().map(step).collect::<Result<_>>()?;
    let normalize = COMPOSED.contains(&name).then_some(TextStep::Normalize(Form::Nfc));
    Ok(PreTokenizer { normalize, steps, whole_pieces: row.whole_pieces, bos: row.bos, spelling: row.spelling })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::pieces::pieces;

    fn cut(name: &str, text: &str) -> Vec<String> {
        let mut out = Vec::new();
        pieces(&by_name(name).unwrap().steps, text, true, &mut |p, _| {
            out.push(p.to_owned());
            Ok(())
        })
        .unwrap();
        out
    }

    #[test]
    fn every_row_compiles_and_loses_nothing() {
        let text = "I'd  pay $1234567.89 for\n\n \"Übung\"…  naïve 漢字かな 한국어 \t\r\n été'S x_y ½\u{301}e  ";
        for name in TABLE.iter().flat_map(|row| row.names) {
            let whole = if *name == "whitespace" { text.split_whitespace().collect() } else { text.to_owned() };
            assert_eq!(cut(name, text).concat(), whole, "{name}");
        }
    }

    #[test]
    fn a_run_of_spaces_gives_its_last_one_back() {
        assert_eq!(cut("gpt-2", "a   b \t c  "), ["a", "  ", " b", " \t", " c", "  "]);
        assert_eq!(cut("gpt-2", " "), [" "]);
        assert_eq!(cut("gpt-2", "\ta"), ["\t", "a"]);
        assert_eq!(cut("llama-bpe", "a\n\n  b"), ["a", "\n\n", " ", " b"]);
        // Contractions match in any case, and a newline ends punctuation.
        assert_eq!(cut("llama-bpe", "I'M !?\n\nx"), ["I", "'M", " !?\n\n", "x"]);
    }

    #[test]
    fn digits() {
        assert_eq!(cut("smollm", "a 123"), ["a", " ", "1", "2", "3"]);
        assert_eq!(cut("llama-bpe", "12345"), ["123", "45"]);
        assert_eq!(cut("superbpe", "12345"), ["12", "345"]);
        assert_eq!(cut("tiny_aya", "1234567 12345x"), ["1", "234", "567", " ", "123", "45", "x"]);
        assert_eq!(cut("falcon", "12345"), ["123", "45"]);
        assert_eq!(cut("minicpm5", "a 12345"), ["a", " ", "123", "45"]);
    }

    #[test]
    fn runs_of_spaces() {
        let lengths = |name: &str, text: &str| cut(name, text).iter().map(|p| p.chars().count()).collect::<Vec<_>>();
        assert_eq!(cut("jais-2", "a b\t  c"), ["a", " b", "\t ", " c"]);
        assert_eq!(lengths("jais-2", &format!("a{}", " ".repeat(8))), [1, 8]);
        assert_eq!(lengths("jais-2", &format!("a{}b", " ".repeat(8))), [1, 4, 2, 1, 2]);
        assert_eq!(lengths("jais-2", &" ".repeat(1100)), [512, 512, 64, 8, 4]);
        assert_eq!(lengths("jais-2", &format!("{}1", " ".repeat(3))), [2, 1, 1]);
        assert_eq!(cut("gemma4", "a b\n\n c"), ["a b", "\n\n", " c"]);
        assert_eq!(cut("whitespace", " ab  c\n"), ["ab", "c"]);
        assert_eq!(cut("afmoe", "x 12345 漢字a"), ["x", " ", "12", "345", " ", "漢字", "a"]);
        assert_eq!(cut("spark2_5", "1234!\n\n"), ["1", "2", "3", "4", "!", "\n", "\n"]);
    }

    #[test]
    fn apostrophes() {
        assert_eq!(cut("qwen2", "Ankara'dan I'M"), ["Ankara", "'d", "an", " I", "'M"]);
        assert_eq!(cut("ufakzeka", "Ankara'dan I'M"), ["Ankara", "'dan", " I", "'M"]);
        assert_eq!(cut("gpt-4o", "HelloWorld's I'M"), ["Hello", "World's", " I'M"]);
    }

    #[test]
    fn names_of_tokenizers_that_normalize_are_in_the_table() {
        for name in COMPOSED {
            assert!(matches!(by_name(name).unwrap().normalize, Some(TextStep::Normalize(Form::Nfc))), "{name}");
        }
        assert!(by_name("llama-bpe").unwrap().normalize.is_none());
    }

    #[test]
    fn an_unknown_name_is_named() {
        let error = by_name("no-such").err().unwrap();
        assert!(matches!(&error, Error::Unsupported(what) if what.contains("no-such")), "{error}");
    }
}
