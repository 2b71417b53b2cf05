// Markdown of answers as sanitized HTML. What a model writes is not trusted: only the tags and attributes listed here
// remain, links lead to web and mail addresses only, and images become links, so that an answer cannot load anything.
import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import csharp from "highlight.js/lib/languages/csharp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import kotlin from "highlight.js/lib/languages/kotlin";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import swift from "highlight.js/lib/languages/swift";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { Marked, type Token, type Tokens, type TokensList } from "marked";
import temml from "temml";
import { newId } from "./conversation";

const languages = { bash, c, cpp, csharp, css, diff, go, ini, java, javascript, json, kotlin, python, rust, sql, swift, typescript, xml, yaml };
for (const [name, language] of Object.entries(languages)) hljs.registerLanguage(name, language);

const longestHighlighted = 50_000; // characters of a code block; longer ones stay plain

const escapes: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
const escape = (text: string): string => text.replace(/[&<>"']/g, (one) => escapes[one]!);

function highlighted(text: string, language: string): string {
  if (!hljs.getLanguage(language) || text.length > longestHighlighted) return escape(text);
  return hljs.highlight(text, { language, ignoreIllegals: true }).value;
}

const codeBlock = (text: string, language: string): string =>
  `<pre><code class="hljs language-${escape(language || "text")}">${highlighted(text, language)}</code></pre>`;

// Mathematics in LaTeX: $...$ and \(...\) within a line, $$...$$ and \[...\] on their own. As in Pandoc, a dollar sign
// next to a space or before a digit is no delimiter, so that prices stay texts. Lengths are bounded, so that the search
// for an end stays linear.
const displayed = /^(?:\$\$([^$]{1,4000}?)\$\$|\\\[([^]{1,4000}?)\\\])/;
const inline = /^(?:\\\(([^]{1,1000}?)\\\)|\$(?![\s$])((?:\\.|[^\\$\n]){1,1000}?)(?<!\s)\$(?!\d))/;

function mathToken(type: string, raw: string, tex: string, display: boolean): Tokens.Generic {
  return { type, raw, tex, display };
}

/** The class of MathML that is made here. It cannot be guessed, so that <math> of a model is told from it. */
const ours = `math-${newId()}`;

/** MathML, which browsers render themselves; LaTeX with an error stays as it is. */
function mathHtml({ raw, tex, display }: Tokens.Generic): string {
  try {
    const html = temml.renderToString(tex, { displayMode: display, throwOnError: true, trust: false, maxSize: [40, 40], maxExpand: 500 });
    // The policy of the page forbids styles.
    return html.replaceAll(/ style="[^"]*"/g, "").replace(/^<math(?: class="[^"]*")?/, `<math class="${ours}" display="${display ? "block" : "inline"}"`);
  } catch {
    return `<code>${escape(raw.trim())}</code>`;
  }
}

const marked = new Marked({
  gfm: true,
  extensions: [
    {
      name: "displayed",
      level: "block",
      start: (text: string) => /\n(?:\$\$|\\\[)/.exec(text)?.index,
      tokenizer: (text: string) => {
        const found = displayed.exec(text);
        const rest = found && /^[ \t]*(?:\n+|$)/.exec(text.slice(found[0].length));
        return rest ? mathToken("displayed", found[0] + rest[0], found[1] ?? found[2]!, true) : undefined;
      },
      renderer: (token: Tokens.Generic) => `<p>${mathHtml(token)}</p>`,
    },
    {
      name: "math",
      level: "inline",
      start: (text: string) => /\$|\\[[(]/.exec(text)?.index,
      tokenizer: (text: string) => {
        const block = displayed.exec(text);
        const found = block ?? inline.exec(text);
        return found ? mathToken("math", found[0], found[1] ?? found[2]!, block !== null) : undefined;
      },
      renderer: mathHtml,
    },
  ],
  renderer: {
    code: ({ text, lang }) => codeBlock(text, (lang ?? "").match(/^[\w+#.-]+/)?.[0].toLowerCase() ?? ""),
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

const tags =
  "a b blockquote br code del details em h1 h2 h3 h4 h5 h6 hr i kbd li mark ol p pre s small span strong sub summary sup table tbody td th thead tr u ul".split(" ");
const mathTags =
  "math merror mfrac mi mmultiscripts mn mo mover mpadded mphantom mprescripts mroot mrow ms mspace msqrt mstyle msub msubsup msup mtable mtd mtext mtr munder munderover semantics".split(" ");
const mathAttributes =
  "accent accentunder columnalign columnspan depth display displaystyle fence form height largeop linethickness lspace mathvariant maxsize minsize movablelimits rowspan rspace scriptlevel separator stretchy symmetric voffset width".split(" ");

const purify = DOMPurify(window);
purify.addHook("uponSanitizeElement", (node, { tagName }) => {
  if (tagName === "math" && !(node as Element).classList.contains(ours)) node.parentNode?.removeChild(node);
});
purify.addHook("afterSanitizeAttributes", (node) => {
  const classes = (node.getAttribute("class") ?? "").split(/\s+/).filter((name) => /^(hljs(-[\w-]+)?|language-[\w+#.-]+)$/.test(name));
  if (classes.length) node.setAttribute("class", classes.join(" "));
  else node.removeAttribute("class");
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
});

function sanitized(html: string): string {
  return purify.sanitize(html, {
    ALLOWED_TAGS: [...tags, ...mathTags],
    ALLOWED_ATTR: ["align", "class", "href", "start", "title", ...mathAttributes],
    ADD_URI_SAFE_ATTR: mathAttributes,
    ALLOWED_URI_REGEXP: /^(?:https?:|mailto:)/i,
    ALLOW_DATA_ATTR: false,
    ALLOW_ARIA_ATTR: false,
    RETURN_TRUSTED_TYPE: true,
  }) as unknown as string;
}

/** A block of Markdown, such as a paragraph. Blocks before the last one stay equal while an answer grows. */
export interface Block {
  raw: string;
  html: string;
}

/** The blocks of a text; those of `known` with equal sources are used again. */
export function blocks(text: string, known: Block[]): Block[] {
  const tokens = marked.lexer(text);
  const all: Block[] = [];
  for (const token of tokens as Token[]) {
    if (token.type === "space" || token.type === "def") continue;
    const old = known[all.length];
    all.push(old && old.raw === token.raw ? old : { raw: token.raw, html: sanitized(marked.parser(Object.assign([token], { links: tokens.links }) as TokensList)) });
  }
  return all;
}

/** Highlighted JSON; other texts as they are. */
export function jsonBlock(text: string): Block {
  let pretty = text;
  try {
    pretty = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // incomplete
  }
  return { raw: text, html: sanitized(codeBlock(pretty, "json")) };
}
