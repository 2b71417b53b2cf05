//! Chooses the lexemes of a GBNF grammar. The parser's lexer takes the longest match of any lexeme that may come next
//! and never backtracks, while GBNF means every derivable text. A regular part is one lexeme unless a following
//! character, or another lexeme, would prolong its match in the lexer; then the part that takes the character is split.
//! Lexemes of one character each are always correct, but slow.

use std::collections::{BTreeMap, HashMap};

use super::automaton::{Automaton, Builder, Bytes, Fragment, Meeting, meeting};
use super::order::{Order, Set, Traits, Tree, order};
use super::rules::{Id, Part, Rules, check_depth};
use crate::error::{Error, Result};

/// Maximum bytes of all regular expressions that rules are joined to.
const MAX_REGEX: usize = 128 << 10;
/// Maximum number of visited parts, states and pairs of states.
const MAX_STEPS: usize = 100_000_000;

/// Writes a grammar in Lark.
///
/// # Errors
/// `InvalidArgument` if a rule is missing, `TooComplex` beyond the bounds.
pub fn to_lark(rules: &Rules) -> Result<String> {
    let mut chooser = Chooser::new(rules)?;
    loop {
        let grammar = chooser.grammar()?;
        let split = chooser.wrong(&grammar)?;
        if split.is_empty() {
            return Ok(chooser.lark(&grammar));
        }
        split.into_iter().for_each(|part| chooser.split(part));
    }
}

/// A place of a lexeme in the grammar.
struct Place {
    /// Index of its expression.
    term: usize,
    /// The part to split for shorter lexemes.
    part: Id,
}

/// The grammar in terms of lexemes.
struct Grammar<'r> {
    /// The rules reachable from the first one.
    trees: BTreeMap<usize, Tree<'r>>,
    places: Vec<Place>,
}

/// A lexeme's expression.
struct Term {
    regex: String,
    /// The consecutive parts that it joins.
    parts: Vec<Id>,
    traits: Traits,
}

struct Chooser<'r> {
    rules: &'r Rules,
    names: Vec<&'r str>,
    /// The part of each rule.
    bodies: Vec<Id>,
    numbers: HashMap<&'r str, usize>,
    /// True for parts that reach no recursion.
    is_regular: Vec<bool>,
    /// True for parts that match the empty text.
    is_empty: Vec<bool>,
    /// True for parts that contain characters.
    has_text: Vec<bool>,
    /// True for parts that must not be one lexeme.
    is_split: Vec<bool>,
    terms: Vec<Term>,
    by_regex: HashMap<String, usize>,
    automata: HashMap<usize, Automaton<'r>>,
    meetings: HashMap<(usize, usize), Meeting>,
    left: usize,
}

