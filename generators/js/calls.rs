//! Writes an addon function for each function of the header that JavaScript calls.

use super::structs::{bits, list};
use super::{BESIDE, CHECKS, FIXED, HEAD, HERE, OPTIONAL, POOL, found, group_of, kind_of, name_of, results, wrap};
use crate::bindings::Header;
use crate::header::{Signature, Value};
use crate::options::camel;

/// A function of the addon.
#[derive(Default)]
struct Call {
    /// Names of the arguments, for the comment.
    arguments: Vec<String>,
    /// Declarations of the variables that live during the call.
    fields: Vec<String>,
    /// Statements that read the arguments.
    reads: Vec<String>,
    /// Statements before each attempt.
    before: Vec<String>,
    after: Vec<String>,
    /// Lengths of list arguments.
    counts: Vec<String>,
    /// Arguments in C.
    passed: Vec<String>,
    /// The first capacity of its buffers, and the expression of the needed capacity.
    capacity: Option<(String, String)>,
    /// Structs from which result objects are created.
    structs: Vec<String>,
    /// Names and expressions of its results.
    results: Vec<(String, String)>,
    /// The expression of a struct whose members are the results.
    object: Option<String>,
}

impl Call {
    fn of(header: &Header, function: &Signature) -> Self {
        let mut call = Self::default();
        let parameters = &function.parameters;
        let is_capacity = |value: &Value| (value.base.as_str(), value.name.as_str()) == ("size_t", "capacity");
        let capacity = parameters.iter().position(is_capacity);
        let is_buffer =
            |i: usize| capacity.is_some_and(|end| i + 1 == end || i + 2 == end && parameters[i + 1].name == "logprobs");
        for (i, value) in parameters.iter().enumerate() {
            let name = value.name.as_str();
            let fixed = found(&FIXED, &function.name, name);
            if value.base == "rz_error" {
                call.passed.push("&t->error".to_owned());
            } else if let Some(fixed) = fixed {
                call.passed.push(fixed.to_owned());
            } else if capacity == Some(i) {
                call.fields.push("size_t capacity;".to_owned());
                call.passed.push("c->capacity".to_owned());
            } else if is_buffer(i) {
                call.buffer(function, value, &parameters[capacity.unwrap_or(i) + 1].name);
            } else if value.is_user() {
                call.passed.push(format!("&c->{}", parameters[i - 1].name));
            } else if function.direction(i, &header.handles()) == "in" {
                call.argument(header, function, i);
            } else {
                call.output(header, function, value, capacity.is_some_and(|at| at + 1 == i));
            }
        }
        if function.result.base != "rz_status" && !function.is_void() {
            call.fields.push(format!("{} result;", function.result.base));
            call.results.push(("result".to_owned(), "number_value(env, c->result)".to_owned()));
        }
        call
    }

    fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|field| field.trim_end_matches(';').rsplit([' ', '*']).next() == Some(name))
    }

    /// Declares an output array, which is enlarged until it suffices.
    fn buffer(&mut self, function: &Signature, value: &Value, count: &str) {
        let (name, base) = (&value.name, &value.base);
        self.fields.push(format!("{base} *{name};"));
        self.before.push(format!("c->{name} = task_alloc(t, c->capacity * sizeof *c->{name});"));
        self.passed.push(format!("c->{name}"));
        // First capacity: a text has at most as many tokens as bytes; a token has several bytes of text.
        let of = self.counts.first().map_or(String::new(), |count| format!(" + c->{count}"));
        let first = match base.as_str() {
            "char" => format!("4096{}", of.replace("+ ", "+ 8 * ")),
            "rz_model_plan_device" => "RZ_DEVICES_MAX".to_owned(),
            _ => format!("256{of}"),
        };
        self.capacity = Some((first, count.to_owned()));
        let result = match base.as_str() {
            "char" => format!("string_value(env, c->{name}, c->{count})"),
            "uint32_t" => format!("tokens_value(env, c->{name}, c->{count})"),
            "float" => format!("floats_value(env, c->{name}, c->{count})"),
            _ => {
                let set = format!("c->{name}[i].struct_size = sizeof *c->{name};");
                self.before.push(format!("for (size_t i = 0; c->{name} && i < c->capacity; i++) {set}"));
                self.structs.push(base.clone());
                format!("list_value(env, c->{name}, c->{count}, sizeof *c->{name}, value_{base})")
            }
        };
        self.results.push((name_of(&function.name, name), result));
    }

    fn output(&mut self, header: &Header, function: &Signature, value: &Value, is_count: bool) {
        let (name, base) = (&value.name, &value.base);
        if value.pointers == 2 {
            self.fields.push(format!("{base} *{name};"));
            self.after.push(format!("t->made = t->status < 0 ? NULL : c->{name};"));
            self.after.push(format!("t->made_kind = {};", kind_of(base)));
            self.results.push((name.clone(), "task_made(t)".to_owned()));
        } else {
            self.fields.push(format!("{base} {name};"));
            if header.structs.iter().any(|(structure, _)| structure == base) {
                self.before.push(format!("c->{name}.struct_size = sizeof c->{name};"));
                self.object = Some(format!("value_{base}(env, &c->{name})"));
                self.structs.push(base.clone());
            } else if !is_count {
                let result = results::result(&function.name, value, &format!("c->{name}"));
                self.results.push((name_of(&function.name, name), result));
            }
        }
        self.passed.push(format!("&c->{name}"));
    }

    fn argument(&mut self, header: &Header, function: &Signature, i: usize) {
        let (owner, value) = (function.name.as_str(), &function.parameters[i]);
        let (name, base) = (value.name.as_str(), value.base.as_str());
        if self.has(name) {
            self.passed.push(format!("c->{name}")); // the count of an array before it
            return;
        }
        let given = format!("arguments[{}]", self.arguments.len());
        let shown = name_of(owner, name);
        let group = group_of(owner, name);
        let is_optional = name == "cancel" || OPTIONAL.contains(&format!("{owner}.{name}").as_str());
        let count = function.count(i, &header.handles()).map(str::to_owned);
        let mut passed = format!("c->{name}");
        let read = match (base, value.pointers) {
            ("rz_read_callback", _) => {
                self.fields.push(format!("reader {name};"));
                self.reads.push(format!("c->{name}.bytes = bytes_of(t, {given}, \"bytes\", &c->{name}.len);"));
                self.arguments.push("bytes".to_owned());
                self.passed.push("on_read".to_owned());
                return;
            }
            ("rz_write_callback", _) => {
                self.fields.push(format!("writer {name};"));
                self.after.push(format!("if (t->status < 0) writer_free(&c->{name});"));
                self.results.push((name.to_owned(), format!("writer_value(env, &c->{name})")));
                self.passed.push("on_write".to_owned());
                return;
            }
            ("uint32_t", 0) if bits(header, owner, name, &given).is_some() => {
                for (condition, bit) in bits(header, owner, name, &given).unwrap_or_default() {
                    self.reads.push(format!("if ({condition}) c->{name} |= {bit};"));
                }
                String::new()
            }
            ("uint32_t", 0) if group.is_some() => {
                format!("choice_of(t, {given}, \"{shown}\", {}NAMES)", group.unwrap_or_default())
            }
            ("uint32_t", 0) => format!("(uint32_t)uint_of(t, {given}, \"{shown}\", UINT32_MAX)"),
            ("uint64_t", 0) if name == "budget_us" => {
                format!("is_given(env, {given}) ? uint_of(t, {given}, \"the budget\", MOST) : RZ_NO_LIMIT")
            }
            (_, 0) => format!("uint_of(t, {given}, \"{shown}\", MOST)"),
            ("char", 1) => {
                let read = match &count {
                    Some(count) => format!("string_of(t, {given}, \"{shown}\", &c->{count})"),
                    None => format!("terminated_of(t, {given}, \"{shown}\")"),
                };
                if is_optional { format!("is_given(env, {given}) ? {read} : NULL") } else { read }
            }
            ("void", 1) => format!("bytes_of(t, {given}, \"{shown}\", &c->{})", count.clone().unwrap_or_default()),
            ("rz_source", 1) => format!("source_of(t, {given}, \"{shown}\", &c->n)"),
            ("uint32_t", 2) => format!("token_lists_of(t, {given}, \"{shown}\", &c->lengths, &c->n_texts)"),
            (_, 1) if header.handles.contains(base) => {
                let end = if is_optional { "_optional" } else { "" };
                format!("task_use{end}(t, {given}, {})", kind_of(base))
            }
            (base, 1) if base.starts_with("rz_") && count.is_none() => {
                self.fields.push(format!("{base} {name};"));
                self.reads.push(format!("set_{base}(t, {given}, &c->{name});"));
                passed = format!("&c->{name}");
                String::new()
            }
            (base, pointers) => list(header, base, pointers, &given, &shown, group).expect("a list"),
        };
        if let Some(beside) = found(&BESIDE, owner, name) {
            let of = function.parameters.iter().position(|value| value.name == beside).expect("a list");
            let of = function.count(of, &header.handles()).expect("a number");
            self.reads.push(format!("size_t n_{name} = 0;"));
            self.reads.push(format!("c->{name} = {};", read.replace("COUNT", &format!("n_{name}"))));
            self.reads.push(format!("check_count(t, c->{name}, \"{shown}\", n_{name}, c->{of}, \"{beside}\");"));
        } else if !read.is_empty() {
            let count = count.clone().unwrap_or_default();
            self.reads.push(format!("c->{name} = {};", read.replace("COUNT", &format!("c->{count}"))));
        }
        if !self.has(name) {
            let code = &value.code;
            self.fields.push(if code.ends_with('*') { format!("{code}{name};") } else { format!("{code} {name};") });
        }
        match base {
            "uint32_t" if value.pointers == 2 => {
                self.fields.push("const size_t *lengths;".to_owned());
                self.fields.push("size_t n_texts;".to_owned());
            }
            "rz_source" => self.fields.push("size_t n;".to_owned()),
            _ => {}
        }
        if let Some(count) = count.filter(|count| !self.has(count)) {
            self.fields.push(format!("size_t {count};"));
            self.counts.push(count);
        }
        self.arguments.push(shown);
        self.passed.push(passed);
    }

    /// Returns the variables of the call, the call itself, and its result.
    fn work(&self, function: &Signature, name: &str) -> String {
        let own = function.name.trim_start_matches("rz_");
        let mut text = format!("\n/* {name}({}). */\ntypedef struct {own} {{\n", self.arguments.join(", "));
        self.fields.iter().for_each(|field| text += &format!("    {field}\n"));
        text += &format!("}} {own};\n\nstatic void run_{own}(task *t) {{\n    {own} *c = t->data;\n");
        text += &self.attempts(function);
        self.after.iter().for_each(|line| text += &format!("    {line}\n"));
        let finish = self.finish(function);
        text += &format!("}}\n\nstatic napi_value finish_{own}(task *t) {{\n");
        text += &if finish.contains("c->") { format!("    {own} *c = t->data;\n") } else { String::new() };
        text += if finish.contains("(env") { "    napi_env env = t->env;\n" } else { "" };
        text + &finish + "}\n"
    }

    /// Returns the function that JavaScript calls.
    fn entry(&self, function: &Signature, is_pool: bool, later: &str) -> String {
        let own = function.name.trim_start_matches("rz_");
        let mut text = format!("\nstatic napi_value call_{own}{later}(napi_env env, napi_callback_info info) {{\n");
        text += "    napi_value arguments[MAX_ARGUMENTS];\n";
        text += "    task begun = task_begin(env, info, arguments), *t = &begun;\n";
        text += &format!("    {own} *c = t->data = task_alloc(t, sizeof *c);\n");
        text += "    if (!c) return task_return(t, NULL);\n";
        let check = found(&CHECKS, "", &function.name).map(str::to_owned);
        self.reads.iter().chain(&check).for_each(|line| text += &wrap(line, "    "));
        let how = if is_pool { "task_start" } else { "task_now" };
        text + &format!("    return {how}(t, run_{own}, finish_{own});\n}}\n")
    }

    /// Returns the statements that call the function until its buffers suffice.
    fn attempts(&self, function: &Signature) -> String {
        let result = match function.result.base.as_str() {
            "rz_status" => "t->status = ",
            _ if function.is_void() => "",
            _ => "c->result = ",
        };
        let call = format!("{result}t->lib->{}({});", function.name, self.passed.join(", "));
        let lines = |indent: &str| self.before.iter().map(|line| wrap(line, indent)).collect::<String>();
        let Some((first, needed)) = &self.capacity else { return lines("    ") + &wrap(&call, "    ") };
        let attempt = lines("        ") + &wrap(&format!("if (t->status >= 0) {call}"), "        ");
        let first = format!("    c->capacity = {first};\n    do {{\n");
        first + &attempt + &format!("    }} while (task_repeats(t, &c->capacity, c->{needed}));\n")
    }

    fn finish(&self, function: &Signature) -> String {
        let mut text = String::new();
        if function.name.ends_with("_step") {
            return "    return number_value(t->env, t->status);\n".to_owned();
        }
        text += if function.result.base == "rz_status" {
            "    if (t->status > 0) return undefined_value(t->env);\n"
        } else {
            ""
        };
        match (&self.object, self.results.as_slice()) {
            (None, []) => return "    return undefined_value(t->env);\n".to_owned(),
            (Some(object), []) => text += &format!("    return {object};\n"),
            (None, [(_, result)]) => text += &format!("    return {result};\n"),
            (object, results) => {
                let object = object.clone().unwrap_or_else(|| "object_value(env)".to_owned());
                text += &format!("    napi_value object = {object};\n");
                for (name, result) in results {
                    text += &wrap(&format!("set_member(env, object, \"{name}\", {result});"), "    ");
                }
                text += "    return object;\n";
            }
        }
        text
    }
}

