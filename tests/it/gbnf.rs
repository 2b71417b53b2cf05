//! GBNF accepts every text that can be derived, whatever the parser's lexer prefers: grammars and texts are compared
//! with a matcher that tries all derivations, character by character.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use realizar::engine::{Grammar, GrammarKind, GrammarText, on_new_thread};
use realizar::error::Error;

use crate::support::save::MODEL;

fn grammar(text: &str) -> Result<Grammar, Error> {
    on_new_thread(|| MODEL.grammar(&GrammarText::new(GrammarKind::Gbnf, text)))
}

/// True if a text, a token a byte, matches a grammar as a whole.
fn takes(grammar: &Grammar, text: &str) -> bool {
    let tokens: Vec<u32> = text.bytes().map(|b| 3 + u32::from(b)).collect();
    let mut matcher = grammar.matcher().unwrap();
    matcher.admits(&[], &tokens).unwrap() == tokens.len()
        && matcher.allowed(&tokens).unwrap().has(MODEL.tokenizer().unwrap().eos().unwrap())
}

/// A part of a grammar.
#[derive(Clone, Debug)]
enum Part {
    /// One of some characters, or any other one.
    Set(&'static str, bool),
    Text(&'static str),
    Rule(usize),
    All(Vec<Part>),
    Any(Vec<Part>),
    Repeat(Box<Part>, usize, Option<usize>),
}

impl Part {
    fn gbnf(&self, out: &mut String) {
        let mut each = |open: &str, parts: &[Part], between: &str, close: &str| {
            out.push_str(open);
            for (i, part) in parts.iter().enumerate() {
                out.push_str(if i > 0 { between } else { "" });
                part.gbnf(out);
            }
            out.push_str(close);
        };
        match self {
            Part::All(parts) => each("(", parts, " ", ")"),
            Part::Any(parts) => each("(", parts, " | ", ")"),
            Part::Set(chars, is_other) => _ = write!(out, "[{}{chars}]", if *is_other { "^" } else { "" }),
            Part::Text(text) => _ = write!(out, "{text:?}"),
            Part::Rule(rule) => _ = write!(out, "{}", name(*rule)),
            Part::Repeat(part, least, most) => {
                part.gbnf(out);
                out.push_str(&match (least, most) {
                    (0, None) => "*".to_owned(),
                    (1, None) => "+".to_owned(),
                    (0, Some(1)) => "?".to_owned(),
                    (least, most) => format!("{{{least},{}}}", most.map_or(String::new(), |most| most.to_string())),
                });
            }
        }
    }

    /// A text of the part. `left`: rules within rules.
    fn text(&self, rules: &[Part], random: &mut Random, left: usize, out: &mut String) -> Option<()> {
        match self {
            Part::Set(chars, false) => out.extend(chars.chars().nth(random.next(chars.chars().count()))),
            Part::Set(chars, true) => out.extend(CHARS.iter().find(|c| !chars.contains(**c))),
            Part::Text(text) => out.push_str(text),
            Part::Rule(rule) => rules[*rule].text(rules, random, left.checked_sub(1)?, out)?,
            Part::All(parts) => parts.iter().try_for_each(|part| part.text(rules, random, left, out))?,
            Part::Any(parts) => parts[random.next(parts.len())].text(rules, random, left, out)?,
            Part::Repeat(part, least, most) => {
                let n = least + random.next(most.map_or(3, |most| most - least + 1));
                (0..n).try_for_each(|_| part.text(rules, random, left, out))?;
            }
        }
        Some(())
    }

    /// Where texts of the part that begin at a character may end. `known`: the same of rules, as far as it is known.
    fn ends(&self, text: &[char], at: usize, known: &BTreeMap<(usize, usize), BTreeSet<usize>>) -> BTreeSet<usize> {
        match self {
            Part::Set(chars, is_other) => {
                let found = text.get(at).filter(|c| chars.contains(**c) != *is_other);
                found.map(|_| at + 1).into_iter().collect()
            }
            Part::Text(literal) => {
                let chars: Vec<char> = literal.chars().collect();
                text[at..].starts_with(&chars).then_some(at + chars.len()).into_iter().collect()
            }
            Part::Rule(rule) => known.get(&(*rule, at)).cloned().unwrap_or_default(),
            Part::All(parts) => parts.iter().fold(BTreeSet::from([at]), |ends, part| {
                ends.into_iter().flat_map(|at| part.ends(text, at, known)).collect()
            }),
            Part::Any(parts) => parts.iter().flat_map(|part| part.ends(text, at, known)).collect(),
            Part::Repeat(part, least, most) => {
                let (mut out, mut now) = (BTreeSet::new(), BTreeSet::from([at]));
                for n in 0..=most.unwrap_or(text.len() + least) {
                    if n >= *least {
                        out.extend(&now);
                    }
                    now = now.into_iter().flat_map(|at| part.ends(text, at, known)).collect();
                }
                out
            }
        }
    }
}

/// True if the first rule derives a text.
fn derives(rules: &[Part], text: &str) -> bool {
    let text: Vec<char> = text.chars().collect();
    let mut known = BTreeMap::new();
    loop {
        let before = known.clone();
        for (i, rule) in rules.iter().enumerate() {
            for at in 0..=text.len() {
                let ends = rule.ends(&text, at, &known);
                known.insert((i, at), ends);
            }
        }
        if known == before {
            return known[&(0, 0)].contains(&text.len());
        }
    }
}

fn name(rule: usize) -> String {
    if rule == 0 { "root".to_owned() } else { format!("rule-{rule}") }
}

fn written(rules: &[Part]) -> String {
    let mut out = String::new();
    for (i, rule) in rules.iter().enumerate() {
        let _ = write!(out, "{} ::= ", name(i));
        rule.gbnf(&mut out);
        out.push('\n');
    }
    out
}

struct Random(u64);

impl Random {
    fn next(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

const CHARS: [char; 6] = ['a', 'b', ' ', '(', 'é', 'ê'];

/// A random part. Rules up to `first` stand only after a character, so that texts end.
fn part(random: &mut Random, n: usize, first: usize, depth: usize) -> Part {
    let leaf = |random: &mut Random| match random.next(7) {
        0 => Part::Text("a"),
        1 => Part::Text("ab"),
        2 => Part::Text("("),
        3 => Part::Set("ab", false),
        4 => Part::Set(" ", false),
        5 => Part::Set("éa", false),
        _ => Part::Set("( é", true),
    };
    if depth == 0 {
        return leaf(random);
    }
    match random.next(10) {
        0 | 1 => leaf(random),
        2 if first + 1 < n => Part::Rule(first + 1 + random.next(n - first - 1)),
        2 | 3 => Part::All(vec![leaf(random), Part::Rule(random.next(n))]),
        4 | 5 => Part::All((0..2 + random.next(2)).map(|_| part(random, n, first, depth - 1)).collect()),
        6 | 7 => Part::Any((0..2 + random.next(2)).map(|_| part(random, n, first, depth - 1)).collect()),
        _ => {
            let (least, most) = [(0, None), (1, None), (0, Some(1)), (1, Some(2)), (2, None)][random.next(5)];
            Part::Repeat(Box::new(part(random, n, first, depth - 1)), least, most)
        }
    }
}

/// Every text of a random grammar is accepted, and every other text is rejected.
#[test]
fn random_grammars_take_their_texts_and_no_others() {
    let (mut n_taken, mut n_refused, mut n_recursive) = (0, 0, 0);
    for seed in 0..150 {
        let mut random = Random(seed * 7919 + 1);
        let n = 1 + random.next(4);
        let rules: Vec<Part> = (0..n).map(|rule| part(&mut random, n, rule, 3)).collect();
        let text = written(&rules);
        // A rule that never ends is rejected.
        let Ok(grammar) = grammar(&text) else { continue };
        n_recursive += usize::from(text.contains("root ") && text[8..].contains("root"));
        for _ in 0..12 {
            let mut own = String::new();
            let is_whole = rules[0].text(&rules, &mut random, 6, &mut own).is_some();
            let mut chars: Vec<char> = own.chars().take(14).collect();
            if !is_whole || random.next(3) == 0 {
                let at = random.next(chars.len() + 1);
                chars.insert(at, CHARS[random.next(CHARS.len())]);
            }
            let own: String = chars.into_iter().collect();
            let want = derives(&rules, &own);
            assert_eq!(takes(&grammar, &own), want, "{text}\n{own:?}");
            n_taken += usize::from(want);
            n_refused += usize::from(!want);
        }
    }
    assert!(n_taken > 300 && n_refused > 300 && n_recursive > 20, "{n_taken} {n_refused} {n_recursive}");
}

/// Grammars as they are published and written: lexemes are beginnings of others, and white space stands on both sides.
#[test]
fn lexemes_take_nothing_of_what_follows() {
    let sums = r#"root ::= sum
sum ::= term (ws [-+*/] ws term)*
term ::= name | name ws "(" ws (sum (ws "," ws sum)*)? ws ")" | [0-9]+ | "(" ws sum ws ")"
name ::= [a-z] [a-z0-9_]*
ws ::= [ \t\n]*
"#;
    let lines = r#"root ::= (expr "=" ws term "\n")+
expr ::= term ([-+*/] term)*
term ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num ::= [0-9]+ ws
ws ::= [ \t\n]*
"#;
    let markup = r#"root ::= content
content ::= (text | element)*
element ::= "<" name ">" content "</" name ">"
name ::= [a-z]+
text ::= [^<]+
"#;
    let list = r#"root ::= ws value ws
value ::= "[" ws (value (ws "," ws value)*)? ws "]" | string | number
string ::= "\"" ([^"\\] | "\\" ["\\n])* "\""
number ::= "-"? [0-9]+ ("." [0-9]+)?
ws ::= ([ \n] ws)?
"#;
    let keywords = r#"root ::= statement+
statement ::= "if" ws expr ws "then" ws statement "end" | name " = " expr ";" | "print" " "? expr ";"
expr ::= name | "not" ws expr | expr " and " expr | "(" expr ")"
name ::= [a-z]+
ws ::= " "+
"#;
    let dates = r#"root ::= item
item ::= [0-9]{4} "-" [0-9]{2} ("-" [0-9]{2})? | [0-9]+ | "(" item "-" item ")"
"#;
    for (grammar_text, good, bad) in [
        (
            sums,
            &["x + 10", "x+10", "f (x , 10) * (y)", "f(x)", "x  -  f  ( )", "((a) )"][..],
            &["x +", "x 10", " x"][..],
        ),
        (lines, &["x +y = 1\n", "x=1\n\n\ny=2 \n", "(a )=b\n"], &["x=1", "=1\n", "x y=1\n"]),
        (
            markup,
            &["a <b>c</b> d", "<a><b></b></a>", "", "a é b", "<a>x<b>y</b>z</a>"],
            &["<a>", "a<", "</a>", "<a></b"],
        ),
        (list, &[" [ 1 , \"a,b\\\"\" ,[ ] ] ", "-1.5", "[[],[]]", "\n\"\"\n"], &["[1,]", "[1 2]", "1.", "\"\\x\""]),
        (
            keywords,
            &["iffy = not;", "if  not a  then x = y;end", "print a and b;", "printa;", "x = (a) and not b;", "if = a;"],
            &["ifa then end", "x = ;", "x=y;", "print;"],
        ),
        (dates, &["2024-05", "2024-05-06", "20245", "(2024-05-06)", "(2024-05-06-(1-2))", "(1-2)"], &["2024-5", "(1)"]),
    ] {
        let grammar = grammar(grammar_text).unwrap_or_else(|e| panic!("{grammar_text}: {e}"));
        for text in good {
            assert!(takes(&grammar, text), "{text:?} of {grammar_text}");
        }
        for text in bad {
            assert!(!takes(&grammar, text), "{text:?} of {grammar_text}");
        }
    }
}

/// Grammars that take long to split end with a status.
#[test]
fn large_grammars_end_with_a_status() {
    let names: String = (0..300).map(|i| format!("| \"name{i}\" ws \"(\" value \")\" ")).collect();
    let wide = format!("root ::= value\nvalue ::= [a-z0-9]+ {names}\nws ::= [ ]*\n");
    let taken = grammar(&wide).map(|grammar| takes(&grammar, "name17 (name18(x))"));
    assert!(matches!(taken, Ok(true) | Err(Error::TooComplex(_))), "{:?}", taken.err());
    let sets: String = (0..2000).map(|i| format!("| [a-z]{{1,60}} \"{i}\" root [a-z]* ")).collect();
    for text in [
        format!("root ::= \"a\" {sets}"),
        format!("root ::= \"a\" root{}", "*".repeat(100_000)),
        format!("root ::= \"x\" (root | {}\"a\"{})", "(".repeat(150), "){1,9999}".repeat(150)),
    ] {
        let error = grammar(&text).err();
        assert!(matches!(error, Some(Error::TooComplex(_) | Error::InvalidArgument(_)) | None), "{error:?}");
    }
}
