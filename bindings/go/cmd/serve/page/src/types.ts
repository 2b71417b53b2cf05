// Conversations as the page keeps them, and models as the server describes them.

/** A tool call of an answer. */
export interface Call {
  id: string;
  name: string;
  arguments: string;
  custom?: boolean;
}

/** An image, audio or text file of a message, as a data: URL. */
export interface Attachment {
  kind: "image" | "audio" | "text";
  name: string;
  url: string;
}

/** Measurements of an answer. Times are in seconds. */
export interface Stats {
  firstToken?: number;
  duration?: number; // from the first token to the last
  tokens?: number;
  promptTokens?: number;
  cachedTokens?: number;
}

/** A message. A message with several children has several continuations (branches). */
export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant" | "tool";
  content: string;
  created: number;
  reasoning?: string;
  attachments?: Attachment[];
  calls?: Call[];
  callId?: string; // the call that a tool message answers
  model?: string;
  json?: boolean; // the answer follows a JSON schema
  stats?: Stats;
  finish?: string; // finish_reason, or "stopped"
  error?: string; // why the answer is incomplete
}

/** What the requests of a conversation contain besides messages. Empty texts mean the default. */
export interface Settings {
  model: string;
  system: string;
  effort: string;
  tools: string; // JSON
  toolChoice: string;
  schema: string; // JSON
  sampling: Record<string, string>;
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  messages: Record<string, Message>;
  leaf: string | null; // last message of the shown branch
  settings: Settings;
}

/** An entry of /v1/models. */
export interface Model {
  id: string;
  parent?: string;
  realizar?: {
    loaded: boolean;
    architecture?: string;
    parameters?: number;
    memory?: number;
    context?: number;
    slots?: number;
    chat?: boolean;
    tools?: boolean;
    reasoning_switch?: boolean;
    image?: boolean;
    audio?: boolean;
    sampling?: Record<string, number>;
  };
}
