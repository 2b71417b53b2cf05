//! The declarations of the header as data. They are read from the text and comments that cbindgen writes. From these
//! data the build writes `header.json`, the layouts of structs, and the header in the languages of bindings.
//!
//! Names and types determine how a caller passes a value: see [`Signature::direction`], [`Signature::count`],
//! [`Signature::is_nullable`]. Tests check that the sources follow these rules.

use serde_json::{Value as Json, json};

/// The declarations of a file of `src/ffi`, in its order.
pub struct Group {
    /// Name of the file without its extension.
    pub file: String,
    pub title: String,
    pub items: Vec<Item>,
}

pub struct Item {
    pub name: String,
    /// Text of the comment, with line breaks.
    pub doc: String,
    pub kind: Kind,
}

pub enum Kind {
    /// A constant with its value.
    Constant(String),
    /// An opaque struct, which callers use only by pointer.
    Handle,
    Struct(Vec<Value>),
    /// Another name of a type.
    Alias(String),
    Callback(Signature),
    Function(Signature),
}

/// A function, or the type of one.
pub struct Signature {
    pub name: String,
    /// The declaration in C, with line breaks.
    pub code: String,
    pub result: Value,
    pub parameters: Vec<Value>,
}

/// A field, a parameter or a result.
pub struct Value {
    pub name: String,
    pub doc: String,
    /// The type in C, without the name and the length of an array.
    pub code: String,
    pub base: String,
    /// Number of pointer levels above the base type.
    pub pointers: usize,
    /// Number of elements of an array.
    pub length: Option<String>,
}

impl Value {
    fn of(declaration: &str, doc: String) -> Self {
        let declaration = declaration.split_whitespace().collect::<Vec<_>>().join(" ");
        let begin = declaration.rfind([' ', '*']).map_or(0, |at| at + 1);
        let (code, name) = declaration.split_at(begin);
        let (name, length) = match name.split_once('[') {
            Some((name, length)) => (name, Some(length.trim_end_matches(']').to_owned())),
            None => (name, None),
        };
        let base = code.split([' ', '*']).find(|word| !["", "const", "struct"].contains(word));
        let base = base.unwrap_or_else(|| panic!("{declaration} has a type")).to_owned();
        let pointers = code.matches('*').count();
        Self { name: name.to_owned(), doc, code: code.trim().to_owned(), base, pointers, length }
    }

    pub fn is_callback(&self) -> bool {
        self.base.ends_with("_callback")
    }

    /// True if it is the `user` pointer of a callback, for which some languages have no memory.
    pub fn is_user(&self) -> bool {
        self.name == "user" || self.name.ends_with("_user")
    }

    /// True if the memory that it points to is only read.
    fn is_const(&self) -> bool {
        if self.pointers > 1 { self.code.contains("*const *") } else { self.code.starts_with("const ") }
    }

    fn is_params(&self) -> bool {
        self.base.ends_with("_params")
    }

    /// True if it is a pointer whose name is a plural.
    fn is_array(&self) -> bool {
        self.pointers > 0 && self.name.ends_with('s') && !self.is_params()
    }

    /// True if its name says that it is the number of elements of `array`.
    fn counts(&self, array: &Value) -> bool {
        let of = [format!("n_{}", array.name), format!("{}_len", array.name)];
        self.pointers == 0
            && (["n", "k", "len", "size", "capacity"].contains(&self.name.as_str()) || of.contains(&self.name))
    }

    fn json(&self) -> Json {
        let mut json = json!({"name": self.name, "type": self.code});
        for (key, value) in [("array", self.length.clone()), ("doc", Some(self.doc.clone()))] {
            if let Some(value) = value.filter(|value| !value.is_empty()) {
                json[key] = Json::from(value);
            }
        }
        json
    }
}

impl Signature {
    fn of(code: &str, name: &str, result: &str, parameters: &str) -> Self {
        let parameters = parameters.trim_end_matches(')').split(',').filter(|parameter| parameter.trim() != "void");
        Self {
            name: name.to_owned(),
            code: code.to_owned(),
            result: Value::of(&format!("{result} result"), String::new()),
            parameters: parameters.map(|parameter| Value::of(parameter, String::new())).collect(),
        }
    }

    pub fn is_void(&self) -> bool {
        (self.result.base.as_str(), self.result.pointers) == ("void", 0)
    }

    /// Returns the joined texts of all parameters.
    pub fn each(&self, text: impl FnMut(&Value) -> String) -> String {
        self.parameters.iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Returns "out" for memory that the function writes: a pointer that is neither const, nor a handle, nor the `user`
    /// pointer of a callback. Returns "new" for the location of a new handle, which the caller must free.
    pub fn direction(&self, i: usize, handles: &[&str]) -> &'static str {
        let value = &self.parameters[i];
        match (value.pointers, handles.contains(&value.base.as_str())) {
            (0, _) | (1, true) => "in",
            _ if value.is_const() || value.is_user() => "in",
            (2, true) => "new",
            _ => "out",
        }
    }

