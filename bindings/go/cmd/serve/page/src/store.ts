// The state of the page and everything that changes it.
import { ApiError, generate, hasKey, listModels, type Piece, setKey } from "./api";
import * as chats from "./conversation";
import * as db from "./db";
import type { Attachment, Call, Conversation, Message, Model, Settings } from "./types";

export interface State {
  models: Model[];
  modelsError: string;
  needsKey: boolean;
  keyError: string;
  conversations: Conversation[]; // latest first
  current: string | null;
  draft: Settings; // settings of the next conversation
  running: string | null; // conversation whose answer is being generated
  view: "chat" | "server";
  kept: boolean; // conversations are stored by the browser
  notice: string; // for screen readers
}

export let state: State = {
  models: [],
  modelsError: "",
  needsKey: false,
  keyError: "",
  conversations: [],
  current: null,
  draft: chats.emptySettings(""),
  running: null,
  view: location.hash === "#server" ? "server" : "chat",
  kept: true,
  notice: "",
};

const listeners = new Set<() => void>();

export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function set(change: Partial<State>): void {
  state = { ...state, ...change };
  for (const listener of listeners) listener();
}

export const current = (): Conversation | null => state.conversations.find((one) => one.id === state.current) ?? null;
export const settings = (): Settings => current()?.settings ?? state.draft;
export const model = (): Model | undefined => state.models.find((one) => one.id === settings().model);

// Saving: at most once a second while an answer grows, and when the page is hidden or closed.

const unsaved = new Map<string, Conversation>();
let timer = 0;

function saveNow(): void {
  clearTimeout(timer);
  timer = 0;
  for (const conversation of unsaved.values()) db.save(conversation).catch(() => set({ kept: false }));
  unsaved.clear();
}

function put(conversation: Conversation): void {
  const others = state.conversations.filter((one) => one.id !== conversation.id);
  set({ conversations: [conversation, ...others].sort((a, b) => b.updated - a.updated) });
  unsaved.set(conversation.id, conversation);
  timer ||= window.setTimeout(saveNow, 1000);
}

function change(id: string, edit: (conversation: Conversation) => Conversation): void {
  const conversation = state.conversations.find((one) => one.id === id);
  if (conversation) put(edit(conversation));
}

function changeMessage(conversation: string, id: string, edit: (message: Message) => Message): void {
  change(conversation, (one) => (one.messages[id] ? { ...one, messages: { ...one.messages, [id]: edit(one.messages[id]) } } : one));
}

export async function start(): Promise<void> {
  addEventListener("pagehide", saveNow);
  document.addEventListener("visibilitychange", () => document.hidden && saveNow());
  addEventListener("hashchange", () => set({ view: location.hash === "#server" ? "server" : "chat" }));
  try {
    set({ conversations: (await db.loadAll()).sort((a, b) => b.updated - a.updated), kept: await db.isKept() });
  } catch {
    set({ kept: false });
  }
  await refreshModels();
}

/** Reads the list of models. Only a missing key opens the question for one. */
export async function refreshModels(): Promise<void> {
  try {
    const models = await listModels();
    set({ models, modelsError: "", needsKey: false, keyError: "" });
    if (!models.some((one) => one.id === state.draft.model)) {
      const last = state.conversations[0]?.settings.model;
      const usable = models.find((one) => one.id === last) ?? models.find((one) => one.realizar?.chat !== false) ?? models[0];
      set({ draft: { ...state.draft, model: usable?.id ?? "" } });
    }
  } catch (error) {
    const isKey = error instanceof ApiError && error.status === 401;
    set(isKey ? { needsKey: true, keyError: hasKey() ? "The server does not know this key." : "" } : { modelsError: (error as Error).message });
  }
}

export async function useKey(key: string): Promise<void> {
  setKey(key);
  await refreshModels();
}

// Conversations

export function newChat(): void {
  set({ current: null, draft: structuredClone(settings()) });
  showView("chat");
}

export function select(id: string): void {
  set({ current: id });
  showView("chat");
}

export function showView(view: State["view"]): void {
  if (state.view !== view) history.replaceState(null, "", view === "server" ? "#server" : location.pathname + location.search);
  set({ view });
}

export function rename(id: string, title: string): void {
  change(id, (one) => ({ ...one, title: chats.titleOf(title) }));
}

export function remove(id: string): void {
  if (state.running === id) stop();
  unsaved.delete(id);
  set({ conversations: state.conversations.filter((one) => one.id !== id), current: state.current === id ? null : state.current });
  db.remove(id).catch(() => set({ kept: false }));
}

