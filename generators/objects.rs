//! Writes the part of the C# classes that holds and frees a handle.

use super::bindings::csharp_handle;

/// Path of the generated file, below the root.
pub const FILE: &str = "bindings/csharp/Realizar/Objects.cs";

/// A public class that holds a handle.
struct Class {
    handle: &'static str,
    name: &'static str,
    /// True if the class has no other members, so that an object can be created from the pointer.
    is_plain: bool,
    free: Free,
}

enum Free {
    /// Frees the object, with this comment.
    Now(&'static str),
    /// Frees the object after a call of another thread, which the method `Closed` of the class ends.
    Ends,
}

const OBJECT: &str = "Frees the object.";

const fn plain(handle: &'static str, name: &'static str) -> Class {
    Class { handle, name, is_plain: true, free: Free::Now(OBJECT) }
}

const fn made(handle: &'static str, name: &'static str, free: Free) -> Class {
    Class { handle, name, is_plain: false, free }
}

const CLASSES: [Class; 14] = [
    plain("rz_adapter", "Adapter"),
    made("rz_cache", "Session", Free::Ends),
    plain("rz_chat_parser", "ChatParser"),
    made("rz_conversation", "Conversation", Free::Ends),
    made("rz_encoder", "Encoder", Free::Now(OBJECT)),
    plain("rz_grammar", "Grammar"),
    made("rz_job", "Job", Free::Ends),
    made("rz_media", "Media", Free::Now(OBJECT)),
    made(
        "rz_model",
        "Model",
        Free::Now("Ends the use of the model. Sessions remain usable; the last one frees the memory."),
    ),
    plain("rz_prompt", "Prompt"),
    made("rz_runtime", "Runtime", Free::Now("Frees the object. Models keep what they need of it.")),
    made("rz_sampler", "Sampler", Free::Now(OBJECT)),
    made("rz_store", "Store", Free::Now("Frees the object, once all files are written.")),
    plain("rz_textstream", "TextStream"),
];

pub fn csharp() -> String {
    let mut text = "\
// Objects hold a handle of the library, and free it. The build writes this file: make header.
using System;

namespace Realizar
{"
    .to_owned();
    for Class { handle, name, is_plain, free } in CLASSES {
        let class = csharp_handle(handle);
        text += &format!("\n    public sealed partial class {name} : IDisposable\n    {{\n");
        text += &format!("        private readonly {class} handle = new {class}();\n");
        text += &format!("        internal {class} Handle => Native.Open(handle, nameof({name}));\n");
        if is_plain {
            text += &format!("\n        internal {name}(IntPtr pointer) {{ handle.Take(pointer); }}\n");
        }
        text += &match free {
            Free::Now(doc) => format!(
                "\n        /// <summary>{doc}</summary>\n        public void Dispose() {{ handle.Dispose(); }}\n"
            ),
            Free::Ends => ENDS.replace("NAME", &name.to_lowercase()),
        };
        text += "    }\n";
    }
    text + "}\n"
}

const ENDS: &str = "
        /// <summary>Frees the NAME. A call of another thread ends within milliseconds.</summary>
        public void Dispose()
        {
            if (handle.IsClosed) return;
            handle.Dispose(); // freed after a call that uses it
            Closed();
        }

        /// <summary>Ends the calls that use the NAME.</summary>
        partial void Closed();
";