    /// Returns the parameter that is the number of elements of an array: the first number after arrays, or a number
    /// before an array whose name is a plural. A text without such a parameter is NUL-terminated; for other memory,
    /// comments give the size.
    pub fn count(&self, i: usize, handles: &[&str]) -> Option<&str> {
        let value = &self.parameters[i];
        let is_handle = handles.contains(&value.base.as_str()) && (value.pointers == 1 || !value.is_const());
        if value.pointers == 0 || value.is_user() || is_handle {
            return None;
        }
        let behind = &self.parameters[i + 1..];
        let distance = behind.iter().take_while(|value| value.is_array()).count();
        let number = behind.get(if value.base == "char" { 0 } else { distance }).filter(|number| number.counts(value));
        let ahead =
            || self.parameters[..i].iter().rev().find(|number| number.counts(value) && number.name != "capacity");
        number.or_else(|| ahead().filter(|_| value.is_array())).map(|number| number.name.as_str())
    }

    /// True if NULL may be passed: for errors, parameter structs and counted arrays, to functions without a status, and
    /// if the comment of the function says that the parameter may be NULL.
    pub fn is_nullable(&self, i: usize, doc: &str, handles: &[&str]) -> bool {
        let value = &self.parameters[i];
        let is_always = value.base == "rz_error"
            || value.is_user()
            || value.is_params()
            || self.result.base != "rz_status"
            || self.count(i, handles).is_some();
        let is_pointer = value.pointers > 0 || value.is_callback();
        is_pointer && (is_always || nullable(doc).contains(&value.name))
    }

    /// True if the library may pass NULL to a callback: for its `user` pointer, and if the comment says so.
    pub fn is_nullable_in_callback(&self, i: usize, doc: &str) -> bool {
        let value = &self.parameters[i];
        value.pointers > 0 && (value.is_user() || nullable(doc).contains(&value.name))
    }

    /// True if, by the comment, the returned pointer may be NULL.
    pub fn is_result_nullable(&self, doc: &str) -> bool {
        self.result.pointers > 0 && doc.contains("or NULL")
    }

    /// True if results are only valid with certain statuses, or if the status says whether to call again.
    pub fn must_be_looked_at(&self, handles: &[&str]) -> bool {
        let writes = |i: usize| self.parameters[i].base != "rz_error" && self.direction(i, handles) != "in";
        self.result.base == "rz_status" && (self.name.ends_with("_step") || (0..self.parameters.len()).any(writes))
    }

    fn json(&self, doc: &str, handles: &[&str], is_callback: bool) -> Json {
        let parameters = self.parameters.iter().enumerate().map(|(i, value)| {
            let mut json = value.json();
            json["direction"] = Json::from(self.direction(i, handles));
            json["nullable"] = Json::from(match is_callback {
                true => self.is_nullable_in_callback(i, doc),
                false => self.is_nullable(i, doc, handles),
            });
            if let Some(count) = self.count(i, handles) {
                json["count"] = Json::from(count);
            }
            json
        });
        json!({"code": self.code, "result": self.result.code, "parameters": parameters.collect::<Vec<_>>()})
    }
}

