// The package that tests run on, in the folder REALIZAR_PACKAGE, and tiny models with templates.
import assert from "node:assert/strict";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { REASONS, chatModel } from "./models.mjs";

export const home = process.env.REALIZAR_PACKAGE;
export const index = pathToFileURL(path.join(home, "index.mjs")).href;
export const { Conversation, Encoder, MEDIA_TOKEN, Media, Model, Prompt, RealizarError, Session, Store, devices, fetchModel, plan, version } =
  await import(index);

export const chat = chatModel();
export const model = await Model.load(chat, { threads: 2 });
export const reasons = await Model.load(chatModel(REASONS, "reasons.gguf"), { threads: 2 });
export const talk = (options, of = model) => new Conversation(of, { cache: { capacity: 256 }, ...options });
export const fails = (code, message) => (error) => {
  assert.ok(error instanceof RealizarError && error instanceof Error && error.status < 0, String(error));
  assert.equal(error.code, code, error.message);
  if (message) assert.match(error.message, message);
  return true;
};
