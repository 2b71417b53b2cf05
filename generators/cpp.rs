//! Writes the part of the header for C++ that follows from `realizar.h`: exceptions, one for each status, and options,
//! one class for each parameter struct. These classes check numbers and keep copies of texts.

use super::bindings::Header;
use super::header::Value;
use super::options::{FLAGS, STRUCTS, camel, wrapped};

pub const FILE: &str = "bindings/cpp/realizar_types.hpp";

const HEAD: &str = r#"// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.
#ifndef REALIZAR_HPP
#include "realizar.hpp" // which includes this file
#elif !defined(REALIZAR_TYPES_HPP)
#define REALIZAR_TYPES_HPP

namespace realizar {
"#;

const CONVERSATION: (&str, &str) = ("rz_conversation_params", "Conversation");

/// The types of numbers.
const NUMBERS: [&str; 5] = ["uint32_t", "uint64_t", "int32_t", "size_t", "float"];

pub fn cpp(header: &Header) -> String {
    let mut text = HEAD.to_owned();
    let statuses = || header.constants.iter().filter_map(|c| Some((c.name.strip_prefix("RZ_ERR_")?, c.name, c.doc)));
    for (name, constant, doc) in statuses() {
        let doc = wrapped(&format!("{constant}: {}", doc.replace('\n', " ")), "/// ").join("\n");
        text += &format!("\n{doc}\nstruct {} : Error {{\n    using Error::Error;\n}};\n", exception(name));
    }
    text += "\nnamespace detail {\n\n/// Throws the exception of a status. Ends the process where the program is compiled without exceptions.\n\
             [[noreturn]] inline void fail(const rz_error &error) {\n    switch (error.code) {\n";
    for (name, constant, _) in statuses() {
        text += &format!("    case {constant}: raise({}(error));\n", exception(name));
    }
    text += "    default: raise(Error(error));\n    }\n}\n\n";
    text += ASSIGN;
    for (structure, name) in STRUCTS.into_iter().chain([CONVERSATION]) {
        let fields = header.structs.iter().find(|(found, _)| *found == structure).expect(structure).1;
        text += &options(header, structure, name, fields);
    }
    text + "\n} // namespace realizar\n\n#endif\n"
}

const ASSIGN: &str = r#"[[noreturn]] inline void refuse(const std::string &message) {
    rz_error error{RZ_ERR_INVALID_ARGUMENT, 0, 0, {}};
    std::snprintf(error.message, sizeof error.message, "%s", message.c_str());
    fail(error);
}

/// Writes a number to a field that has room for it, or throws an InvalidArgumentError that names the field.
template <class Field, class Number> void assign(Field &field, Number value, const char *name) {
    if constexpr (std::is_enum_v<Number>) {
        assign(field, static_cast<std::underlying_type_t<Number>>(value), name);
    } else {
        static_assert(std::is_arithmetic_v<Number> && !std::is_same_v<Number, bool>, "the field takes a number");
        static_assert(std::is_floating_point_v<Field> || std::is_integral_v<Number>, "the field takes a whole number");
        const auto converted = static_cast<Field>(value);
        if constexpr (std::is_integral_v<Field>) {
            if (static_cast<Number>(converted) != value || (converted < Field(0)) != (value < Number(0))) {
                using Limits = std::numeric_limits<Field>;
                refuse(std::string(name) + " is " + std::to_string(value) + "; it must be a whole number from " +
                       std::to_string((Limits::min)()) + " to " + std::to_string((Limits::max)()));
            }
        } else if (converted - converted != Field(0) && value - value == Number(0)) {
            refuse(std::string(name) + " is " + std::to_string(value) + "; it must fit into 32 bits");
        }
        field = converted;
    }
}

/// Keeps a text without a NUL for a field that ends with one.
inline void keep(std::string &kept, std::string_view text, const char *name) {
    if (text.find('\0') != text.npos) refuse(std::string(name) + " has a NUL; it must have none");
    kept = text;
}

inline void set_flag(uint32_t &flags, uint32_t flag, bool on) noexcept { flags = on ? flags | flag : flags & ~flag; }

} // namespace detail
"#;

fn exception(status: &str) -> String {
    let camel = camel(&status.to_lowercase());
    camel[..1].to_uppercase() + &camel[1..] + "Error"
}