pub fn calls(header: &Header) -> String {
    let named = |name: &str| {
        let found = header.functions.iter().find(|function| function.name == name);
        *found.unwrap_or_else(|| panic!("the header has no function {name}"))
    };
    let here = HERE.split_whitespace().map(|name| (name, false));
    let all = here.chain(POOL.split_whitespace().map(|name| (name, true)));
    let all: Vec<_> = all.map(|(name, is_pool)| (Call::of(header, named(name)), named(name), is_pool)).collect();

    let mut text = format!("/* The functions that JavaScript calls. {HEAD}\n#include \"internal.h\"\n");
    let written: Vec<&str> = all.iter().flat_map(|(call, ..)| &call.structs).map(String::as_str).collect();
    for (structure, fields) in header.structs.iter().filter(|(name, _)| written.contains(name)) {
        text += &results::object(structure, fields);
    }
    let mut exports = String::new();
    for (call, function, is_pool) in &all {
        let own = function.name.trim_start_matches("rz_");
        let is_second = *is_pool && HERE.split_whitespace().any(|name| name == function.name);
        let (later, end) = if is_second { ("_later", "Later") } else { ("", "") };
        let name = camel(own.trim_end_matches("_into").trim_end_matches("_get")) + end;
        if !is_second {
            text += &call.work(function, &name);
        }
        text += &call.entry(function, *is_pool, later);
        exports += &format!("    export_function(env, exports, \"{name}\", call_{own}{later});\n");
    }
    text + &format!("\nvoid export_calls(napi_env env, napi_value exports) {{\n{exports}}}\n")
}
