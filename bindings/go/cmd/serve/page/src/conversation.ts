// Conversations as trees of messages: branches, the request for an answer, import and export. Nothing here changes a
// conversation in place.
import type { Attachment, Conversation, Message, Settings } from "./types";

export const samplingFields: { name: string; label: string; min: number; max: number; step: number }[] = [
  { name: "temperature", label: "Temperature", min: 0, max: 2, step: 0.05 },
  { name: "top_p", label: "Top-p", min: 0, max: 1, step: 0.01 },
  { name: "top_k", label: "Top-k", min: 0, max: 100000, step: 1 },
  { name: "min_p", label: "Min-p", min: 0, max: 1, step: 0.01 },
  { name: "repetition_penalty", label: "Repetition penalty", min: 0, max: 2, step: 0.05 },
  { name: "presence_penalty", label: "Presence penalty", min: -2, max: 2, step: 0.1 },
  { name: "frequency_penalty", label: "Frequency penalty", min: -2, max: 2, step: 0.1 },
  { name: "max_completion_tokens", label: "Maximum tokens", min: 1, max: 10000000, step: 1 },
  { name: "seed", label: "Seed", min: 0, max: Number.MAX_SAFE_INTEGER, step: 1 },
];

export const efforts = ["", "none", "minimal", "low", "medium", "high", "max"];
export const toolChoices = ["auto", "none", "required"];

