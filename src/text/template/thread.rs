//! One-time setup of a thread that renders templates.

use minijinja::value::{Object, Serde};
use minijinja::{Environment, Value};

use crate::error::{Error, Result};
use crate::memory;

/// Minimum free bytes in the system for a thread.
const NEEDED: usize = 256 << 10;

/// Creates the interpreter's thread-locals on the calling thread. glibc aborts the process if it cannot allocate their
/// destructor entries; therefore more memory than that is requested from the system first.
pub fn prepare_thread() -> Result<()> {
    let no_memory = || Error::OutOfMemory { what: "a thread for chat templates", bytes: NEEDED as u64 };
    if !memory::system_has(NEEDED) {
        return Err(no_memory());
    }
    // Without filters, which would stay in a static of the interpreter when the library is unloaded.
    let mut environment = Environment::empty();
    let text = "{% for x in xs %}{% if x and x %}{{ x }}{% endif %}{% endfor %}";
    // Compiling creates the first thread-local, passing values the second.
    let rendered = environment.add_template("t", text).and_then(|()| {
        let xs = Value::from(Serde([Value::from_object(Nothing)]));
        environment.get_template("t")?.render(Value::from_pairs([("xs", xs)]))
    });
    rendered.map(|_| ()).map_err(|_| no_memory())
}

/// A value that is passed as an object.
#[derive(Debug)]
struct Nothing;

impl Object for Nothing {}
