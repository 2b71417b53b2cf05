// Writes what the addon reads of realizar.h:  node layouts.js include/realizar.h FOLDER
// layouts.inc: the structs; functions.inc: the functions that the files next to this one call.
const fs = require("node:fs");
const path = require("node:path");

const [header, folder] = process.argv.slice(2);
const text = fs.readFileSync(header, "utf8").replace(/\/\*[^]*?\*\//g, "");
// Memory and kernels are for engines in C or Rust.
const unused = new Set(["rz_allocator", "rz_attention_params", "rz_kv_params"]);
const layouts = [];
for (const [, name, body] of text.matchAll(/typedef struct (\w+) \{([^}]*)\}/g)) {
  if (unused.has(name)) continue;
  layouts.push(`STRUCT(${name})`);
  for (const [, field] of body.matchAll(/(\w+)(?:\[\d+\])?;/g)) layouts.push(`FIELD(${name}, ${field})`);
}

const sources = fs.readdirSync(__dirname).filter((name) => name.endsWith(".c"));
const code = sources.map((name) => fs.readFileSync(path.join(__dirname, name), "utf8")).join("");
const called = new Set([...code.matchAll(/\blib->(rz_\w+)/g)].map(([, name]) => name));
const functions = [...called].sort().map((name) => `FUNCTION(${name})`);

fs.writeFileSync(path.join(folder, "layouts.inc"), `${layouts.join("\n")}\n`);
fs.writeFileSync(path.join(folder, "functions.inc"), `${functions.join("\n")}\n`);