/// Returns the names in "`a` may be NULL" and "`a` and `b` may be NULL" of a comment.
fn nullable(doc: &str) -> Vec<String> {
    let doc = doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let sentences =
        doc.match_indices("may be NULL").map(|(at, _)| &doc[doc[..at].rfind(['.', ';', ':']).unwrap_or(0)..at]);
    sentences.flat_map(|sentence| sentence.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Prefix of the names of an enum's constants, and name of the enum.
const ENUMS: [(&str, &str); 41] = [
    ("RZ_OK", "rz_status_code"),
    ("RZ_AGAIN", "rz_status_code"),
    ("RZ_DONE", "rz_status_code"),
    ("RZ_ERR_", "rz_status_code"),
    ("RZ_PLACED_", "rz_placed"),
    ("RZ_PLACE_", "rz_place"),
    ("RZ_DEVICES_MAX", "rz_limit"),
    ("RZ_DEVICE_", "rz_device_kind"),
    ("RZ_LOG_", "rz_log_level"),
    ("RZ_MODEL_", "rz_model_flag"),
    ("RZ_CAN_", "rz_capability"),
    ("RZ_THREAD_", "rz_thread_kind"),
    ("RZ_FEATURE_", "rz_feature"),
    ("RZ_HUB_", "rz_hub_flag"),
    ("RZ_TEMPLATE_", "rz_template_flag"),
    ("RZ_SAMPLING_", "rz_sampling_flag"),
    ("RZ_SOURCE_", "rz_source_kind"),
    ("RZ_TOKENIZE_", "rz_tokenize_flag"),
    ("RZ_DETOKENIZE_", "rz_detokenize_flag"),
    ("RZ_ATTR_", "rz_token_attribute"),
    ("RZ_CHAT_ADD_", "rz_chat_flag"),
    ("RZ_CHAT_EVENT_FLAG_", "rz_chat_event_flag"),
    ("RZ_CHAT_EVENT_", "rz_chat_event_kind"),
    ("RZ_FILTER_", "rz_filter"),
    ("RZ_SAMPLER_", "rz_sampler_flag"),
    ("RZ_GRAMMAR_FLAG_", "rz_grammar_flag"),
    ("RZ_GRAMMAR_", "rz_grammar_kind"),
    ("RZ_TYPE_", "rz_element_type"),
    ("RZ_MEDIA_", "rz_media_kind"),
    ("RZ_ENCODER_", "rz_encoder_flag"),
    ("RZ_PIXELS_", "rz_pixel_format"),
    ("RZ_ENCODE_", "rz_encode_flag"),
    ("RZ_PROMPT_", "rz_prompt_flag"),
    ("RZ_DRAFT_", "rz_draft_kind"),
    ("RZ_STATE_", "rz_reply_state"),
    ("RZ_END_", "rz_end_reason"),
    ("RZ_OVERFLOW_", "rz_overflow"),
    ("RZ_REASONING_", "rz_reasoning"),
    ("RZ_REPLY_", "rz_reply_flag"),
    ("RZ_POOLING_", "rz_pooling"),
    ("RZ_EMBED_", "rz_embed_flag"),
];

/// Constants that are macros: versions, which programs compare with #if, and numbers that do not fit into an int.
const MACROS: [&str; 5] = ["RZ_VERSION_", "RZ_ABI_VERSION", "RZ_TOKEN_", "RZ_NO_LIMIT", "RZ_NONE"];

/// Returns the enum of a constant; `None` for a macro. Constants are enumerators, because LuaJIT reads no macros, and
/// cffi and ctypesgen read not all of them.
pub fn enum_of(constant: &str) -> Option<&'static str> {
    let begins = |beginning: &str| constant.starts_with(beginning);
    let found = ENUMS.iter().find(|(beginning, _)| begins(beginning)).map(|(_, name)| *name);
    let is_macro = MACROS.into_iter().any(begins);
    assert!(found.is_some() != is_macro, "ENUMS and MACROS of generators/header.rs do not tell what {constant} is");
    found
}

impl Item {
    fn of(statement: &str, doc: String) -> Self {
        let flat = statement.split_whitespace().collect::<Vec<_>>().join(" ");
        let flat = flat.trim_end_matches(';');
        let item = |name: &str, kind| Self { name: name.to_owned(), doc, kind };
        if let Some(constant) = flat.strip_prefix("#define ") {
            let (name, value) = constant.split_once(' ').expect("a value");
            return item(name, Kind::Constant(value.to_owned()));
        }
        let Some(kind) = flat.strip_prefix("typedef ") else {
            let (before, parameters) = flat.split_once('(').expect("a function");
            let (result, name) = before.split_at(before.rfind([' ', '*']).expect("a name") + 1);
            return item(name, Kind::Function(Signature::of(statement, name, result, parameters)));
        };
        if let Some((result, rest)) = kind.split_once("(*") {
            let (name, parameters) = rest.split_once(")(").expect("a type of functions");
            return item(name, Kind::Callback(Signature::of(statement, name, result, parameters)));
        }
        let (of, name) = kind.rsplit_once(' ').expect("a type and its name");
        item(name, if of.starts_with("struct ") { Kind::Handle } else { Kind::Alias(of.to_owned()) })
    }

    /// True if a pointer in a field may be NULL: in structs that are initialized with zeros, for counted arrays, and if
    /// a comment says so.
    pub fn may_be_null(&self, field: &Value) -> bool {
        let Kind::Struct(fields) = &self.kind else { return false };
        let begins_as_zeros = fields[0].name == "struct_size";
        let is_pointer = field.pointers > 0 || field.is_callback();
        let is_counted = fields.iter().any(|number| number.counts(field));
        is_pointer && (begins_as_zeros || is_counted || field.doc.contains("NULL"))
    }

    fn json(&self, handles: &[&str]) -> Json {
        let mut json = json!({"name": self.name, "doc": self.doc});
        let (kind, facts) = match &self.kind {
            Kind::Constant(value) => match enum_of(&self.name) {
                Some(name) => ("constant", json!({"value": value, "enum": name})),
                None => ("constant", json!({"value": value})),
            },
            Kind::Handle => ("handle", json!({})),
            Kind::Alias(of) => ("alias", json!({"of": of})),
            Kind::Struct(fields) => ("struct", json!({"fields": fields.iter().map(Value::json).collect::<Vec<_>>()})),
            Kind::Callback(signature) => ("callback", signature.json(&self.doc, handles, true)),
            Kind::Function(signature) => ("function", signature.json(&self.doc, handles, false)),
        };
        json["kind"] = Json::from(kind);
        for (key, value) in facts.as_object().expect("an object") {
            json[key] = value.clone();
        }
        json
    }
}

impl Group {
    /// Reads C declarations with `//` comments.
    pub fn read(file: &str, title: &str, text: &str) -> Self {
        let file = file.trim_end_matches(".rs").to_owned();
        let mut group = Self { file, title: title.to_owned(), items: Vec::new() };
        let mut lines = Commented { lines: text.lines() };
        while let Some((line, doc)) = lines.next() {
            if let Some(name) = line.strip_prefix("typedef struct ").and_then(|line| line.strip_suffix(" {")) {
                let fields = lines.fields(name);
                group.items.push(Item { name: name.to_owned(), doc, kind: Kind::Struct(fields) });
                continue;
            }
            let mut statement = line.to_owned();
            while !statement.starts_with('#') && !statement.ends_with(';') {
                let (line, _) = lines.next().unwrap_or_else(|| panic!("{statement} ends"));
                statement = statement + "\n" + line;
            }
            group.items.push(Item::of(&statement, doc));
        }
        group
    }
}

/// The lines of declarations, each with the text of the comment before it.
struct Commented<'a> {
    lines: std::str::Lines<'a>,
}