export function newId(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export function emptySettings(model: string): Settings {
  return { model, system: "", effort: "", tools: "", toolChoice: "auto", schema: "", sampling: {} };
}

export function newConversation(settings: Settings): Conversation {
  const now = Date.now();
  return { id: newId(), title: "New chat", created: now, updated: now, messages: {}, leaf: null, settings };
}

/** The shown messages, from the first to the last. */
export function branch(conversation: Conversation): Message[] {
  const path: Message[] = [];
  for (let id = conversation.leaf; id !== null; ) {
    const message: Message | undefined = conversation.messages[id];
    if (!message || path.includes(message)) break;
    path.push(message);
    id = message.parent;
  }
  return path.reverse();
}

/** All versions of a message: the children of its parent, oldest first. */
export function versions(conversation: Conversation, message: Message): Message[] {
  return Object.values(conversation.messages)
    .filter((other) => other.parent === message.parent)
    .sort((a, b) => a.created - b.created);
}

/** The conversation with a message at the end of the shown branch, or below another parent. */
export function append(conversation: Conversation, message: Omit<Message, "id" | "created" | "parent">, parent = conversation.leaf): [Conversation, string] {
  const id = newId();
  const created = Math.max(Date.now(), ...Object.values(conversation.messages).map((other) => other.created + 1));
  const messages = { ...conversation.messages, [id]: { ...message, id, parent, created } };
  return [{ ...conversation, messages, leaf: id, updated: Date.now() }, id];
}

/** The conversation that shows a version of a message and its latest continuation. */
export function showVersion(conversation: Conversation, message: Message): Conversation {
  let leaf = message.id;
  for (;;) {
    const children = Object.values(conversation.messages).filter((other) => other.parent === leaf);
    if (children.length === 0) return { ...conversation, leaf };
    leaf = children.reduce((a, b) => (b.created > a.created ? b : a)).id;
  }
}

/** Calls of the last answer that have no result yet. */
export function openCalls(conversation: Conversation): Message | null {
  const last = branch(conversation).at(-1);
  return last?.role === "assistant" && last.calls?.length && !last.error && last.finish !== "stopped" ? last : null;
}

export function titleOf(text: string): string {
  const line = text.trim().split("\n", 1)[0]!.trim();
  return line.length > 60 ? `${line.slice(0, 59)}…` : line || "New chat";
}

/** Parses JSON of a settings field; the error names the field. */
function parse(text: string, field: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${field} is not JSON: ${(error as Error).message}`);
  }
}

/** The tools of a request: entries may be whole tools, or functions only. */
export function parseTools(text: string): unknown[] {
  if (!text.trim()) return [];
  const value = parse(text, "Tools");
  const list = Array.isArray(value) ? value : [value];
  return list.map((tool) => {
    if (typeof tool !== "object" || tool === null) throw new Error("Tools must be a JSON object or a list of objects.");
    return "type" in tool && ("function" in tool || "custom" in tool) ? tool : { type: "function", function: tool };
  });
}

export function parseSchema(text: string): object | null {
  if (!text.trim()) return null;
  const value = parse(text, "The JSON schema");
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error("The JSON schema must be a JSON object.");
  return value;
}

function part(file: Attachment): object {
  if (file.kind === "image") return { type: "image_url", image_url: { url: file.url } };
  if (file.kind === "text") return { type: "file", file: { filename: file.name, file_data: file.url } };
  const [, kind, data] = /^data:audio\/([^;,]*)[^,]*,(.*)$/s.exec(file.url) ?? [];
  const format = { mpeg: "mp3", mp3: "mp3", flac: "flac", "x-flac": "flac", ogg: "ogg" }[kind ?? ""] ?? "wav";
  return { type: "input_audio", input_audio: { data: data ?? "", format } };
}

/** The body of the request for the next answer. */
export function requestOf(conversation: Conversation): Record<string, unknown> {
  const { settings } = conversation;
  const messages: object[] = [];
  if (settings.system.trim()) messages.push({ role: "system", content: settings.system });
  for (const message of branch(conversation)) {
    if (message.role === "tool") {
      messages.push({ role: "tool", tool_call_id: message.callId, content: message.content });
    } else if (message.role === "user") {
      const parts = (message.attachments ?? []).map(part);
      const text = message.content ? [{ type: "text", text: message.content }] : [];
      messages.push({ role: "user", content: parts.length ? [...parts, ...text] : message.content });
    } else {
      const calls = message.calls?.map((call) =>
        call.custom
          ? { id: call.id, type: "custom", custom: { name: call.name, input: call.arguments } }
          : { id: call.id, type: "function", function: { name: call.name, arguments: call.arguments } },
      );
      messages.push({
        role: "assistant",
        content: message.content || (calls?.length ? null : ""),
        ...(message.reasoning && { reasoning_content: message.reasoning }),
        ...(calls?.length && { tool_calls: calls }),
      });
    }
  }
  const body: Record<string, unknown> = { model: settings.model, messages };
  for (const { name, label } of samplingFields) {
    const text = settings.sampling[name]?.trim();
    if (!text) continue;
    const value = Number(text);
    if (!Number.isFinite(value)) throw new Error(`${label} is ${text}; it must be a number.`);
    body[name] = value;
  }
  if (settings.effort) body.reasoning_effort = settings.effort;
  const tools = parseTools(settings.tools);
  if (tools.length) Object.assign(body, { tools, tool_choice: settings.toolChoice });
  const schema = parseSchema(settings.schema);
  if (schema) body.response_format = { type: "json_schema", json_schema: { name: "answer", schema } };
  return body;
}

// Import: nothing of a file is trusted.

const isText = (value: unknown): value is string => typeof value === "string";
const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);
const textOr = (value: unknown, other: string): string => (isText(value) ? value : other);
const numberOr = (value: unknown, other: number): number => (typeof value === "number" && Number.isFinite(value) ? value : other);
const list = (value: unknown): Record<string, unknown>[] => (Array.isArray(value) ? value.filter(isObject) : []);

export const attachmentUrl = /^data:(image\/(png|jpeg|webp|gif|bmp)|audio\/[\w.+-]+|text\/[\w.+-]+|application\/json)[;,]/i;

function importMessage(value: Record<string, unknown>, id: string): Message {
  const role = value.role === "assistant" || value.role === "tool" ? value.role : "user";
  const message: Message = {
    id,
    parent: isText(value.parent) ? value.parent : null,
    role,
    content: textOr(value.content, ""),
    created: numberOr(value.created, Date.now()),
  };
  if (isText(value.reasoning)) message.reasoning = value.reasoning;
  if (isText(value.callId)) message.callId = value.callId;
  if (isText(value.model)) message.model = value.model;
  if (isText(value.finish)) message.finish = value.finish;
  if (isText(value.error)) message.error = value.error;
  if (value.json === true) message.json = true;
  if (isObject(value.stats)) {
    const numbers = Object.entries(value.stats).filter(([, number]) => typeof number === "number" && Number.isFinite(number));
    message.stats = Object.fromEntries(numbers);
  }
  message.calls = list(value.calls).map((call) => ({
    id: textOr(call.id, newId()),
    name: textOr(call.name, ""),
    arguments: textOr(call.arguments, ""),
    ...(call.custom === true && { custom: true }),
  }));
  message.attachments = list(value.attachments)
    .filter((file) => isText(file.url) && attachmentUrl.test(file.url))
    .map((file) => {
      const url = file.url as string;
      const kind = url.startsWith("data:image") ? "image" : url.startsWith("data:audio") ? "audio" : "text";
      return { kind, name: textOr(file.name, "file"), url };
    });
  return message;
}

/** Reads an exported file. Conversations get new ids, so that none is overwritten. */
export function importAll(text: string, model: string): Conversation[] {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON.");
  }
  const all = isObject(value) ? list(value.conversations) : [];
  if (all.length === 0) throw new Error("The file contains no conversations.");
  return all.map((one) => {
    const given = isObject(one.settings) ? one.settings : {};
    const settings = emptySettings(textOr(given.model, model));
    for (const name of ["system", "effort", "tools", "toolChoice", "schema"] as const) settings[name] = textOr(given[name], settings[name]);
    for (const [name, number] of Object.entries(isObject(given.sampling) ? given.sampling : {})) if (isText(number)) settings.sampling[name] = number;
    const conversation = newConversation(settings);
    conversation.title = titleOf(textOr(one.title, ""));
    conversation.created = numberOr(one.created, conversation.created);
    conversation.updated = numberOr(one.updated, conversation.updated);
    for (const [id, message] of Object.entries(isObject(one.messages) ? one.messages : {})) {
      if (isObject(message)) conversation.messages[id] = importMessage(message, id);
    }
    conversation.leaf = isText(one.leaf) && Object.hasOwn(conversation.messages, one.leaf) ? one.leaf : null;
    return conversation;
  });
}

export function exportAll(conversations: Conversation[]): string {
  return JSON.stringify({ format: "realizar-conversations", version: 1, conversations }, null, 1);
}