/// Returns the class of a parameter struct.
fn options(header: &Header, structure: &str, name: &str, fields: &[Value]) -> String {
    let (mut setters, mut kept, mut pointed) = (String::new(), String::new(), String::new());
    let of = |value: &Value, end: &str| fields.iter().any(|field| field.name == format!("{}{end}", value.name));
    let counts = |value: &Value| {
        fields.iter().any(|field| {
            field.pointers > 0 && [format!("n_{}", field.name), format!("{}_len", field.name)].contains(&value.name)
        })
    };
    for value in fields.iter().filter(|value| !["struct_size", "reserved"].contains(&value.name.as_str())) {
        let field = value.name.as_str();
        let begin = FLAGS.iter().find(|(of, _)| *of == structure && field == "flags").map(|(_, begin)| *begin);
        let doc = |doc: &str| {
            let doc = doc.split("\n\n").next().unwrap_or_default().replace('\n', " ");
            if doc.is_empty() { String::new() } else { wrapped(&doc, "    /// ").join("\n") + "\n" }
        };
        if let Some(begin) = begin {
            for flag in header.constants.iter().filter(|constant| constant.name.starts_with(begin)) {
                setters += &doc(flag.doc);
                setters += &format!(
                    "    {name}Options &{}(bool on = true) noexcept {{ return detail::set_flag(raw_.flags, {}, on), *this; }}\n",
                    flag.name[begin.len()..].to_lowercase().replace("continue", "go_on"),
                    flag.name
                );
            }
        } else if value.pointers == 0 && NUMBERS.contains(&value.base.as_str()) && !counts(value) {
            setters += &doc(&value.doc);
            setters += &format!(
                "    template <class Number> {name}Options &{field}(Number value) {{ return detail::assign(raw_.{field}, value, \
                 \"{structure}.{field}\"), *this; }}\n"
            );
        } else if value.base == "char" && value.pointers == 1 {
            setters += &doc(&value.doc);
            kept += &format!("    std::optional<std::string> {field}_;\n");
            if of(value, "_len") {
                setters += &format!(
                    "    {name}Options &{field}(std::string_view text) {{ return {field}_ = text, *this; }}\n"
                );
                pointed += &format!(
                    "        if ({field}_) raw_.{field} = {field}_->data(), raw_.{field}_len = {field}_->size();\n"
                );
            } else {
                setters += &format!(
                    "    {name}Options &{field}(std::string_view text) {{ return detail::keep({field}_.emplace(), text, \
                     \"{structure}.{field}\"), *this; }}\n"
                );
                pointed += &format!("        if ({field}_) raw_.{field} = {field}_->c_str();\n");
            }
        } else if let (Some((_, inner)), 1) = (STRUCTS.iter().find(|(of, _)| *of == value.base), value.pointers) {
            setters += &doc(&value.doc);
            setters += &format!(
                "    {name}Options &{field}(const {inner}Options &options) {{ return {field}_ = options, *this; }}\n"
            );
            kept += &format!("    std::optional<{inner}Options> {field}_;\n");
            pointed +=
                &format!("        if ({field}_) raw_.{field} = &static_cast<const {} &>(*{field}_);\n", value.base);
        } else if value.base == "char" && value.pointers == 2 {
            setters += &doc(&value.doc);
            setters += &format!(
                "    {name}Options &{field}(const std::vector<std::string> &texts) {{\n        {field}_.resize(texts.size());\n        \
                 for (size_t i = 0; i < texts.size(); i++) detail::keep({field}_[i], texts[i], \"{structure}.{field}\");\n        \
                 return *this;\n    }}\n"
            );
            kept += &format!(
                "    std::vector<std::string> {field}_;\n    mutable std::vector<const char *> {field}_list_;\n"
            );
            pointed += &format!(
                "        if (!{field}_.empty()) {{\n            {field}_list_.clear();\n            for (const std::string &text : \
                 {field}_) {field}_list_.push_back(text.c_str());\n            raw_.{field} = {field}_list_.data(), raw_.n_{field} = \
                 {field}_.size();\n        }}\n"
            );
        }
    }
    format!(
        "\n/// An {structure} whose numbers are checked and whose texts are kept: `{name}Options()` with what\n\
         /// differs from the defaults. Lists and handles are fields of the struct, by `->`, and have to outlive the call.\n\
         class {name}Options {{\npublic:\n{setters}    {structure} *operator->() noexcept {{ return &raw_; }}\n    \
         operator const {structure} &() const {{\n{pointed}        return raw_;\n    }}\n\nprivate:\n    mutable {structure} \
         raw_ = params<{structure}>();\n{kept}}};\n"
    )
}
