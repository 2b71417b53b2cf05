//! The options in Swift.

use super::{Group, Kind, camel, literal, longer, sampling, wrapped};

const SAMPLING: &str = "
/// Sampling parameters. Zero turns a feature off; all zeros choose the most likely token (greedy decoding).
public struct Sampling: Sendable, Equatable {
";

const INIT: &str = "
    public init(temperature: Float = 0, topP: Float = 0, seed: UInt64 = 0) {
        self.temperature = temperature
        self.topP = topP
        self.seed = seed
    }
";

/// Options whose values the package converts, and initializers.
const OWN: [(&str, &str); 5] = [
    (
        "Load",
        "    /// Shared runtime; nil: its own.
    public var runtime: Runtime?
    /// GPUs that share the layers, in this order; none: `device`.
    public var devices: [Int] = []
    /// Relative shares of `devices`; none: by free memory.
    public var shares: [Float] = []
    /// Expert offload; none: experts are where their layer is.
    public var placements: [Placement] = []
    /// Gets bytes done and in total, on the loading thread; false stops the load.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?
    /// File of packed weights, created by the first load and mapped by later loads.
    public var packedPath: String?
    /// File that records passed GPU self-tests, so that later processes skip them.
    public var testedPath: String?
    /// Jinja chat template; nil: the model's own.
    public var chatTemplate: String?

    public init(runtime: Runtime? = nil) { self.runtime = runtime }
",
    ),
    (
        "Encoder",
        "    /// The encoder of a file that has several; nil: vision, else audio.
    public var kind: MediaKind?
    /// Ignores unknown keys and tensors.
    public var allowUnknown = false
    /// Gets bytes done and in total, on the loading thread; false stops the load.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?

    public init() {}
",
    ),
    (
        "Media",
        "    /// Gets tiles done and in total; false stops the call.
    public var progress: (@Sendable (UInt64, UInt64) -> Bool)?
    /// True: `Media.step` encodes in time slices, without `progress`.
    public var inSteps = false

    public init() {}
",
    ),
    (
        "Reply",
        "    /// Nil: the recommended sampling parameters for a reply, greedy for other text.
    public var sampling: Sampling?
    /// Stop sequences: the text, or a reply's content, ends before the first one.
    public var stops: [String]
    public var grammar: Grammar?
    public var draft: Draft
    /// Tools, the choice among them and variables of one reply: \"tools\", \"tool_choice\", \"parallel_tool_calls\",
    /// \"variables\". Tools replace the conversation's ([]: none), variables are set in addition to its own. Nil:
    /// all as the conversation has it.
    public var members: JSON?

    public init(
        sampling: Sampling? = nil, maxTokens: Int = 0, stops: [String] = [], grammar: Grammar? = nil, draft: Draft = .none
    ) {
        self.sampling = sampling
        self.maxTokens = maxTokens
        self.stops = stops
        self.grammar = grammar
        self.draft = draft
    }
",
    ),
    (
        "Store",
        "    /// A folder of files that outlive the process, created if it is missing; nil: none.
    public var path: String?

    public init(minTokens: Int = 0, path: String? = nil) {
        self.minTokens = minTokens
        self.path = path
    }
",
    ),
];

pub fn swift(groups: &[Group]) -> String {
    let mut text = "// The options of calls. The build writes this file: make header.\nimport CRealizar\n".to_owned();
    for group in groups {
        if let Some((_, own)) = OWN.iter().find(|(name, _)| *name == group.name) {
            let (doc, name) = match group.name {
                "Reply" => ("Options of a generation or a reply", ""),
                name => ("Options", name),
            };
            text +=
                &format!("\n/// {doc}; zero and nil mean the defaults.\npublic struct {name}Options: Sendable {{\n");
            text += &structure(group, own);
        }
        if group.name == "Job" {
            let (_, sets) = members(group);
            text += &format!("\nextension Options {{{}}}\n", numbers("jobNumbers", group, &sets));
        }
    }
    text + SAMPLING + &structure(sampling(groups), INIT)
}

/// Returns the options of a struct, and the code that converts its numbers.
fn structure(group: &Group, own: &str) -> String {
    let (text, sets) = members(group);
    format!("{text}{own}{}}}\n", numbers("numbers", group, &sets))
}

fn numbers(function: &str, group: &Group, sets: &str) -> String {
    let structure = group.structure;
    format!(
        "\n    /// The numbers as the library takes them.\n    func {function}() throws -> {structure} {{\n        var params \
        = sizedStruct({structure}())\n{sets}        return params\n    }}\n"
    )
}

/// Returns the options, and the lines that convert them.
fn members(group: &Group) -> (String, String) {
    let (mut text, mut sets) = (String::new(), String::new());
    for setting in &group.settings {
        let (field, name) = (&setting.name, longer(&camel(&setting.name)));
        let name = match name.as_str() {
            "keep" | "continue" => name + "s",
            _ => name,
        };
        let doc = group.doc(setting, camel).replace("absent:", "nil:").replace("\"model\"", "`.model`");
        if !doc.is_empty() {
            text += &wrapped(&doc, "    /// ").join("\n");
            text += "\n";
        }
        let (declared, value) = match (setting.kind, setting.value.base.as_str()) {
            (Kind::Whole, "uint64_t") => (": UInt64 = 0".to_owned(), name.clone()),
            (Kind::Whole, _) if field == "background" => (": UInt32 = 0".to_owned(), name.clone()),
            (Kind::Whole, "size_t") => (" = 0".to_owned(), format!("Int(try whole({name}, \"{name}\"))")),
            (Kind::Whole, "int32_t") => (" = 0".to_owned(), format!("try signed({name}, \"{name}\")")),
            (Kind::Whole, _) => (" = 0".to_owned(), format!("try whole({name}, \"{name}\")")),
            (Kind::OrNone, _) => (": Int?".to_owned(), format!("try orNone({name}, \"{name}\")")),
            (Kind::Real, _) => (": Float = 0".to_owned(), format!("try real({name}, \"{name}\")")),
            (Kind::Choice(begin), _) => {
                let (first, _) = group.choices(begin).next().expect("a choice");
                (format!(" = {}.{first}", literal(begin)), format!("{name}.rawValue"))
            }
            (Kind::Flag(constant), _) => {
                sets += &format!("        if {name} {{ params.flags |= UInt32({constant}) }}\n");
                (" = false".to_owned(), String::new())
            }
            (Kind::Sequences, _) => (": [[UInt32]] = []".to_owned(), String::new()),
            (Kind::Biases, _) => (": [UInt32: Float] = [:]".to_owned(), String::new()),
            (Kind::Choices(_), _) => (": [Filter] = []".to_owned(), String::new()),
        };
        text += &format!("    public var {name}{declared}\n");
        if !value.is_empty() {
            sets += &format!("        params.{field} = {value}\n");
        }
    }
    (text, sets)
}