impl<'r> Chooser<'r> {
    fn new(rules: &'r Rules) -> Result<Chooser<'r>> {
        let n = rules.parts.len();
        let names: Vec<&str> = rules.by_name.keys().map(String::as_str).collect();
        let numbers: HashMap<&str, usize> = names.iter().enumerate().map(|(i, name)| (*name, i)).collect();
        let root = "root".to_owned();
        let missing = rules.parts.iter().filter_map(|part| match part {
            Part::Rule(name) => Some(name),
            _ => None,
        });
        if let Some(name) = missing.chain([&root]).find(|name| !numbers.contains_key(&name[..])) {
            return Err(Error::invalid(format!("the GBNF grammar has no rule {name:?}")));
        }
        let mut chooser = Chooser {
            rules,
            bodies: rules.by_name.values().copied().collect(),
            names,
            numbers,
            is_regular: vec![false; n],
            is_empty: vec![false; n],
            has_text: vec![false; n],
            is_split: vec![false; n],
            terms: Vec::new(),
            by_regex: HashMap::new(),
            automata: HashMap::new(),
            meetings: HashMap::new(),
            left: MAX_STEPS,
        };
        chooser.find_regular()?;
        chooser.find_empty()?;
        chooser.find_text()?;
        Ok(chooser)
    }

    fn step(&mut self, n: usize) -> Result<()> {
        self.left = self.left.checked_sub(n).ok_or_else(too_complex)?;
        Ok(())
    }

    fn body(&self, name: &str) -> Id {
        self.bodies[self.numbers[name]]
    }

    /// Finds the regular parts: first those without rules, then those whose rules are known to be regular.
    fn find_regular(&mut self) -> Result<()> {
        self.grow(
            |chooser, part| match part {
                Part::Class(_) => true,
                Part::Rule(name) => chooser.is_regular[chooser.body(name)],
                Part::All(parts) | Part::Any(parts) => parts.iter().all(|part| chooser.is_regular[*part]),
                Part::Repeat(part, _) => chooser.is_regular[*part],
            },
            |chooser| &mut chooser.is_regular,
        )
    }

    fn find_empty(&mut self) -> Result<()> {
        self.grow(
            |chooser, part| match part {
                Part::Class(_) => false,
                Part::Rule(name) => chooser.is_empty[chooser.body(name)],
                Part::All(parts) => parts.iter().all(|part| chooser.is_empty[*part]),
                Part::Any(parts) => parts.iter().any(|part| chooser.is_empty[*part]),
                Part::Repeat(part, times) => times.least == 0 || times.most == Some(0) || chooser.is_empty[*part],
            },
            |chooser| &mut chooser.is_empty,
        )
    }

    fn find_text(&mut self) -> Result<()> {
        self.grow(
            |chooser, part| match part {
                Part::Class(_) => true,
                Part::Rule(name) => chooser.has_text[chooser.body(name)],
                Part::All(parts) | Part::Any(parts) => parts.iter().any(|part| chooser.has_text[*part]),
                Part::Repeat(part, times) => times.most != Some(0) && chooser.has_text[*part],
            },
            |chooser| &mut chooser.has_text,
        )
    }

    /// Sets flags of parts until nothing changes.
    fn grow(
        &mut self,
        holds: impl Fn(&Self, &Part) -> bool,
        flags: impl Fn(&mut Self) -> &mut Vec<bool>,
    ) -> Result<()> {
        loop {
            let mut has_changed = false;
            self.step(self.rules.parts.len())?;
            for (i, part) in self.rules.parts.iter().enumerate() {
                let flag = holds(self, part);
                has_changed |= std::mem::replace(&mut flags(self)[i], flag) != flag;
            }
            if !has_changed {
                return Ok(());
            }
        }
    }

    /// Splits a part, and the equivalent parts.
    fn split(&mut self, mut part: Id) {
        while !std::mem::replace(&mut self.is_split[part], true) {
            let Part::Rule(name) = &self.rules.parts[part] else { return };
            part = self.body(name);
        }
    }

    /// Builds the grammar with the lexemes that are not split.
    fn grammar(&mut self) -> Result<Grammar<'r>> {
        let mut grammar = Grammar { trees: BTreeMap::new(), places: Vec::new() };
        let mut pending = vec![self.numbers["root"]];
        while let Some(rule) = pending.pop() {
            if !grammar.trees.contains_key(&rule) {
                let tree = self.tree(self.bodies[rule], &mut grammar.places, &mut pending)?;
                grammar.trees.insert(rule, tree);
            }
        }
        let bytes: usize = grammar.places.iter().map(|place| self.terms[place.term].regex.len()).sum();
        if bytes > MAX_REGEX {
            return Err(too_long());
        }
        Ok(grammar)
    }

