//! The options in Go.

use super::{Group, Kind, Setting, literal, wrapped};
use crate::bindings::go_columns;

pub const HEAD: &str = "\
// Code generated from realizar.h by the build, as make header does. DO NOT EDIT.

package realizar
";

const SAMPLING: &str =
    "// Sampling has the sampling parameters. Zero in a field disables it; the zero value means greedy decoding.";

/// Names of types that differ from the group's name followed by `Options`.
const TYPES: [(&str, &str); 2] = [("Sampling", "Sampling"), ("Cache", "SessionOptions")];

/// Words in names that are written in upper case, and their spelling.
const INITIALS: [(&str, &str); 20] = [
    ("bf16", "BF16"),
    ("bos", "BOS"),
    ("cls", "CLS"),
    ("cpu", "CPU"),
    ("cpus", "CPUs"),
    ("dry", "DRY"),
    ("eos", "EOS"),
    ("ffn", "FFN"),
    ("gbnf", "GBNF"),
    ("gpu", "GPU"),
    ("id", "ID"),
    ("isa", "ISA"),
    ("json", "JSON"),
    ("kv", "KV"),
    ("mtp", "MTP"),
    ("rgb8", "RGB8"),
    ("rgba8", "RGBA8"),
    ("bgra8", "BGRA8"),
    ("xtc", "XTC"),
    ("biases", "LogitBias"),
];

/// Fields with the C type, for which every number is valid.
const AS_IN_C: [&str; 2] = ["device", "background"];

/// Additional fields of structs: declarations, whose values the package converts.
const OWN: [(&str, &str); 7] = [
    (
        "Runtime",
        "\
\tCPUs []uint32                             // CPUs that threads are pinned to; nil: not pinned
\tLog  func(level LogLevel, message string) // called from any goroutine or thread, several at once; a panic of it is lost
",
    ),
    (
        "Load",
        "\
\tRuntime      *Runtime    // threads, log and limits to share; nil: its own
\tThreads      int         // without a Runtime; 0: as in RuntimeOptions
\tDevices      []uint32    // GPUs that share the layers, in this order; instead of Device
\tShares       []float32   // relative shares of Devices; nil: by free memory
\tPlacements   []Placement // expert offload; nil: experts are where their layer is
\tPackedPath   string      // file of packed weights, made by the first load and mapped by later ones; \"\": none
\tTestedPath   string      // file that records passed GPU self-tests for later processes; \"\": none
\tChatTemplate string      // Jinja chat template; \"\": the model's own

\tProgress func(done, total uint64) error // gets bytes; an error ends the load; may be nil
",
    ),
    (
        "Encoder",
        "\
\tKind         MediaKind // the encoder of a file that has several; 0: vision, else audio
\tAllowUnknown bool      // ignore unknown keys and tensors

\tProgress func(done, total uint64) error // gets bytes; an error ends the load; may be nil
",
    ),
    (
        "Media",
        "\
\t// InSteps: [Media.Step] encodes, until the context ends. Prompts reject the media until it is done. Progress is not
\t// called.
\tInSteps bool

\tProgress func(done, total uint64) error // gets tiles; an error ends the call; may be nil
",
    ),
    (
        "Job",
        "\
\tSampler    *Sampler    // copied as it is now; nil: greedy decoding
\tGrammar    *Grammar    // constrains the text, from its start; nil: the sampler's grammar
\tStops      []string    // stop sequences, not empty; the text, or a reply's content, ends before the first one
\tDraft      Draft       // speculative decoding, with an unchanged result
\tDraftModel *Model      // if Draft is DraftModel: a small model with the same vocabulary
\tChat       *Transcript // parse the reply to it into Parts; the prompt must end with its tokens; nil: text

\t// Prompt replaces tokens, which must be nil, from index PromptFirst on, as in Session.PrefillPrompt.
\tPrompt      *Prompt
\tPromptFirst int
",
    ),
    ("Store", "\tPath string // folder of files that outlive the process, created if missing; \"\": none\n"),
    (
        "Reply",
        "\
\tSampling     *Sampling   // nil: the model's recommended sampling parameters, or else greedy
\tGrammarKind  GrammarKind // of Grammar, for the content; 0: the tool call grammar if there are tools
\tGrammarFlags GrammarFlags
\tGrammar      string
\tCompiled     *Grammar // instead of Grammar, compiled before; a GrammarTools grammar is for the whole reply
\tStops        []string // stop sequences, not empty; the content ends before the first one
\tDraft        Draft    // speculative decoding, with an unchanged result
\tDraftModel   *Model   // if Draft is DraftModel: a small model with the same vocabulary

\t// For this reply, instead of the conversation's; nil: the conversation's.
\tTools             []any          // as in [Transcript]; an empty list: none
\tToolChoice        any            // as in [Transcript]
\tParallelToolCalls *bool          // as in [Transcript]
\tVariables         map[string]any // of the template, in addition to the conversation's
",
    ),
];

