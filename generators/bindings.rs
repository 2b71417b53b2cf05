//! Writes the header's constants, structs and functions in the languages of bindings, under the names of the header.
//!
use std::collections::BTreeSet;

use super::header::{Group, Kind, Signature, Value};

/// Groups of the header that other languages do not need: memory, and kernels for engines in C or Rust.
const UNBOUND: [&str; 2] = ["allocator", "kernels"];

/// A function that writes the header in a language.
type Writer = fn(&Header) -> String;

/// Paths of the generated files, relative to the root.
pub const FILES: [(&str, Writer); 10] = [
    ("bindings/python/realizar/_header.py", python),
    ("bindings/java/realizar/Header.java", java),
    ("bindings/java/realizar/Functions.java", java_functions),
    ("bindings/java/realizar/FfmFunctions.java", java_ffm),
    ("bindings/java/realizar/JniFunctions.java", java_jni),
    ("bindings/java/jni/functions.c", java_c),
    ("bindings/csharp/Realizar/Header.cs", csharp),
    ("bindings/go/header.go", go),
    ("bindings/go/header_cgo.go", go_cgo),
    ("bindings/go/header_nocgo.go", go_nocgo),
];

/// Types of C, with their types in Python, Java, C# and Go.
const NUMBERS: [(&str, [&str; 4]); 9] = [
    ("char", ["c_char", "JAVA_BYTE", "byte", "byte"]),
    ("uint8_t", ["c_uint8", "JAVA_BYTE", "byte", "byte"]),
    ("int32_t", ["c_int32", "JAVA_INT", "int", "int32"]),
    ("rz_status", ["c_int32", "JAVA_INT", "int", "int32"]),
    ("uint32_t", ["c_uint32", "JAVA_INT", "uint", "uint32"]),
    ("uint64_t", ["c_uint64", "JAVA_LONG", "ulong", "uint64"]),
    ("size_t", ["c_size_t", "JAVA_LONG", "UIntPtr", "uintptr"]),
    ("float", ["c_float", "JAVA_FLOAT", "float", "float32"]),
    ("double", ["c_double", "JAVA_DOUBLE", "double", "float64"]),
];

const PYTHON: usize = 0;
const JAVA: usize = 1;
const CSHARP: usize = 2;
const GO: usize = 3;

pub struct Constant<'a> {
    pub name: &'a str,
    pub value: &'a str,
    pub doc: &'a str,
}

/// Declarations of the header that other languages need.
#[derive(Default)]
pub struct Header<'a> {
    pub constants: Vec<Constant<'a>>,
    /// Opaque structs, which callers use only by pointer.
    pub handles: BTreeSet<&'a str>,
    pub structs: Vec<(&'a str, &'a [Value])>,
    /// Comments of the structs.
    docs: Vec<(&'a str, &'a str)>,
    pub functions: Vec<&'a Signature>,
    /// Types of functions.
    callbacks: Vec<&'a Signature>,
}

impl<'a> Header<'a> {
    pub fn of(groups: &'a [Group]) -> Self {
        let mut header = Self::default();
        for item in groups.iter().filter(|group| !UNBOUND.contains(&group.file.as_str())).flat_map(|group| &group.items)
        {
            match &item.kind {
                Kind::Constant(value) if !item.name.starts_with("RZ_VERSION_") => {
                    header.constants.push(Constant { name: &item.name, value, doc: &item.doc });
                }
                Kind::Handle => _ = header.handles.insert(&item.name),
                Kind::Struct(fields) => {
                    header.structs.push((&item.name, fields));
                    header.docs.push((&item.name, &item.doc));
                }
                Kind::Callback(signature) => header.callbacks.push(signature),
                Kind::Function(signature) => header.functions.push(signature),
                // For other names, languages have their own types.
                Kind::Constant(_) | Kind::Alias(_) => {}
            }
        }
        header.check();
        header
    }

