//! What a thread that renders templates needs once.

use minijinja::value::{Object, Serde};
use minijinja::{Environment, Value};

use crate::error::{Error, Result};
use crate::memory;

/// Bytes that the system has to have left for a thread.
const NEEDED: usize = 256 << 10;

/// Makes the thread-locals of the interpreter on the calling thread. glibc ends the process where it has no memory for
/// their destructors, a few words each, so that the system is asked for more than that first.
pub fn prepare_thread() -> Result<()> {
    let no_memory = || Error::OutOfMemory { what: "a thread for chat templates", bytes: NEEDED as u64 };
    if !memory::system_has(NEEDED) {
        return Err(no_memory());
    }
    // Without filters, which would stay in a static of the interpreter when the library is unloaded.
    let mut environment = Environment::empty();
    let text = "{% for x in xs %}{% if x and x %}{{ x }}{% endif %}{% endfor %}";
    // The first is what compiling keeps, the second what values are handed over by.
    let rendered = environment.add_template("t", text).and_then(|()| {
        let xs = Value::from(Serde([Value::from_object(Nothing)]));
        environment.get_template("t")?.render(Value::from_pairs([("xs", xs)]))
    });
    rendered.map(|_| ()).map_err(|_| no_memory())
}

/// A value that is handed over as what it is.
#[derive(Debug)]
struct Nothing;

impl Object for Nothing {}