impl<'a> Commented<'a> {
    fn next(&mut self) -> Option<(&'a str, String)> {
        let mut doc = Vec::new();
        for line in self.lines.by_ref() {
            match line.trim_start().strip_prefix("//") {
                Some(text) => doc.push(text.strip_prefix(' ').unwrap_or(text).trim_end()),
                None if line.is_empty() => {}
                None => return Some((line, doc.join("\n"))),
            }
        }
        None
    }

    /// Reads the fields of a struct up to its end.
    fn fields(&mut self, name: &str) -> Vec<Value> {
        let mut fields = Vec::new();
        loop {
            let (line, doc) = self.next().unwrap_or_else(|| panic!("{name} ends"));
            if line.starts_with('}') {
                return fields;
            }
            fields.push(Value::of(line.trim_end_matches(';'), doc));
        }
    }
}

/// Names of the structs that callers know by pointers alone.
pub fn handles(groups: &[Group]) -> Vec<&str> {
    let items = groups.iter().flat_map(|group| &group.items);
    items.filter(|item| matches!(item.kind, Kind::Handle)).map(|item| item.name.as_str()).collect()
}

/// Returns all declarations as JSON, one per line.
pub fn json(overview: &str, groups: &[Group]) -> String {
    let handles = handles(groups);
    let mut text = format!("{{\n\"overview\": {},\n\"groups\": [\n", Json::from(overview));
    for (i, group) in groups.iter().enumerate() {
        text += &format!("{{\"file\": {}, \"title\": {}, \"items\": [\n", json!(group.file), json!(group.title));
        let lines: Vec<_> = group.items.iter().map(|item| item.json(&handles).to_string()).collect();
        text += &lines.join(",\n");
        text += if i + 1 < groups.len() { "\n]},\n" } else { "\n]}\n" };
    }
    text + "]\n}\n"
}

/// Returns the implementations of `Layout` and `Versioned`, and the table of all structs, for `src/ffi/layout.rs`.
pub fn layouts(groups: &[Group]) -> String {
    let (mut text, mut table) = (String::new(), String::new());
    for group in groups {
        for item in &group.items {
            let Kind::Struct(fields) = &item.kind else { continue };
            let path = format!("super::{}::{}", group.file, item.name);
            let names = fields.iter().map(|field| match field.name.as_str() {
                "type" => "r#type",
                name => name,
            });
            let names: Vec<_> = names.collect();
            let reserved: Vec<_> = names.iter().copied().filter(|name| name.starts_with("reserved")).collect();
            let (kind, reserved) = match names[0] {
                "struct_size" => ("versioned", format!(", reserved [{}]", reserved.join(", "))),
                _ => ("layout", String::new()),
            };
            text += &format!("{kind}!({path}, {:?}, [{}]{reserved});\n", item.name, names.join(", "));
            table += &format!("    of::<{path}>(),\n");
        }
    }
    text + "\nconst STRUCTS: &[Struct] = &[\n" + &table + "];\n"
}
