//! The options in Python: a dataclass of sampling, typed dictionaries, and tables for checks.

use super::{Group, Kind, Setting, choice_groups, literal, wrapped};

const PYTHON_HEAD: &str = r#""""The options of calls: their names, types and meanings. The build writes this file: `make header`."""

from dataclasses import dataclass, field
from typing import Literal, Mapping, Optional, Sequence, TypedDict

from . import _header as _c

"#;

pub fn python(groups: &[Group]) -> String {
    let mut text = PYTHON_HEAD.to_owned();
    let first = &groups[0];
    for begin in choice_groups() {
        let names: Vec<String> = first.choices(begin).map(|(name, _)| format!("\"{name}\"")).collect();
        text += &format!("{} = Literal[{}]\n", literal(begin), names.join(", "));
    }
    text += "\n# The switches and names that fields of structs are given as.\n";
    for group in groups {
        let choices = group.settings.iter().filter_map(|setting| match setting.kind {
            Kind::Choice(begin) => {
                let names = group.choices(begin).map(|(name, constant)| format!("\"{name}\": _c.{constant}"));
                Some(format!("\"{}\": {{{}}}", setting.name, names.collect::<Vec<_>>().join(", ")))
            }
            Kind::Whole
            | Kind::OrNone
            | Kind::Real
            | Kind::Flag(_)
            | Kind::Sequences
            | Kind::Biases
            | Kind::Choices(_) => None,
        });
        let flags = group.settings.iter().filter_map(|setting| match setting.kind {
            Kind::Flag(constant) => Some(format!("\"{}\": _c.{constant}", python_name(&setting.name))),
            Kind::Whole
            | Kind::OrNone
            | Kind::Real
            | Kind::Choice(_)
            | Kind::Sequences
            | Kind::Biases
            | Kind::Choices(_) => None,
        });
        let or_none = group.settings.iter().filter(|setting| setting.kind == Kind::OrNone);
        let or_none = or_none.map(|setting| format!("\"{}\"", setting.name)).collect::<Vec<_>>().join(", ");
        let name = group.structure;
        text += &format!("_c.{name}._choices_ = {{{}}}\n", choices.collect::<Vec<_>>().join(", "));
        text += &format!("_c.{name}._flags_ = {{{}}}\n", flags.collect::<Vec<_>>().join(", "));
        text += &format!("_c.{name}._or_none_ = {{{or_none}}}\n").replace("{}", "set()");
    }
    for group in groups {
        let is_sampling = group.name == "Sampling";
        text += "\n\n";
        text += &match is_sampling {
            true => "@dataclass(frozen=True)\nclass Sampling:\n    \"\"\"Sampling parameters. Zero turns a feature off; all \
                zeros choose the most likely token (greedy decoding).\"\"\"\n\n"
                .to_owned(),
            false => format!("class {}Options(TypedDict, total=False):\n", group.name),
        };
        for setting in &group.settings {
            let name = python_name(&setting.name);
            let (kind, default) = python_type(setting);
            text += &match is_sampling {
                true => format!("    {name}: {kind} = {default}\n"),
                false => format!("    {name}: {kind}\n"),
            };
            let doc = group.doc(setting, python_name).replace("absent:", "None:");
            if !doc.is_empty() {
                text += &format!("    \"\"\"{}\"\"\"\n", wrapped(&doc, "    ").join("\n").trim_start());
            }
        }
    }
    text
}

/// Keywords of the language, and names that are longer there.
fn python_name(name: &str) -> String {
    match name {
        "biases" => "logit_bias".to_owned(),
        "continue" => "resume".to_owned(),
        other => other.to_owned(),
    }
}

fn python_type(setting: &Setting) -> (String, &'static str) {
    match setting.kind {
        Kind::Whole => ("int".to_owned(), "0"),
        Kind::OrNone => ("Optional[int]".to_owned(), "None"),
        Kind::Real => ("float".to_owned(), "0.0"),
        Kind::Flag(_) => ("bool".to_owned(), "False"),
        Kind::Choice(begin) => (literal(begin), "None"),
        Kind::Choices(begin) => (format!("Sequence[{}]", literal(begin)), "()"),
        Kind::Sequences => ("Sequence[Sequence[int]]".to_owned(), "()"),
        Kind::Biases => ("Mapping[int, float]".to_owned(), "field(default_factory=dict)"),
    }
}