export function removeAll(): void {
  stop();
  unsaved.clear();
  set({ conversations: [], current: null });
  db.removeAll().catch(() => set({ kept: false }));
}

/** Adds the conversations of an exported file; returns their number. */
export function importText(text: string): number {
  const all = chats.importAll(text, state.draft.model);
  all.forEach(put);
  return all.length;
}

export function changeSettings(edit: Partial<Settings>): void {
  if (state.current) change(state.current, (one) => ({ ...one, settings: { ...one.settings, ...edit } }));
  set({ draft: { ...structuredClone(settings()), ...edit } });
}

// Answers

let abort: AbortController | null = null;

export function stop(): void {
  abort?.abort();
}

/** Sends a message at the end of the shown branch. Throws if the settings are invalid. */
export function send(content: string, attachments: Attachment[]): void {
  if (state.running) return;
  const conversation = current() ?? { ...chats.newConversation(structuredClone(state.draft)), title: chats.titleOf(content || attachments[0]?.name || "") };
  chats.requestOf(conversation); // before anything is kept
  const [next] = chats.append(conversation, { role: "user", content, ...(attachments.length && { attachments }) });
  set({ current: next.id });
  put(next);
  void answer(next.id);
}

/** Sends another version of a user's message; earlier versions stay as branches. */
export function edit(message: Message, content: string): void {
  const conversation = current();
  if (!conversation || state.running) return;
  chats.requestOf(conversation);
  const { role, attachments, reasoning, calls, model } = message;
  const kept = message.role === "user" ? { role, content, attachments } : { role, content, reasoning, calls, model, finish: "edited" };
  put(chats.append(conversation, kept, message.parent)[0]);
  if (message.role === "user") void answer(conversation.id);
}

/** Generates another version of an answer. */
export function regenerate(message: Message): void {
  const conversation = current();
  if (!conversation || state.running) return;
  chats.requestOf(conversation);
  put({ ...conversation, leaf: message.parent });
  void answer(conversation.id);
}

/** Sends the results of all calls of the last answer, in their order. */
export function sendResults(calls: Call[], results: string[]): void {
  let conversation = current();
  if (!conversation || state.running) return;
  chats.requestOf(conversation);
  calls.forEach((call, i) => ([conversation] = chats.append(conversation!, { role: "tool", content: results[i] ?? "", callId: call.id })));
  put(conversation);
  void answer(conversation.id);
}

export function showVersion(message: Message): void {
  const conversation = current();
  if (conversation && !state.running) put(chats.showVersion(conversation, message));
}

/** Generates the answer to the shown branch of a conversation. */
async function answer(id: string): Promise<void> {
  const before = state.conversations.find((one) => one.id === id)!;
  const body = chats.requestOf(before);
  const [next, message] = chats.append(before, { role: "assistant", content: "", model: before.settings.model, ...("response_format" in body && { json: true }) });
  put(next);
  const own = new AbortController();
  abort = own;
  set({ running: id, notice: "The model is answering." });
  let pending: Piece[] = [];
  let frame = 0;
  const flush = (): void => {
    if (frame) clearTimeout(frame);
    frame = 0;
    const pieces = pending;
    pending = [];
    if (pieces.length === 0) return;
    changeMessage(id, message, (old) => {
      const changed = { ...old };
      for (const piece of pieces) {
        changed.content += piece.content ?? "";
        if (piece.reasoning) changed.reasoning = (changed.reasoning ?? "") + piece.reasoning;
        if (piece.calls) changed.calls = piece.calls;
        if (piece.finish) changed.finish = piece.finish;
        if (piece.stats) changed.stats = { ...changed.stats, ...piece.stats };
      }
      return changed;
    });
  };
  let end: Partial<Message> = {};
  let notice = "The answer is complete.";
  try {
    await generate(body, own.signal, (piece) => {
      pending.push(piece);
      frame ||= window.setTimeout(flush, 40);
    });
  } catch (error) {
    if (own.signal.aborted) {
      end = { finish: "stopped" };
      notice = "The answer was stopped.";
    } else {
      end = { error: (error as Error).message };
      notice = `The answer failed: ${end.error}`;
      if (error instanceof ApiError && error.status === 401) void refreshModels();
    }
  }
  flush();
  changeMessage(id, message, (old) => ({ ...old, ...end }));
  saveNow();
  set({ running: null, notice });
  if (state.models.some((one) => one.realizar?.loaded === false)) void refreshModels(); // one may be loaded now
}
