// Writes the structs of realizar.h as a table for library.c:  node layouts.js include/realizar.h >layouts.inc
const text = require("fs")
  .readFileSync(process.argv[2], "utf8")
  .replace(/\/\*[^]*?\*\//g, "");
// Memory and kernels are for engines in C or Rust.
const unused = new Set(["rz_allocator", "rz_attention_params", "rz_kv_params"]);
for (const [, name, body] of text.matchAll(/typedef struct (\w+) \{([^}]*)\}/g)) {
  if (unused.has(name)) continue;
  console.log(`STRUCT(${name})`);
  for (const [, field] of body.matchAll(/(\w+)(?:\[\d+\])?;/g)) console.log(`FIELD(${name}, ${field})`);
}
