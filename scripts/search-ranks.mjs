// Searches a built site with the search worker that its theme runs in browsers, and compares the first page of each
// result with a table:  node scripts/search-ranks.mjs FOLDER TABLE
// A line of the table is a query, a tab, and the page that must rank first; alternatives are separated by spaces.
import { readFileSync, readdirSync } from "node:fs";
import { join } from "node:path";
import vm from "node:vm";

const [folder, table] = process.argv.slice(2);
const workers = join(folder, "assets/javascripts/workers");
const worker = readdirSync(workers).find((name) => /^search\..*\.js$/.test(name));
const { config, docs } = JSON.parse(readFileSync(join(folder, "search/search_index.json"), "utf8"));

let receive;
let answer;
const context = vm.createContext({
  console: { warn() {} },
  addEventListener: (_, listener) => (receive = listener),
  postMessage: (message) => answer(message),
});
context.self = context;
vm.runInContext(readFileSync(join(workers, worker), "utf8"), context);
const ask = (message) =>
  new Promise((resolve) => {
    answer = resolve;
    receive({ data: message });
  });

await ask({ type: 0, data: { config, docs, options: { suggest: false } } });
const page = (item) => item.location.replace(/#.*/, "");
const rows = readFileSync(table, "utf8").split("\n").filter((line) => line && !line.startsWith("#"));
let wrong = 0;
for (const row of rows) {
  const [query, pages] = row.split("\t");
  const wanted = pages.trim().split(" ");
  for (const name of wanted) {
    if (!docs.some((doc) => doc.location === name)) throw new Error(`${table}: the site has no page ${name}`);
  }
  const { items } = (await ask({ type: 2, data: query })).data;
  const found = items.slice(0, 3).map((group) => page(group[0]));
  if (!wanted.includes(found[0])) {
    wrong += 1;
    console.log(`"${query}" finds ${found.join(", ") || "nothing"}; it must find ${wanted.join(" or ")} first`);
  }
}
console.log(`${rows.length} queries, ${wrong} wrong`);
process.exit(wrong || rows.length < 40 ? 1 : 0);
