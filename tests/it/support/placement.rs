//! Expert placement as text, for programs that take one on their command line.

use realizar::engine::{Copied, Placement};

/// Parses "experts=auto", "experts=cpu" (all), "experts=cpu:N" (the first N layers with experts), "experts=cpu:A-B"
/// (layers A to B) or "experts=gpu:BYTES", each optionally followed by ",copied=ROWS" or ",copied=never".
pub fn placement(text: &str) -> Option<(Placement, Copied)> {
    let (place, copied) = match text.split_once(",copied=") {
        None => (text, Copied::Measured),
        Some((place, "never")) => (place, Copied::Never),
        Some((place, rows)) => (place, Copied::From(rows.parse().ok()?)),
    };
    let place = place.strip_prefix("experts=")?;
    let placement = match place.split_once(':') {
        None if place == "auto" => Placement::Auto,
        None if place == "cpu" => Placement::Host { first: 0, n: None },
        Some(("gpu", bytes)) => Placement::Bytes(bytes.parse().ok()?),
        Some(("cpu", layers)) => match layers.split_once('-') {
            None => Placement::Host { first: 0, n: Some(layers.parse().ok()?) },
            Some((first, last)) => {
                let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
                Placement::Host { first, n: Some(last.checked_sub(first)?.checked_add(1)?) }
            }
        },
        _ => return None,
    };
    Some((placement, copied))
}