    fn tree(&mut self, part: Id, places: &mut Vec<Place>, pending: &mut Vec<usize>) -> Result<Tree<'r>> {
        self.step(1)?;
        if self.is_lexeme(part) {
            return self.lexeme(vec![part], part, places);
        }
        Ok(match &self.rules.parts[part] {
            Part::Class(_) => Tree::All(Vec::new()),
            Part::Rule(name) => {
                let rule = self.numbers[&name[..]];
                pending.push(rule);
                Tree::Rule(rule)
            }
            Part::All(parts) => {
                let (mut out, mut i) = (Vec::new(), 0);
                while i < parts.len() {
                    let n = parts[i..].iter().take_while(|part| self.is_lexeme(**part)).count();
                    let n = if self.is_split[part] { n.min(1) } else { n };
                    out.push(match n {
                        0 | 1 => self.tree(parts[i], places, pending)?,
                        n => self.lexeme(parts[i..i + n].to_vec(), part, places)?,
                    });
                    i += n.max(1);
                }
                Tree::All(out)
            }
            Part::Any(parts) => {
                Tree::Any(parts.iter().map(|part| self.tree(*part, places, pending)).collect::<Result<_>>()?)
            }
            Part::Repeat(inner, times) => Tree::Repeat(Box::new(self.tree(*inner, places, pending)?), times),
        })
    }

    fn is_lexeme(&self, part: Id) -> bool {
        self.is_regular[part] && !self.is_split[part]
    }

    fn lexeme(&mut self, parts: Vec<Id>, part: Id, places: &mut Vec<Place>) -> Result<Tree<'r>> {
        if !parts.iter().any(|part| self.has_text[*part]) {
            return Ok(Tree::All(Vec::new()));
        }
        let mut regex = String::new();
        for &part in &parts {
            self.regex(part, 0, &mut regex)?;
        }
        self.step(regex.len())?;
        let term = match self.by_regex.get(&regex) {
            Some(&term) => term,
            None => {
                let is_optional = parts.iter().all(|part| self.is_empty[*part]);
                let is_closed = parts.len() == 1 && self.is_closed(parts[0]);
                self.by_regex.insert(regex.clone(), self.terms.len());
                self.terms.push(Term { regex, parts, traits: Traits { is_optional, is_closed } });
                self.terms.len() - 1
            }
        };
        places.push(Place { term, part });
        Ok(Tree::Lexeme(places.len() - 1))
    }

    /// True for a part that may repeat any number of times.
    fn is_closed(&self, mut part: Id) -> bool {
        loop {
            part = match &self.rules.parts[part] {
                Part::Repeat(_, times) => return times.least <= 1 && times.most.is_none(),
                Part::Rule(name) => self.body(name),
                Part::Class(_) | Part::All(_) | Part::Any(_) => return false,
            }
        }
    }

    fn regex(&self, part: Id, depth: usize, out: &mut String) -> Result<()> {
        check_depth(depth)?;
        let rules = self.rules;
        match &rules.parts[part] {
            Part::Class(class) => out.push_str(&class.regex),
            Part::Rule(name) => {
                out.push_str("(?:");
                self.regex(self.body(name), depth + 1, out)?;
                out.push(')');
            }
            Part::All(parts) => parts.iter().try_for_each(|part| self.regex(*part, depth + 1, out))?,
            Part::Any(parts) => {
                out.push_str("(?:");
                for (i, part) in parts.iter().enumerate() {
                    out.push_str(if i > 0 { "|" } else { "" });
                    self.regex(*part, depth + 1, out)?;
                }
                out.push(')');
            }
            Part::Repeat(part, times) => {
                out.push_str("(?:");
                self.regex(*part, depth + 1, out)?;
                out.push_str(&format!("){}", times.text));
            }
        }
        if out.len() > MAX_REGEX { Err(too_long()) } else { Ok(()) }
    }

    fn fragment(&self, part: Id, builder: &mut Builder<'r>) -> Result<Fragment> {
        let rules = self.rules;
        if builder.steps > self.left {
            return Err(too_complex());
        }
        Ok(match &rules.parts[part] {
            Part::Class(class) => builder.class(class),
            Part::Rule(name) => self.fragment(self.body(name), builder)?,
            Part::All(parts) => self.sequence(parts, builder)?,
            Part::Any(parts) => {
                let mut out: Option<Fragment> = None;
                for &part in parts {
                    let other = self.fragment(part, builder)?;
                    out = Some(match out {
                        None => other,
                        Some(one) => Builder::either(one, other),
                    });
                }
                out.unwrap_or_else(Builder::empty)
            }
            Part::Repeat(part, times) => builder.repeated(times, |builder| self.fragment(*part, builder))?,
        })
    }

    fn sequence(&self, parts: &[Id], builder: &mut Builder<'r>) -> Result<Fragment> {
        let mut out = Builder::empty();
        for &part in parts {
            let next = self.fragment(part, builder)?;
            out = builder.then(out, next);
        }
        Ok(out)
    }

    /// Builds the automata of all lexemes.
    fn make_automata(&mut self, grammar: &Grammar) -> Result<()> {
        for place in &grammar.places {
            if !self.automata.contains_key(&place.term) {
                let mut builder = Builder::default();
                let whole = self.sequence(&self.terms[place.term].parts, &mut builder)?;
                self.step(builder.steps)?;
                self.automata.insert(place.term, builder.finish(whole));
            }
        }
        Ok(())
    }

    /// Returns the overlap of two expressions.
    fn meeting(&mut self, a: usize, b: usize) -> Result<Meeting> {
        if a > b {
            let Meeting { is_shared, longer: [first, second] } = self.meeting(b, a)?;
            return Ok(Meeting { is_shared, longer: [second, first] });
        }
        self.step(1)?;
        if let Some(known) = self.meetings.get(&(a, b)) {
            return Ok(*known);
        }
        let (one, other) = (&self.automata[&a], &self.automata[&b]);
        let found = meeting(one, other, &mut self.left).ok_or_else(too_complex)?;
        self.meetings.insert((a, b), found);
        Ok(found)
    }

    /// Returns the parts whose lexemes would consume characters after a shorter match that belong to the next lexeme.
    fn wrong(&mut self, grammar: &Grammar) -> Result<Vec<Id>> {
        let traits: Vec<Traits> = grammar.places.iter().map(|place| self.terms[place.term].traits).collect();
        let order = order(&grammar.trees, self.numbers["root"], &traits, &mut self.left).ok_or_else(too_complex)?;
        if order.next.iter().all(|next| next.is_empty()) {
            return Ok(Vec::new());
        }
        self.make_automata(grammar)?;
        let n = grammar.places.len();
        let mut follow = vec![Bytes::default(); n];
        for (place, next) in order.separate.iter().enumerate() {
            for other in next.iter() {
                follow[place].add(self.automata[&grammar.places[other].term].first);
            }
            self.step(n / 64 + 1)?;
        }
        let together = self.together(grammar, &order)?;
        let mut out = Vec::new();
        for (i, others) in together.iter().enumerate() {
            for j in others.iter() {
                let found = self.meeting(grammar.places[i].term, grammar.places[j].term)?;
                if found.longer[0].meets(&follow[i]) && !self.is_split[grammar.places[j].part] {
                    out.push(grammar.places[j].part);
                }
            }
        }
        out.sort_unstable();
        out.dedup();
        Ok(out)
    }

    /// Returns the sets of places that may be allowed at once, after the same text, whatever was repeated or used
    /// before.
    fn together(&mut self, grammar: &Grammar, order: &Order) -> Result<Vec<Set>> {
        let n = grammar.places.len();
        self.step(n * (n / 64 + 1))?;
        let mut out = vec![Set::new(n); n];
        let mut pending = Vec::new();
        let mut allow = |chooser: &mut Self, some: &Set, others: &Set, pending: &mut Vec<(usize, usize)>| {
            for i in some.iter() {
                chooser.step(n / 64 + 1)?;
                out[i].add_each(others, |j| pending.push((i, j)));
            }
            Ok::<(), Error>(())
        };
        allow(self, &order.first, &order.first, &mut pending)?;
        while let Some((i, j)) = pending.pop() {
            let [a, b] = [i, j].map(|place| grammar.places[place].term);
            if self.meeting(a, b)?.is_shared {
                allow(self, &order.next[i], &order.next[j], &mut pending)?;
            }
        }
        Ok(out)
    }

    /// Writes the grammar in Lark.
    fn lark(&self, grammar: &Grammar) -> String {
        let (mut terminals, mut names) = (String::new(), HashMap::new());
        for place in &grammar.places {
            let Term { regex, traits, .. } = &self.terms[place.term];
            let number = names.len();
            names.entry(place.term).or_insert_with(|| {
                let not_empty = if traits.is_optional { " & /(?s:.+)/" } else { "" };
                terminals.push_str(&format!("T{number}: /{regex}/{not_empty}\n"));
                format!("T{number}{}", if traits.is_optional { "?" } else { "" })
            });
        }
        let name = |place: usize| names[&grammar.places[place].term].clone();
        let mut out = format!("start: {}\n", rule_name("root"));
        for (rule, tree) in &grammar.trees {
            out.push_str(&format!("{}: {}\n", rule_name(self.names[*rule]), self.written(tree, &name)));
        }
        out + &terminals
    }

    fn written(&self, tree: &Tree, name: &impl Fn(usize) -> String) -> String {
        let each = |parts: &[Tree], between: &str| {
            parts.iter().map(|part| self.written(part, name)).collect::<Vec<_>>().join(between)
        };
        match tree {
            Tree::Lexeme(place) => name(*place),
            Tree::Rule(rule) => rule_name(self.names[*rule]),
            Tree::All(parts) if parts.is_empty() => "\"\"".to_owned(),
            Tree::All(parts) => each(parts, " "),
            Tree::Any(parts) => format!("({})", each(parts, " | ")),
            Tree::Repeat(inner, times) => format!("({}){}", self.written(inner, name), times.text),
        }
    }
}

fn too_long() -> Error {
    Error::TooComplex(format!("the GBNF grammar becomes expressions of more than {MAX_REGEX} bytes"))
}

fn too_complex() -> Error {
    Error::TooComplex(format!("the GBNF grammar needs more than {MAX_STEPS} steps to compile"))
}

/// Rule names in Lark are in lower case, without dashes.
fn rule_name(name: &str) -> String {
    let bytes = name.bytes().map(|b| {
        if b.is_ascii_lowercase() || b.is_ascii_digit() { char::from(b).to_string() } else { format!("_{b:02x}_") }
    });
    format!("r_{}", bytes.collect::<String>())
}
