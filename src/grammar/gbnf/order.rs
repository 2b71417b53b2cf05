//! The order of lexemes in a GBNF grammar: which may begin a text, and which may follow each other.

use std::collections::{BTreeMap, HashSet};

use super::rules::Times;

/// A rule in terms of lexemes.
pub enum Tree<'r> {
    /// The place of a lexeme.
    Lexeme(usize),
    Rule(usize),
    All(Vec<Tree<'r>>),
    Any(Vec<Tree<'r>>),
    Repeat(Box<Tree<'r>>, &'r Times),
}

/// Properties of the lexeme at a place.
#[derive(Clone, Copy)]
pub struct Traits {
    /// True if it matches the empty text.
    pub is_optional: bool,
    /// True if the concatenation of two matches is a match.
    pub is_closed: bool,
}

/// A set of places.
#[derive(Clone)]
pub struct Set(Vec<u64>);

impl Set {
    pub fn new(n: usize) -> Set {
        Set(vec![0; n.div_ceil(64)])
    }

    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    fn insert(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn without(&self, place: usize) -> Set {
        let mut out = self.clone();
        out.0[place / 64] &= !(1 << (place % 64));
        out
    }

    fn with(&self, other: &Set) -> Set {
        let mut out = self.clone();
        out.add(other);
        out
    }

    /// Adds the places of another set. Returns true if some are new.
    fn add(&mut self, other: &Set) -> bool {
        let mut has_changed = false;
        self.add_each(other, |_| has_changed = true);
        has_changed
    }

    /// Adds the places of another set, and calls `each` for the new ones.
    pub fn add_each(&mut self, other: &Set, mut each: impl FnMut(usize)) {
        for (i, (bits, other)) in self.0.iter_mut().zip(&other.0).enumerate() {
            let mut new = other & !*bits;
            *bits |= new;
            while new != 0 {
                each(i * 64 + new.trailing_zeros() as usize);
                new &= new - 1;
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0
            .iter()
            .enumerate()
            .flat_map(|(i, bits)| (0..64).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| i * 64 + bit))
    }
}

/// The order of lexemes.
pub struct Order {
    /// The places that may begin a text.
    pub first: Set,
    /// The places that may follow each place.
    pub next: Vec<Set>,
    /// Like `next`, without a place following itself if one longer lexeme covers both.
    pub separate: Vec<Set>,
}

/// Computes the order of lexemes. Subtracts the sizes of united sets from `left`; `None` if that is not enough.
pub fn order(trees: &BTreeMap<usize, Tree<'_>>, root: usize, traits: &[Traits], left: &mut usize) -> Option<Order> {
    let n = traits.len();
    let sets = || trees.keys().map(|rule| (*rule, Set::new(n))).collect::<BTreeMap<_, _>>();
    let order = Order { first: Set::new(n), next: vec![Set::new(n); n], separate: vec![Set::new(n); n] };
    *left = left.checked_sub(2 * n * (n / 64 + 1))?;
    let mut finder = Finder { trees, traits, left, empty: HashSet::new(), first: sets(), follow: sets(), order };
    while finder.find_first()? {}
    while finder.find_next()? {}
    let first = finder.first[&root].clone();
    Some(Order { first, ..finder.order })
}

struct Finder<'t> {
    trees: &'t BTreeMap<usize, Tree<'t>>,
    traits: &'t [Traits],
    left: &'t mut usize,
    /// Rules that match the empty text.
    empty: HashSet<usize>,
    first: BTreeMap<usize, Set>,
    follow: BTreeMap<usize, Set>,
    order: Order,
}

impl<'t> Finder<'t> {
    fn step(&mut self) -> Option<()> {
        *self.left = self.left.checked_sub(self.traits.len() / 64 + 1)?;
        Some(())
    }

    fn is_empty(&self, tree: &Tree) -> bool {
        match tree {
            Tree::Lexeme(place) => self.traits[*place].is_optional,
            Tree::Rule(rule) => self.empty.contains(rule),
            Tree::All(parts) => parts.iter().all(|part| self.is_empty(part)),
            Tree::Any(parts) => parts.iter().any(|part| self.is_empty(part)),
            Tree::Repeat(inner, count) => count.least == 0 || self.is_empty(inner),
        }
    }

    /// Returns true if something is new.
    fn find_first(&mut self) -> Option<bool> {
        let mut has_changed = false;
        for (rule, tree) in self.trees {
            if self.is_empty(tree) {
                has_changed |= self.empty.insert(*rule);
            }
            let first = self.first_of(tree)?;
            has_changed |= self.first.get_mut(rule)?.add(&first);
        }
        Some(has_changed)
    }

    fn first_of(&mut self, tree: &Tree) -> Option<Set> {
        self.step()?;
        let mut out = Set::new(self.traits.len());
        match tree {
            Tree::Lexeme(place) => out.insert(*place),
            Tree::Rule(rule) => _ = out.add(&self.first[rule]),
            Tree::All(parts) => {
                for part in parts {
                    out.add(&self.first_of(part)?);
                    if !self.is_empty(part) {
                        break;
                    }
                }
            }
            Tree::Any(parts) => {
                for part in parts {
                    out.add(&self.first_of(part)?);
                }
            }
            Tree::Repeat(inner, _) => out = self.first_of(inner)?,
        }
        Some(out)
    }

    /// Returns true if something is new.
    fn find_next(&mut self) -> Option<bool> {
        let before = self.follow.clone();
        for (rule, tree) in self.trees {
            let after = self.follow[rule].clone();
            self.visit(tree, &after, Some(*rule))?;
        }
        Some(self.follow.iter().zip(&before).any(|((_, after), (_, before))| after.0 != before.0))
    }

    /// Records what follows the lexemes of a part. `rule`: the rule of which the part is an alternative.
    fn visit(&mut self, tree: &'t Tree<'t>, after: &Set, rule: Option<usize>) -> Option<()> {
        self.step()?;
        match tree {
            Tree::Lexeme(place) => self.note(*place, after, after),
            Tree::Rule(rule) => _ = self.follow.get_mut(rule)?.add(after),
            Tree::All(parts) => {
                let mut after = after.clone();
                for (i, part) in parts.iter().enumerate().rev() {
                    // A rule that is a lexeme followed by itself is a repetition.
                    match (part, &parts[i + 1..]) {
                        (Tree::Lexeme(place), [last]) if rule.is_some_and(|rule| is_rule(last, rule)) && i == 0 => {
                            self.note(*place, &after, &after.without(*place));
                        }
                        _ => self.visit(part, &after, None)?,
                    }
                    let first = self.first_of(part)?;
                    if !self.is_empty(part) {
                        after = Set::new(self.traits.len());
                    }
                    after.add(&first);
                }
            }
            Tree::Any(parts) => {
                for part in parts {
                    self.visit(part, after, rule)?;
                }
            }
            Tree::Repeat(inner, Times { most: Some(0 | 1), .. }) => self.visit(inner, after, rule)?,
            Tree::Repeat(inner, count) => {
                let again = self.first_of(inner)?;
                match count.least {
                    0 | 1 => self.visit_repeated(inner, after, &again, &mut HashSet::new())?,
                    _ => self.visit(inner, &after.with(&again), None)?,
                }
            }
        }
        Some(())
    }

    /// Records what follows the lexemes of a repeated part. `again`: the lexemes that begin the part.
    fn visit_repeated(
        &mut self,
        tree: &'t Tree<'t>,
        after: &Set,
        again: &Set,
        seen: &mut HashSet<usize>,
    ) -> Option<()> {
        match tree {
            Tree::Lexeme(place) => {
                self.step()?;
                self.note(*place, &after.with(again), &after.with(&again.without(*place)));
            }
            Tree::Any(parts) => {
                for part in parts {
                    self.visit_repeated(part, after, again, seen)?;
                }
            }
            Tree::Rule(rule) => {
                if seen.insert(*rule) {
                    self.visit_repeated(self.trees.get(rule)?, after, again, seen)?;
                }
            }
            Tree::All(_) | Tree::Repeat(..) => self.visit(tree, &after.with(again), None)?,
        }
        Some(())
    }

    fn note(&mut self, place: usize, next: &Set, separate: &Set) {
        self.order.next[place].add(next);
        self.order.separate[place].add(if self.traits[place].is_closed { separate } else { next });
    }
}

fn is_rule(tree: &Tree, rule: usize) -> bool {
    match tree {
        Tree::Rule(other) => *other == rule,
        Tree::Repeat(inner, Times { most: Some(1), .. }) => is_rule(inner, rule),
        Tree::Lexeme(_) | Tree::All(_) | Tree::Any(_) | Tree::Repeat(..) => false,
    }
}
