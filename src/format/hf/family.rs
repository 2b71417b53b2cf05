//! The supported model families, one row each: how their configurations and checkpoints differ.

mod common;
mod deepseek;
mod encoder;
mod experts;
mod gemma;
mod gpt;
mod heads;
mod hybrid;
mod kimi;
mod lfm;
mod llama;
mod qwen;
mod rwkv;
mod streams;
mod t5;

pub(super) use common::PLAIN;

use super::translator::Family;

const FAMILIES: &[&[Family]] = &[
    llama::ALL,
    qwen::ALL,
    gemma::ALL,
    deepseek::ALL,
    experts::ALL,
    streams::ALL,
    kimi::ALL,
    hybrid::ALL,
    lfm::ALL,
    rwkv::ALL,
    encoder::ALL,
    gpt::ALL,
    t5::ALL,
    heads::ALL,
];

/// Returns the family of an architecture; if there are several, they name their matrices alike.
pub(super) fn of_architecture(arch: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().flatten().find(|family| family.arch == arch)
}

pub(super) fn family(model_type: &str) -> Option<&'static Family> {
    FAMILIES.iter().copied().flatten().find(|family| family.model_types.contains(&model_type))
}

#[cfg(test)]
#[test]
fn tables_of_families_parse() {
    use super::lists::checks;

    for family in FAMILIES.iter().copied().flatten() {
        let found = checks::numbers(family.defaults).and(checks::names(family.effectless));
        assert_eq!(found, Ok(()), "{:?}", family.model_types);
    }
}