    /// Returns the comment of a struct.
    pub fn doc(&self, structure: &str) -> &'a str {
        self.docs.iter().find(|(name, _)| *name == structure).expect("a struct").1
    }

    /// Panics if a constant or a type has no translation.
    fn check(&self) {
        for Constant { name, value, .. } in &self.constants {
            assert!(value.parse::<i32>().is_ok() || value.starts_with("0x"), "{name} is {value}, which is no number");
        }
        let fields = self.structs.iter().flat_map(|(_, fields)| *fields);
        let functions = self.functions.iter().chain(&self.callbacks);
        let parameters = functions.flat_map(|function| function.parameters.iter().chain([&function.result]));
        for value in fields.chain(parameters) {
            let base = value.base.as_str();
            let is_known = NUMBERS.iter().any(|(number, _)| *number == base)
                || self.structs.iter().any(|(name, _)| *name == base)
                || self.callbacks.iter().any(|callback| callback.name == base)
                || self.handles.contains(base)
                || base == "void";
            assert!(is_known, "{} is of type {base}, which has no translation", value.name);
        }
    }

    /// True if the value points to an opaque struct.
    pub fn is_handle(&self, value: &Value) -> bool {
        self.handles.contains(value.base.as_str())
    }

    /// Returns the names of opaque structs.
    pub fn handles(&self) -> Vec<&'a str> {
        self.handles.iter().copied().collect()
    }
}

impl Value {
    /// Returns the base type as a number or a struct of a language.
    fn plain(&self, language: usize) -> &str {
        let number = NUMBERS.iter().find(|(number, _)| *number == self.base);
        number.map_or(&self.base, |(_, names)| names[language])
    }
}

/// True if a constant's value needs 64 bits.
fn is_long(value: &str) -> bool {
    value.len() > "0xFFFFFFFF".len()
}

const PYTHON_HEAD: &str = r#""""The constants, structs and functions of realizar.h under its names. The build writes this file: `make header`."""

import reprlib
from contextlib import suppress
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_float, c_int32, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p, sizeof
from difflib import get_close_matches
from math import isinf
from numbers import Real
from operator import index
from sys import float_info
from typing import Any, Dict, Iterable, Mapping, Set

from numpy import bool_


# The least and the greatest of numbers that have a bound.
RANGES = {c_uint8: (0, 0xFF), c_uint32: (0, 0xFFFFFFFF), c_uint64: (0, 0xFFFFFFFFFFFFFFFF), c_int32: (-0x80000000, 0x7FFFFFFF)}
RANGES[c_size_t] = RANGES[c_uint64 if sizeof(c_size_t) == 8 else c_uint32]
LARGEST = {c_float: 3.4028234663852886e38, c_double: float_info.max}


def whole(value: Any, name: str, kind: Any = c_uint32) -> int:
    """A whole number that fits into a type of C, which would drop the upper bits of another one. A bool is not taken as 0 or 1."""
    least, most = RANGES[kind]
    with suppress(TypeError):
        if not isinstance(value, bool) and least <= index(value) <= most:
            return index(value)
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a whole number from {least} to {most}")


def real(value: Any, name: str, kind: Any = c_double) -> float:
    """A number that may have a fraction, and that does not become infinite in a type of C. A bool is not taken as 0 or 1."""
    from ._errors import InvalidArgument

    if isinstance(value, Real) and not isinstance(value, bool):
        with suppress(OverflowError):
            number = float(value)
            if isinf(number) or abs(number) <= LARGEST[kind]:  # False for NaN
                return number
            if number == number:
                raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be at most {LARGEST[kind]:.7g}")
    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be a number")


def unknown_option(name: str, known: Iterable[str]) -> TypeError:
    """The error for a name of an option that there is not, with the name that is most like it."""
    from ._failures import UnknownOption

    found = get_close_matches(name, known, 1)
    return UnknownOption(f"the option {name} is unknown{f'; the nearest is {found[0]}' if found else ''}")


def switch(value: Any, name: str) -> bool:
    """True or False, also numpy's. Texts such as "no" are refused, which would be true."""
    if isinstance(value, (bool, bool_)):
        return bool(value)
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be True or False")


def choice(value: Any, name: str, numbers: Mapping[str, int]) -> int:
    """The number of a name."""
    if isinstance(value, str) and value in numbers:
        return numbers[value]
    from ._errors import InvalidArgument

    raise InvalidArgument(f"{name} is {reprlib.repr(value)}; it must be one of {', '.join(numbers)}")


