//! String formats: formats that the parser supports, and patterns for formats in which it differs from the RFC.

/// Formats of JSON Schema that the parser supports, or that `pattern_of` writes.
const WRITTEN: [&str; 10] =
    ["date-time", "date", "time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"];

/// Formats of JSON Schema without support.
#[rustfmt::skip]
const NOT_WRITTEN: [&str; 9] = [
    "idn-email", "idn-hostname", "uri-reference", "iri", "iri-reference", "uri-template", "json-pointer",
    "relative-json-pointer", "regex",
];

/// How a grammar handles a format.
pub enum Format {
    /// Supported by the parser.
    Known,
    /// An equivalent pattern.
    Pattern(String),
    /// Defined by JSON Schema, but unsupported.
    NotWritten,
    /// An annotation: JSON Schema 2020-12, validation, section 7.2, lets validators ignore formats that it does not
    /// define.
    Annotation,
}

/// Looks up a format by its name.
pub fn find(name: &str) -> Format {
    match pattern_of(name) {
        Some(pattern) => Format::Pattern(pattern),
        None if WRITTEN.contains(&name) => Format::Known,
        None if NOT_WRITTEN.contains(&name) => Format::NotWritten,
        None => Format::Annotation,
    }
}

/// Returns a pattern for an RFC 3339 date or time, without leap seconds (which depend on the day) and without the year
/// 0, or for an RFC 4291 address (section 2.2).
fn pattern_of(name: &str) -> Option<String> {
    let long = "(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])";
    let short = "(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)";
    let year = "(?:[0-9]{3}[1-9]|[0-9]{2}[1-9]0|[0-9][1-9]00|[1-9]000)";
    let leap_year = "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)";
    let date = format!("(?:{year}-(?:{long}|{short}|02-(?:0[1-9]|1[0-9]|2[0-8]))|{leap_year}-02-29)");
    let time = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?(?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
    match name {
        "date" => Some(format!("^{date}$")),
        "time" => Some(format!("^{time}$")),
        "date-time" => Some(format!("^{date}T{time}$")),
        "ipv6" => Some(ipv6()),
        _ => None,
    }
}

/// Eight groups. An IPv4 address may replace the last two, and one or more consecutive groups may be omitted.
fn ipv6() -> String {
    let group = "[0-9a-fA-F]{1,4}";
    let byte = "(?:25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])";
    let tail = format!("(?:{group}:{group}|(?:{byte}\\.){{3}}{byte})");
    let mut forms = vec![format!("(?:{group}:){{6}}{tail}")];
    for before in 0..=7usize {
        let head = match before {
            0 => String::new(),
            1 => group.to_owned(),
            n => format!("(?:{group}:){{{}}}{group}", n - 1),
        };
        // At most seven groups are written out.
        let left = 7 - before;
        let mut ends = vec![String::new()];
        if left >= 1 {
            ends.push(group.to_owned());
        }
        if left >= 2 {
            ends.push(format!("(?:{group}:){{0,{}}}{tail}", left - 2));
        }
        forms.push(format!("{head}::(?:{})", ends.join("|")));
    }
    format!("^(?:{})$", forms.join("|"))
}
