// Bundles the page:  node build.mjs SOURCES OUTPUT
// Versions are those of package-lock.json, so that the same sources give the same bytes.
import { build } from "esbuild";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";

const [sources, output] = process.argv.slice(2);
await mkdir(output, { recursive: true });
await build({
  entryPoints: { page: `${sources}/main.tsx` },
  outdir: output,
  bundle: true,
  minify: true,
  format: "esm",
  target: ["chrome123", "firefox120", "safari17.5"],
  jsx: "automatic",
  jsxImportSource: "preact",
  charset: "utf8",
  legalComments: "none", // licenses.txt has the licenses
  logLevel: "warning",
});
await build({ entryPoints: [`${sources}/page.css`], outdir: output, minify: true, logLevel: "warning" });
for (const name of ["index.html", "icon.svg"]) await copyFile(`${sources}/${name}`, `${output}/${name}`);
let licenses = "The page of this server contains these packages.\n";
for (const [name, file] of [["preact", "LICENSE"], ["marked", "LICENSE"], ["dompurify", "LICENSE"], ["highlight.js", "LICENSE"], ["temml", "LICENSE"]]) {
  const { version, license } = JSON.parse(await readFile(`node_modules/${name}/package.json`, "utf8"));
  licenses += `\n${"=".repeat(80)}\n${name} ${version} (${license})\n\n${await readFile(`node_modules/${name}/${file}`, "utf8")}`;
}
await writeFile(`${output}/licenses.txt`, licenses);
