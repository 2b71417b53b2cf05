//! Writes the failure statuses in the languages of bindings: names, numbers and comments. A new status of the header
//! appears in all languages.

use super::bindings::Header;
use super::options::{camel, plain, wrapped};

/// A function that writes the statuses in a language.
type Writer = fn(&[Status]) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: [(&str, Writer); 7] = [
    ("bindings/python/realizar/_errors.py", python),
    ("bindings/java/realizar/RealizarException.java", java),
    ("bindings/csharp/Realizar/Status.cs", csharp),
    ("bindings/swift/Sources/Realizar/Codes.swift", swift),
    ("bindings/go/statuses.go", go),
    ("bindings/js/statuses.js", js),
    ("bindings/js/statuses.d.ts", js_types),
];

const BEGIN: &str = "RZ_ERR_";

/// Comments that replace the header's, which use terms of C.
const DOCS: [(&str, &str); 4] = [
    ("INVALID_ARGUMENT", "An argument is missing, out of range, not UTF-8, or otherwise never valid."),
    ("BUFFER_TOO_SMALL", "The buffer is too small."),
    ("CANCELLED", "A cancel was fired, or a callback asked to stop."),
    (
        "POISONED",
        "An earlier call on this object ended with an internal error, whose message this error repeats. Close the object.",
    ),
];

/// Names of exceptions in Python that differ from those of the statuses.
const PYTHON_NAMES: [(&str, &str); 5] = [
    ("IO", "FileError"),
    ("FORMAT", "FormatError"),
    ("VERSION", "VersionError"),
    ("DEADLINE", "DeadlineExceeded"),
    ("RESOURCES", "ResourcesRefused"),
];

/// Built-in exceptions of Python that are additional base classes.
const PYTHON_BASES: [(&str, &str); 10] = [
    ("INVALID_ARGUMENT", "ValueError"),
    ("OUT_OF_MEMORY", "MemoryError"),
    ("DEVICE_OUT_OF_MEMORY", "MemoryError"),
    ("IO", "OSError"),
    ("FORMAT", "ValueError"),
    ("UNSUPPORTED", "NotImplementedError"),
    ("DEADLINE", "TimeoutError"),
    ("MISMATCH", "ValueError"),
    ("NOT_FOUND", "LookupError"),
    ("RESOURCES", "OSError"),
];

/// A status of a failed call.
pub struct Status {
    /// The constant's name without its prefix, such as "OUT_OF_MEMORY".
    name: String,
    value: String,
    doc: String,
}

/// Returns the statuses in the order of the header.
pub fn all(header: &Header) -> Vec<Status> {
    let status = |constant: &super::bindings::Constant| {
        let name = constant.name.strip_prefix(BEGIN)?;
        let doc = found(&DOCS, name).map_or_else(|| plain(constant.doc).replace('`', ""), str::to_owned);
        assert!(
            !doc.is_empty(),
            "{} has no comment without terms of C; DOCS of generators/statuses.rs needs one",
            constant.name
        );
        Some(Status { name: name.to_owned(), value: constant.value.to_owned(), doc })
    };
    header.constants.iter().filter_map(status).collect()
}

impl Status {
    fn constant(&self) -> String {
        format!("{BEGIN}{}", self.name)
    }

    /// Returns `outOfMemory` for `OUT_OF_MEMORY`.
    fn camel(&self) -> String {
        camel(&self.name.to_lowercase())
    }

    /// Returns `OutOfMemory` for `OUT_OF_MEMORY`, and `IO` unchanged.
    fn pascal(&self) -> String {
        let camel = self.camel();
        if self.name.len() == 2 { self.name.clone() } else { camel[..1].to_uppercase() + &camel[1..] }
    }

    fn python(&self) -> String {
        found(&PYTHON_NAMES, &self.name).map_or_else(|| self.pascal(), str::to_owned)
    }
}

fn found(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|(of, _)| *of == name).map(|(_, found)| *found)
}

/// Returns a comment whose lines begin with `begin`.
fn comment(status: &Status, begin: &str) -> String {
    wrapped(&status.doc, begin).join("\n") + "\n"
}

/// Returns a comment for Java.
fn block(status: &Status, begin: &str) -> String {
    let lines = wrapped(&status.doc, &format!("{begin} * ")).join("\n");
    format!("{begin}/** {} */\n", lines.trim_start().trim_start_matches("* "))
}