class Sized(Structure):
    """A struct that begins with its size. Unknown fields and switches, and values that do not fit, are refused."""

    # The switches that are bits of the field `flags`, the names that fields are given as, and the fields whose 0 is
    # written as RZ_NONE.
    _flags_: "Dict[str, int]" = {}
    _choices_: "Dict[str, Dict[str, int]]" = {}
    _or_none_: "Set[str]" = set()

    def __init__(self, **fields: Any) -> None:
        super().__init__(struct_size=sizeof(type(self)), **fields)

    def __setattr__(self, name: str, value: Any) -> None:
        kinds = {field: kind for field, kind, *_ in self._fields_}
        if name in self._flags_:
            bit = self._flags_[name]
            name, value = "flags", self.flags | bit if switch(value, name) else self.flags & ~bit
        if name not in kinds:
            known = [*self._flags_, *(field for field in kinds if field != "struct_size" and not field.startswith("reserved"))]
            raise unknown_option(name, known)
        kind = kinds[name]
        if name in self._choices_:
            value = choice(value, name, self._choices_[name])
        elif name in self._or_none_ and value is None:
            value = 0
        elif kind in RANGES:
            value = whole(value, name, kind)
            value = RZ_NONE if name in self._or_none_ and value == 0 else value
        elif kind in LARGEST:
            value = real(value, name, kind)
        super().__setattr__(name, value)


"#;

fn python(header: &Header) -> String {
    let mut text = PYTHON_HEAD.to_owned();
    for &Constant { name, value, .. } in &header.constants {
        text += &format!("{name} = {value}\n");
    }
    text += "\n";
    for callback in &header.callbacks {
        // Another parameter has the length of a text; c_char_p would end the text at a NUL.
        let parameters = callback.each(|value| python_type(header, value).replace("c_char_p", "POINTER(c_char)"));
        let result = python_result(header, callback);
        text += &format!("{} = CFUNCTYPE({result}, {parameters})\n", callback.name);
    }
    for &(name, fields) in &header.structs {
        let parent = if fields[0].name == "struct_size" { "Sized" } else { "Structure" };
        text += &format!("\n\nclass {name}({parent}):\n    _fields_ = [\n");
        for field in fields {
            text += &format!("        (\"{}\", {}),\n", field.name, python_type(header, field));
        }
        text += "    ]\n";
    }
    text += "\n\nSTRUCTS = (\n";
    header.structs.iter().for_each(|(name, _)| text += &format!("    {name},\n"));
    text += ")\n\n# Results and parameters.\nFUNCTIONS = {\n";
    for function in &header.functions {
        let parameters = function.parameters.iter().zip(function.parameters.iter().skip(1).map(Some).chain([None]));
        // Buffers are arrays of any kind.
        let types = parameters.map(|(value, next)| match next {
            Some(next) if next.name == "capacity" => "c_void_p".to_owned(),
            _ => python_type(header, value),
        });
        let types = types.collect::<Vec<_>>().join(", ");
        text += &format!("    \"{}\": ({}, [{types}]),\n", function.name, python_result(header, function));
    }
    text + "}\n"
}

fn python_result(header: &Header, function: &Signature) -> String {
    if function.is_void() { "None".to_owned() } else { python_type(header, &function.result) }
}

fn python_type(header: &Header, value: &Value) -> String {
    let (innermost, wrapped) = match value.base.as_str() {
        "void" => ("c_void_p", value.pointers - 1),
        "char" if value.pointers > 0 => ("c_char_p", value.pointers - 1),
        _ if header.is_handle(value) => ("c_void_p", value.pointers - 1),
        _ => (value.plain(PYTHON), value.pointers),
    };
    let kind = "POINTER(".repeat(wrapped) + innermost + &")".repeat(wrapped);
    value.length.as_ref().map_or(kind.clone(), |length| format!("{kind} * {length}"))
}

const JAVA_HEAD: &str = "\
package realizar;