/// Returns a C name in Go's form: `GPULayers` for `gpu_layers`.
pub fn pascal(name: &str) -> String {
    let word = |word: &str| match INITIALS.iter().find(|(small, _)| *small == word) {
        Some((_, capitals)) => (*capitals).to_owned(),
        None => word[..1].to_uppercase() + &word[1..],
    };
    name.split('_').map(word).collect()
}

pub fn go(groups: &[Group]) -> String {
    HEAD.to_owned() + "\nimport \"unsafe\"\n" + &groups.iter().map(options).collect::<String>()
}

/// Returns the struct of a group, and the code that converts its numbers.
fn options(group: &Group) -> String {
    let structure = group.structure;
    let found = TYPES.iter().find(|(of, _)| *of == group.name);
    let name = found.map_or_else(|| format!("{}Options", group.name), |(_, name)| (*name).to_owned());
    let own = OWN.iter().find(|(of, _)| *of == group.name).map_or(String::new(), |(_, text)| format!("\n{text}"));
    let fields = group.settings.iter().map(|setting| {
        let doc = from_none(&group.doc(setting, pascal));
        Field { doc, name: pascal(&setting.name), kind: go_type(setting) }
    });
    let sets: String = group.settings.iter().map(set).collect();
    let counts = if sets.contains("counts") { ("\tvar counts counts\n", "counts.err") } else { ("", "nil") };
    format!(
        "\n{what}\ntype {name} struct {{\n{fields}{own}}}\n\n\
        func (o *{name}) params() (params {structure}, err error) {{\n{}\tparams.struct_size = \
        uint32(unsafe.Sizeof(params))\n\tif o == nil {{\n\t\treturn params, nil\n\t}}\n{sets}\treturn params, {}\n}}\n",
        counts.0,
        counts.1,
        what = match group.name {
            "Sampling" => SAMPLING.to_owned(),
            _ => format!("// {name} are optional; the zero value means the defaults."),
        },
        fields = declared(fields.collect()),
    )
}

/// A field of a Go struct.
pub struct Field {
    pub doc: String,
    pub name: String,
    pub kind: String,
}

/// Returns the fields as gofmt formats them: alignment ends at a comment.
pub fn declared(fields: Vec<Field>) -> String {
    let runs = fields.chunk_by(|_, next| next.doc.is_empty());
    let text = runs.map(|run| {
        let doc = if run[0].doc.is_empty() { String::new() } else { wrapped(&run[0].doc, "\t// ").join("\n") + "\n" };
        doc + &go_columns(run.iter().map(|field| (field.name.clone(), field.kind.clone())).collect())
    });
    text.collect()
}

/// Returns `0: A; absent: B` in Go's terms: `0: B; None: A`.
fn from_none(doc: &str) -> String {
    let parts = doc.split_once("0: ").and_then(|(text, rest)| Some((text, rest.split_once("; absent: ")?)));
    match parts {
        Some((text, (zero, absent))) => {
            format!("{text}0: {}; None: {zero}.", absent.trim_end_matches('.'))
        }
        None => doc.to_owned(),
    }
}

fn go_type(setting: &Setting) -> String {
    match setting.kind {
        Kind::Whole if AS_IN_C.contains(&setting.name.as_str()) => "uint32".to_owned(),
        Kind::Whole => match setting.value.base.as_str() {
            "uint64_t" => "uint64".to_owned(),
            "int32_t" => "int32".to_owned(),
            _ => "int".to_owned(),
        },
        Kind::OrNone => "int".to_owned(),
        Kind::Real => "float32".to_owned(),
        Kind::Flag(_) => "bool".to_owned(),
        Kind::Choice(begin) => literal(begin),
        Kind::Choices(begin) => format!("[]{}", literal(begin)),
        Kind::Sequences => "[][]uint32".to_owned(),
        Kind::Biases => "map[uint32]float32".to_owned(),
    }
}

/// Returns the code that sets the C field; the package sets lists.
fn set(setting: &Setting) -> String {
    let (name, field) = (pascal(&setting.name), &setting.value.name);
    let value = match (setting.kind, go_type(setting).as_str()) {
        (Kind::Whole, "int") if setting.value.base == "size_t" => format!("uintptr(counts.of(o.{name}, \"{name}\"))"),
        (Kind::Whole, "int") => format!("counts.of(o.{name}, \"{name}\")"),
        (Kind::Whole | Kind::Real, _) => format!("o.{name}"),
        (Kind::OrNone, _) => format!("counts.orNone(o.{name}, \"{name}\")"),
        (Kind::Choice(_), _) => format!("uint32(o.{name})"),
        (Kind::Flag(constant), _) => {
            let constant = constant.replacen("RZ_", "rz_", 1);
            return format!("\tif o.{name} {{\n\t\tparams.flags |= {constant}\n\t}}\n");
        }
        (Kind::Sequences | Kind::Biases | Kind::Choices(_), _) => return String::new(),
    };
    format!("\tparams.{field} = {value}\n")
}