const PYTHON_HEAD: &str = r#""""Exceptions: one for each status, derived from the exception that Python has for it where there is one. The build writes
this file: `make header`."""

from typing import Dict, Type

from . import _header as _c


class Error(Exception):
    """A call failed. `code` is its status, and `name` the name of the status, such as "RZ_ERR_FORMAT"; an error that Python finds ahead of
    the call has both too. `system_code` is the `errno` of a FileError, else 0. `needed` is the capacity in tokens that would have been
    enough, of a ContextFull; else 0."""

    code = 0
    name = ""
    system_code = 0
    needed = 0
"#;

const PYTHON_TAIL: &str = r#"
for _name, _code in vars(_c).items():
    if _name.startswith("RZ_ERR_"):
        BY_CODE[_code].code, BY_CODE[_code].name = _code, _name
"#;

fn python(statuses: &[Status]) -> String {
    let mut text = PYTHON_HEAD.to_owned();
    for status in statuses {
        let base = found(&PYTHON_BASES, &status.name).map_or_else(String::new, |base| format!(", {base}"));
        let doc = comment(status, "    ");
        text += &format!("\n\nclass {}(Error{base}):\n    \"\"\"{}\"\"\"\n", status.python(), doc.trim());
    }
    text += "\n\nBY_CODE: Dict[int, Type[Error]] = {\n";
    for status in statuses {
        text += &format!("    _c.{}: {},\n", status.constant(), status.python());
    }
    text += "}\n\n__all__ = [\n    \"Error\",\n";
    for status in statuses {
        text += &format!("    \"{}\",\n", status.python());
    }
    text + "]\n" + PYTHON_TAIL
}

const JAVA_HEAD: &str = "\
package realizar;

import java.util.regex.Pattern;

/** A call of the library failed. One that was cancelled is a {@link java.util.concurrent.CancellationException}
 *  instead. The build writes this file: make header. */
public final class RealizarException extends RuntimeException {
    /** Outcomes of calls that failed. */
    public enum Status {
";

const JAVA_TAIL: &str = "        /** A status that this package does not know. */
        UNKNOWN(0);

        private final int code;

        Status(int code) {
            this.code = code;
        }

        static Status of(int code) {
            for (Status status : values()) if (status.code == code) return status;
            return UNKNOWN;
        }
    }

    private static final Pattern FIELD = Pattern.compile(\"\\\\brz_[a-z]+_params\\\\.([a-z]+(?:_[a-z]+)*)\");

    /** The reason of the failure. */
    private final Status status;
    /** The name of the status in the library. */
    private final String name;
    /** The number of the system's error, else 0. */
    private final int systemCode;
    /** The capacity that would have been enough, else 0. */
    private final long needed;

    RealizarException(int code, String message, int systemCode) {
        this(code, message, systemCode, 0);
    }

    RealizarException(int code, String message, int systemCode, long needed) {
        super(named(message));
        status = Status.of(code);
        name = Native.PLATFORM.text(Header.rz_status_name(code));
        this.systemCode = systemCode;
        this.needed = needed;
    }

    /** A message of the library, in which fields of its structs have the names of options. */
    private static String named(String message) {
        var all = new StringBuilder();
        var fields = FIELD.matcher(message);
        int at = 0;
        for (; fields.find(); at = fields.end()) {
            all.append(message, at, fields.start());
            String[] words = fields.group(1).replace(\"biases\", \"logit_bias\").split(\"_\");
            all.append(words[0]);
            for (int i = 1; i < words.length; i++) all.append(Character.toUpperCase(words[i].charAt(0))).append(words[i].substring(1));
        }
        return all.append(message.substring(at)).toString();
    }

    /** The name of the status in the library, such as \"RZ_ERR_FORMAT\". */
    public String name() {
        return name;
    }

    /** The number of the system's error, else 0. */
    public int systemCode() {
        return systemCode;
    }

    /** For {@link Status#CONTEXT_FULL} the capacity in tokens that would have been enough, else 0. */
    public long needed() {
        return needed;
    }

    /** The outcome, of which UNKNOWN stands for those that this class has no name of. */
    public Status status() {
        return status;
    }
}
";

fn java(statuses: &[Status]) -> String {
    let mut text = JAVA_HEAD.to_owned();
    for status in statuses {
        text += &block(status, "        ");
        text += &format!("        {}(Header.{}),\n", status.name, status.constant());
    }
    text + JAVA_TAIL
}

const CSHARP_HEAD: &str = "\
// The statuses that a call can fail with. The build writes this file: make header.
namespace Realizar
{
    /// <summary>Outcomes of calls that failed.</summary>
    public enum Status
    {
";

fn csharp(statuses: &[Status]) -> String {
    let mut text = CSHARP_HEAD.to_owned();
    for status in statuses {
        let doc = format!("<summary>{}</summary>", status.doc);
        text += &format!("{}\n", wrapped(&doc, "        /// ").join("\n"));
        text += &format!("        {} = Native.{},\n", status.pascal(), status.constant());
    }
    text + "    }\n}\n"
}

fn swift(statuses: &[Status]) -> String {
    let mut text = "// The statuses that a call can fail with. The build writes this file: make header.\nimport \
        CRealizar\n\nextension RealizarError.Code {\n"
        .to_owned();
    for status in statuses {
        text += &comment(status, "    /// ");
        let (name, constant) = (status.camel(), status.constant());
        text += &format!("    public static let {name} = Self(rawValue: {constant}.rawValue)\n");
    }
    text + "}\n"
}

const GO_HEAD: &str = "\
// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar

// The statuses that a call can fail with.
const (
";

fn go(statuses: &[Status]) -> String {
    let mut text = GO_HEAD.to_owned();
    for status in statuses {
        text += &comment(status, "\t// ");
        text += &format!("\tErr{} Code = rz_ERR_{}\n", status.pascal(), status.name);
    }
    text + ")\n"
}

fn js(statuses: &[Status]) -> String {
    let mut text =
        "// The numbers of the statuses that a call can fail with. The build writes this file: make header.\n\"use \
        strict\";\n\nmodule.exports = {\n"
            .to_owned();
    for status in statuses {
        text += &format!("  {}: {},\n", status.constant(), status.value);
    }
    text + "};\n"
}

fn js_types(statuses: &[Status]) -> String {
    let mut text =
        "// The statuses that a call can fail with. The build writes this file: make header.\n\n/** Names of \
        statuses.\n *\n"
            .to_owned();
    for status in statuses {
        text += &wrapped(&format!("- {}: {}", status.constant(), status.doc), " * ").join("\n");
        text += "\n";
    }
    let names: Vec<String> = statuses.iter().map(|status| format!("  | \"{}\"", status.constant())).collect();
    text + &format!(" */\nexport type StatusName =\n{}\n  | \"RZ_UNKNOWN\";\n", names.join("\n"))
}
