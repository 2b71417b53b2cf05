// Requests to the server that has delivered the page. The API key is kept in sessionStorage only.
import type { Call, Model, Stats } from "./types";

const keyName = "realizar-key";

export function setKey(key: string): void {
  if (key) sessionStorage.setItem(keyName, key);
  else sessionStorage.removeItem(keyName);
}

export function hasKey(): boolean {
  return sessionStorage.getItem(keyName) !== null;
}

/** An error that is shown as it is. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly status: number,
  ) {
    super(message);
  }
}

async function request(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = new Headers(init.headers);
  const key = sessionStorage.getItem(keyName);
  if (key) headers.set("Authorization", `Bearer ${key}`);
  let response: Response;
  try {
    response = await fetch(path, { ...init, headers, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" });
  } catch (error) {
    if (init.signal?.aborted) throw error;
    throw new ApiError("Cannot reach the server.", 0);
  }
  if (response.ok) return response;
  const text = await response.text().catch(() => "");
  let message = `The server answered with status ${response.status}.`;
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // not an error of the API, such as of a proxy
  }
  const wait = response.headers.get("Retry-After");
  if (response.status === 429 || response.status === 503) message += wait ? ` Try again in ${wait} s.` : " Try again later.";
  throw new ApiError(message, response.status);
}

export async function listModels(): Promise<Model[]> {
  const list = await (await request("v1/models")).json();
  return list.data;
}

export async function readMetrics(): Promise<string> {
  return (await request("metrics")).text();
}

/** Changes of an answer while it is generated. */
export interface Piece {
  content?: string;
  reasoning?: string;
  calls?: Call[]; // all calls so far
  finish?: string;
  stats?: Stats;
}

const lost = "The connection was lost. The answer is incomplete.";

/** Generates an answer; `update` gets each piece. Rejects with an ApiError if the stream breaks off. */
export async function generate(body: object, signal: AbortSignal, update: (piece: Piece) => void): Promise<void> {
  const start = performance.now();
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...body, stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } }),
    signal,
  });
  const calls: Call[] = [];
  let first = 0;
  let last = 0;
  let done = false;
  const read = (data: string): void => {
    if (data === "[DONE]") {
      done = true;
      return;
    }
    const event = JSON.parse(data);
    if (event.error) throw new ApiError(event.error.message, response.status);
    const choice = event.choices?.[0];
    const piece: Piece = {};
    if (choice) {
      const delta = choice.delta ?? {};
      if (delta.content) piece.content = delta.content;
      if (delta.reasoning_content) piece.reasoning = delta.reasoning_content;
      for (const one of delta.tool_calls ?? []) {
        const call = (calls[one.index] ??= { id: "", name: "", arguments: "" });
        const part = one.custom ?? one.function ?? {};
        if (one.id) call.id = one.id;
        if (one.type === "custom") call.custom = true;
        call.name += part.name ?? "";
        call.arguments += part.arguments ?? part.input ?? "";
        piece.calls = calls.filter(Boolean).map((each) => ({ ...each }));
      }
      if (choice.finish_reason) piece.finish = choice.finish_reason;
      if (piece.content || piece.reasoning || piece.calls) {
        last = performance.now();
        first ||= last;
        piece.stats = { firstToken: (first - start) / 1000 };
      }
    }
    if (event.usage) {
      piece.stats = {
        firstToken: first ? (first - start) / 1000 : undefined,
        duration: (last - first) / 1000,
        tokens: event.usage.completion_tokens,
        promptTokens: event.usage.prompt_tokens,
        cachedTokens: event.usage.prompt_tokens_details?.cached_tokens,
      };
    }
    update(piece);
  };
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    while (!done) {
      const chunk = await reader.read();
      if (chunk.done) break;
      const lines = (rest + chunk.value).split("\n");
      rest = lines.pop()!;
      for (const line of lines) if (line.startsWith("data:")) read(line.slice(5).trim());
    }
  } catch (error) {
    if (signal.aborted || error instanceof ApiError) throw error;
    throw new ApiError(lost, 0);
  } finally {
    reader.cancel().catch(() => undefined);
  }
  if (!done) throw new ApiError(lost, 0);
}