/** The constants, structs and functions of realizar.h under its names. The build writes this file: make header. */
final class Header {
";

fn java(header: &Header) -> String {
    let mut text = JAVA_HEAD.to_owned();
    for &Constant { name, value, .. } in &header.constants {
        let (kind, end) = if is_long(value) { ("long", "L") } else { ("int", "") };
        text += &format!("    static final {kind} {name} = {value}{end};\n");
    }
    for &(name, fields) in &header.structs {
        text += &format!("\n    static final Struct {name} = new Struct(\"{name}\")");
        for field in fields {
            let size = java_size(field);
            let size = field.length.as_ref().map_or(size.clone(), |length| format!("{size} * {length}"));
            text += &format!("\n        .field(\"{}\", {size})", field.name);
        }
        text += ";\n";
    }
    let names = header.structs.iter().map(|(name, _)| format!("\n        {name}")).collect::<Vec<_>>().join(",");
    text += &format!("\n    static final Struct[] STRUCTS = {{{names}}};\n\n");
    for function in &header.functions {
        let (name, result) = (&function.name, java_result(function));
        let parameters = function.each(|value| match java_is_address(value) {
            true => format!("Memory {}", value.name),
            false => format!("{} {}", java_type(value), value.name),
        });
        let address = |value: &Value| if java_is_address(value) { ".address" } else { "" };
        let arguments = function.each(|value| format!("{}{}", value.name, address(value)));
        let call = if function.is_void() { "" } else { "return " };
        text += &format!(
            "    static {result} {name}({parameters}) {{\n        {call}Native.LIBRARY.{name}({arguments});\n    }}\n\n"
        );
    }
    text + "    private Header() {}\n}\n"
}

fn java_functions(header: &Header) -> String {
    let mut text =
        "package realizar;\n\n/** The functions of realizar.h, pointers as numbers: by Ffm or by Jni. The build \
        writes this file: make header. */\ninterface Functions {\n"
            .to_owned();
    for function in &header.functions {
        text += &format!("    {};\n", java_declaration(function));
    }
    text + "}\n"
}

const FFM_HEAD: &str = "\
package realizar;

import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.FunctionDescriptor;
import java.lang.invoke.MethodHandle;

/** The functions by the foreign functions of Java. The build writes this file: make header. */
final class FfmFunctions implements Functions {
";

fn java_ffm(header: &Header) -> String {
    let mut text = FFM_HEAD.to_owned();
    for function in &header.functions {
        let (name, kinds) = (&function.name, function.each(|value| java_layout(value).to_owned()));
        let comma = if kinds.is_empty() { "" } else { ", " };
        let descriptor = match function.is_void() {
            true => format!("ofVoid({kinds})"),
            false => format!("of({}{comma}{kinds})", java_layout(&function.result)),
        };
        text += &format!(
            "    private static final MethodHandle {name} = Ffm.function(\"{name}\", FunctionDescriptor.{descriptor});\n"
        );
    }
    for function in &header.functions {
        let (name, arguments) = (&function.name, function.each(|value| value.name.clone()));
        let call = if function.is_void() { String::new() } else { format!("return ({}) ", java_result(function)) };
        text += &format!(
            "\n    @Override\n    public {} {{\n        try {{\n            {call}{name}.invokeExact({arguments});\n        \
            }} catch (Throwable e) {{\n            throw Native.rethrown(e);\n        }}\n    }}\n",
            java_declaration(function)
        );
    }
    text + "}\n"
}

fn java_jni(header: &Header) -> String {
    let mut text =
        "package realizar;\n\n/** The functions by functions.c. The build writes this file: make header. */\nfinal \
        class JniFunctions implements Functions {\n"
            .to_owned();
    for function in &header.functions {
        text += &format!("    @Override\n    public native {};\n", java_declaration(function));
    }
    text + "}\n"
}

fn java_c(header: &Header) -> String {
    let mut text =
        "/* The functions for JniFunctions.java. The build writes this file: make header. */\n#include <jni.h>\n#include \
        <realizar.h>\n"
            .to_owned();
    for function in &header.functions {
        let java = function.name.replace('_', "_1");
        let parameters = function.parameters.iter().map(|value| format!(", j{} {}", java_type(value), value.name));
        let parameters = parameters.collect::<String>();
        let arguments = function.each(|value| match (value.is_callback(), java_is_address(value)) {
            (true, _) => format!("({})(intptr_t){}", value.base, value.name),
            (false, true) => format!("(void *)(intptr_t){}", value.name),
            (false, false) => value.name.clone(),
        });
        let result = if function.is_void() { "void".to_owned() } else { format!("j{}", java_result(function)) };
        let call = match (function.is_void(), java_is_address(&function.result)) {
            (true, _) => "",
            (false, true) => "return (intptr_t)",
            (false, false) => "return ",
        };
        text += &format!(
            "\nJNIEXPORT {result} JNICALL Java_realizar_JniFunctions_{java}(JNIEnv *env, jobject self{parameters}) {{\n    \
            {call}{}({arguments});\n}}\n",
            function.name
        );
    }
    text
}

fn java_is_address(value: &Value) -> bool {
    value.pointers > 0 || value.is_callback()
}

/// Returns the layout of a number; an address has the layout of a 64-bit number.
fn java_layout(value: &Value) -> &str {
    if java_is_address(value) { "JAVA_LONG" } else { value.plain(JAVA) }
}

fn java_type(value: &Value) -> String {
    java_layout(value).trim_start_matches("JAVA_").to_lowercase()
}

fn java_result(function: &Signature) -> String {
    if function.is_void() { "void".to_owned() } else { java_type(&function.result) }
}

fn java_declaration(function: &Signature) -> String {
    let parameters = function.each(|value| format!("{} {}", java_type(value), value.name));
    format!("{} {}({parameters})", java_result(function), function.name)
}

/// Returns the size of an element in bytes, as an expression.
fn java_size(value: &Value) -> String {
    match java_layout(value) {
        "JAVA_BYTE" => "1".to_owned(),
        "JAVA_INT" | "JAVA_FLOAT" => "4".to_owned(),
        "JAVA_LONG" | "JAVA_DOUBLE" => "8".to_owned(),
        name => format!("{name}.size"),
    }
}

const CSHARP_HEAD: &str = "\
// The constants, structs, handles and functions of realizar.h under its names. The build writes this file: make header.
using System;
using System.Runtime.InteropServices;

namespace Realizar
{
";

fn csharp(header: &Header) -> String {
    let mut text = CSHARP_HEAD.to_owned();
    for &(name, fields) in &header.structs {
        let is_unsafe = if fields.iter().any(|field| field.length.is_some()) { "unsafe " } else { "" };
        text += &format!("    [StructLayout(LayoutKind.Sequential)]\n    internal {is_unsafe}struct {name}\n    {{\n");
        for field in fields {
            let (kind, name) = (csharp_field(field), &field.name);
            text += &match &field.length {
                Some(length) => format!("        public fixed {kind} {name}[{length}];\n"),
                None => format!("        public {kind} {name};\n"),
            };
        }
        text += "    }\n\n";
    }
    for callback in &header.callbacks {
        let result = if callback.is_void() { "void" } else { callback.result.plain(CSHARP) };
        let parameters = callback.each(|value| format!("{} {}", csharp_field(value), csharp_name(value)));
        text += "    [UnmanagedFunctionPointer(CallingConvention.Cdecl)]\n";
        text += &format!("    internal delegate {result} {}({parameters});\n", callback.name);
    }
    for handle in &header.handles {
        let class = csharp_handle(handle);
        text += &format!("\n    internal sealed class {class} : Handle\n    {{\n");
        text += "        /// <summary>Stands for NULL.</summary>\n";
        text += &format!("        internal static readonly {class} None = new {class}();\n");
        text += "        protected override bool ReleaseHandle() ";
        text += &format!("{{ Native.{handle}_free(handle); return true; }}\n    }}\n");
    }
    text += "\n    internal static unsafe partial class Native\n    {\n";
    for &Constant { name, value, .. } in &header.constants {
        let kind = match value.starts_with("0x") {
            true if is_long(value) => "ulong",
            true => "uint",
            false => "int",
        };
        text += &format!("        internal const {kind} {name} = {value};\n");
    }
    let types = header.structs.iter().map(|(name, _)| format!("\n            typeof({name}),"));
    let types = types.collect::<String>();
    text += &format!("\n        private static readonly Type[] Structs = {{{types}\n        }};\n\n");
    for function in &header.functions {
        let name = &function.name;
        let parameters = function.each(|value| {
            let frees = name.ends_with("_free");
            format!("{} {}", csharp_type(header, value, frees), csharp_name(value))
        });
        let result = if function.is_void() { "void".to_owned() } else { csharp_type(header, &function.result, false) };
        text += &format!(
            "        [DllImport(Library, CallingConvention = C)] internal static extern {result} {name}({parameters});\n"
        );
    }
    text + "    }\n}\n"
}

/// Returns the type of a field or of a callback's parameter; with this type the methods need not be unsafe.
fn csharp_field(value: &Value) -> &str {
    if value.pointers > 0 || value.is_callback() { "IntPtr" } else { value.plain(CSHARP) }
}

/// Returns a parameter's name; keywords of the language are marked.
fn csharp_name(value: &Value) -> String {
    let is_word = ["out", "params"].contains(&value.name.as_str());
    format!("{}{}", if is_word { "@" } else { "" }, value.name)
}

/// Returns the class of a handle: `ChatParserHandle` for `rz_chat_parser`.
pub fn csharp_handle(name: &str) -> String {
    let words = name.trim_start_matches("rz_").split('_');
    words.map(|word| word[..1].to_uppercase() + &word[1..]).collect::<String>() + "Handle"
}

fn csharp_type(header: &Header, value: &Value, frees: bool) -> String {
    match value.base.as_str() {
        _ if header.is_handle(value) && value.pointers == 1 && !frees => csharp_handle(&value.base),
        _ if header.is_handle(value) => "IntPtr".to_owned() + &"*".repeat(value.pointers - 1),
        _ if value.is_callback() || value.is_user() => "IntPtr".to_owned(),
        _ => value.plain(CSHARP).to_owned() + &"*".repeat(value.pointers),
    }
}

const GO_HEAD: &str = "\
// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.
";

const GO_CONSTANTS: &str = "
package realizar

// The constants, structs and functions have the names of the header, by which the library is asked for them; constants
// begin with a small letter, which keeps them inside of the package.
const (
";

/// The Go types that hold handles, and their fields.
const GO_HOLDERS: [(&str, &str, &str); 14] = [
    ("rz_adapter", "Adapter", "adapter"),
    ("rz_cache", "Session", "cache"),
    ("rz_chat_parser", "ChatParser", "parser"),
    ("rz_conversation", "Conversation", "conversation"),
    ("rz_encoder", "Encoder", "encoder"),
    ("rz_grammar", "Grammar", "grammar"),
    ("rz_job", "Job", "job"),
    ("rz_media", "Media", "media"),
    ("rz_model", "Model", "model"),
    ("rz_prompt", "Prompt", "prompt"),
    ("rz_runtime", "Runtime", "runtime"),
    ("rz_sampler", "Sampler", "sampler"),
    ("rz_store", "Store", "store"),
    ("rz_textstream", "TextStream", "stream"),
];

/// Returns constants, structs and the objects of handles, which the files with and without cgo share.
fn go(header: &Header) -> String {
    let mut text = GO_HEAD.to_owned() + GO_CONSTANTS;
    let constants = header
        .constants
        .iter()
        .map(|Constant { name, value, .. }| (name.replacen("RZ_", "rz_", 1), format!("= {value}")));
    text += &go_columns(constants.collect());
    text += ")\n\n// Handles are objects of the library, known by pointers alone.\ntype (\n";
    text += &go_columns(header.handles.iter().map(|name| (name.to_string(), "struct{ _ byte }".to_owned())).collect());
    text += ")\n";
    for &(name, fields) in &header.structs {
        let fields = fields.iter().map(|field| {
            let array = field.length.as_ref().map_or(String::new(), |length| format!("[{length}]"));
            (field.name.clone(), array + &go_type(field))
        });
        text += &format!("\ntype {name} struct {{\n{}}}\n", go_columns(fields.collect()));
    }
    let values = header.structs.iter().map(|(name, _)| format!("\t{name}{{}},\n")).collect::<String>();
    text += &format!("\n// structs is one of each struct.\nvar structs = []any{{\n{values}}}\n");
    for (handle, name, field) in GO_HOLDERS {
        let body = format!("\tif o == nil {{\n\t\treturn nil\n\t}}\n\treturn o.{field}\n");
        text += &format!("\nfunc (o *{name}) held() *owned[*{handle}] {{\n{body}}}\n");
    }
    text
}

/// Returns the functions without cgo: a table that is filled in when the library is opened.
fn go_nocgo(header: &Header) -> String {
    let mut text = GO_HEAD.to_owned() + "\n//go:build !cgo\n\npackage realizar\n";
    text += "\n// functions is every function of the library.\ntype functions struct {\n";
    let functions =
        header.functions.iter().map(|function| (function.name.clone(), format!("func{}", go_signature(function))));
    text + &go_columns(functions.collect()) + "}\n"
}

const GO_CGO_HEAD: &str = "
//go:build cgo

package realizar

/*
#cgo pkg-config: realizar
#include <realizar.h>
";

/// Returns the functions with cgo: methods that call them. Functions with callbacks are called through C functions,
/// which convert numbers to pointers.
fn go_cgo(header: &Header) -> String {
    let has_numbers =
        |function: &Signature| function.parameters.iter().any(|value| value.is_callback() || value.is_user());
    let mut text = GO_HEAD.to_owned() + GO_CGO_HEAD;
    for function in header.functions.iter().filter(|function| has_numbers(function)) {
        let parameters = function.each(|value| match value.is_callback() || value.is_user() {
            true => format!("uintptr_t {}", value.name),
            false => format!("{} {}{}", value.base, "*".repeat(value.pointers), value.name),
        });
        let arguments = function.each(|value| match (value.is_callback(), value.is_user()) {
            (true, _) => format!("({}){}", value.base, value.name),
            (false, true) => format!("(void *){}", value.name),
            (false, false) => value.name.clone(),
        });
        let (name, result) = (&function.name, &function.result.base);
        text += &format!("\nstatic {result} go_{name}({parameters}) {{\n\treturn {name}({arguments});\n}}\n");
    }
    text += "*/\nimport \"C\"\n\nimport \"unsafe\"\n\n// functions is every function of the library.\ntype functions struct{}\n";
    for function in &header.functions {
        let arguments = function.each(|value| match value.base.as_str() {
            _ if value.is_callback() || value.is_user() => format!("C.uintptr_t({})", value.name),
            "void" => format!("unsafe.Pointer({})", value.name),
            base if value.pointers > 0 => {
                format!("({}C.{base})(unsafe.Pointer({}))", "*".repeat(value.pointers), value.name)
            }
            base => format!("C.{base}({})", value.name),
        });
        let go = if has_numbers(function) { "go_" } else { "" };
        let call = format!("C.{go}{}({arguments})", function.name);
        let call = match go_result(function).trim() {
            "" => call,
            "string" => format!("return C.GoString({call})"),
            result => format!("return {result}({call})"),
        };
        text += &format!("\nfunc (functions) {}{} {{\n\t{call}\n}}\n", function.name, go_signature(function));
    }
    text
}

/// Returns parameters and result.
fn go_signature(function: &Signature) -> String {
    let parameters = function.each(|value| format!("{} {}", value.name, go_type(value)));
    format!("({parameters}){}", go_result(function))
}

fn go_result(function: &Signature) -> String {
    match function.result.base.as_str() {
        "void" => String::new(),
        "char" => " string".to_owned(),
        _ => format!(" {}", go_type(&function.result)),
    }
}

/// Returns names with the text after them, in two columns as gofmt formats them.
pub fn go_columns(rows: Vec<(String, String)>) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    rows.iter().map(|(name, rest)| format!("\t{name:width$} {rest}\n")).collect()
}

fn go_type(value: &Value) -> String {
    match value.base.as_str() {
        _ if value.is_callback() || value.is_user() => "uintptr".to_owned(),
        "void" => "*byte".to_owned(),
        _ => "*".repeat(value.pointers) + value.plain(GO),
    }
}
