// The messages of a conversation.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { branch, openCalls, versions } from "./conversation";
import { type Block, blocks, jsonBlock } from "./markdown";
import { Button, copy, Icon, Pure, seconds } from "./parts";
import * as store from "./store";
import type { Attachment, Call, Conversation, Message, Stats } from "./types";

class BlockView extends Pure<{ block: Block }> {
  box: HTMLDivElement | null = null;
  override componentDidMount() {
    this.addButtons();
  }
  override componentDidUpdate() {
    this.addButtons();
  }
  /** Gives each code block a button that copies it, and makes it scrollable by keys. */
  addButtons() {
    for (const pre of this.box?.querySelectorAll("pre") ?? []) {
      if (pre.querySelector("button")) continue;
      pre.querySelector("code")?.setAttribute("tabindex", "0");
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy-code";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy the code");
      button.addEventListener("click", async () => {
        button.textContent = (await copy(pre.querySelector("code")?.textContent ?? "")) ? "Copied" : "Failed";
        setTimeout(() => (button.textContent = "Copy"), 2000);
      });
      pre.append(button);
    }
  }
  override render({ block }: { block: Block }) {
    return <div ref={(box) => void (this.box = box)} class="block" dangerouslySetInnerHTML={{ __html: block.html }} />;
  }
}

export function Markdown({ text, json }: { text: string; json?: boolean }) {
  const known = useRef<Block[]>([]);
  known.current = json ? [jsonBlock(text)] : blocks(text, known.current);
  return (
    <div class="markdown">
      {known.current.map((block, i) => (
        <BlockView key={i} block={block} />
      ))}
    </div>
  );
}

function Attachments({ files }: { files: Attachment[] }) {
  return (
    <ul class="attachments">
      {files.map((file) => (
        <li key={file.name}>
          {file.kind === "image" && <img src={file.url} alt={file.name} />}
          {file.kind === "audio" && <audio controls src={file.url} aria-label={file.name} />}
          {file.kind === "text" && (
            <span class="chip">
              <Icon shape="file" /> {file.name}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function CallView({ call }: { call: Call }) {
  return (
    <section class="call" aria-label={`Tool call ${call.name}`}>
      <h3>
        <Icon shape="tool" /> <span>Tool call</span> <code>{call.name}</code>
      </h3>
      <Markdown text={call.arguments} json />
    </section>
  );
}

/** Asks the user for the results of calls. */
function Results({ message }: { message: Message }) {
  const calls = message.calls!;
  const [results, setResults] = useState<string[]>(calls.map(() => ""));
  return (
    <form
      class="results"
      onSubmit={(event) => {
        event.preventDefault();
        store.sendResults(calls, results);
      }}
    >
      {calls.map((call, i) => (
        <label key={call.id}>
          <span>
            Result of <code>{call.name}</code>
          </span>
          <textarea
            rows={2}
            value={results[i]}
            placeholder="What the tool returns, as text or JSON"
            onInput={(event) => setResults(results.map((old, j) => (i === j ? event.currentTarget.value : old)))}
          />
        </label>
      ))}
      <Button shape="send" label={calls.length > 1 ? "Send results" : "Send result"} submit text class="primary" />
    </form>
  );
}

function statsText(stats: Stats): string {
  const parts: string[] = [];
  const { tokens = 0, duration = 0 } = stats;
  if (tokens > 1 && duration > 0.02) parts.push(`${((tokens - 1) / duration).toFixed(1)} tokens/s`); // not of a single piece
  if (stats.firstToken !== undefined) parts.push(`first token ${seconds(stats.firstToken)}`);
  if (stats.tokens !== undefined) parts.push(`${stats.tokens} tokens`);
  if (stats.promptTokens !== undefined) parts.push(`prompt ${stats.promptTokens}${stats.cachedTokens ? ` (${stats.cachedTokens} cached)` : ""}`);
  return parts.join(" · ");
}

const ends: Record<string, string> = {
  length: "The answer reached the maximum number of tokens.",
  stopped: "Stopped.",
  edited: "Edited by you.",
};

interface ViewProps {
  message: Message;
  at: number; // which version it is
  of: number; // number of versions
  previous: Message | null;
  next: Message | null;
  growing: boolean;
  busy: boolean;
  callName: string;
  asks: boolean; // results of its calls are missing
}

class MessageView extends Pure<ViewProps> {
  override render(props: ViewProps) {
    return <MessageBody {...props} />;
  }
}

function MessageBody({ message, at, of, previous, next, growing, busy, callName, asks }: ViewProps) {
  const [editing, setEditing] = useState(false);
  const [copied, setCopied] = useState("Copy");
  const { role } = message;
  const name = role === "user" ? "You" : role === "tool" ? `Result of ${callName}` : (message.model ?? "Answer");
  return (
    <li class={`message ${role}`}>
      <article aria-label={role === "assistant" ? `Answer of ${name}` : name} aria-busy={growing}>
        <h2 class={role === "user" ? "hidden" : "who"}>{name}</h2>
        {message.attachments?.length ? <Attachments files={message.attachments} /> : null}
        {message.reasoning && (
          <details class="reasoning">
            <summary>{growing && !message.content && !message.calls?.length ? "Reasoning…" : "Reasoning"}</summary>
            <Markdown text={message.reasoning} />
          </details>
        )}
        {editing ? (
          <Editor message={message} onEnd={() => setEditing(false)} />
        ) : role === "assistant" ? (
          <>
            {message.content && <Markdown text={message.content} json={message.json} />}
            {message.calls?.map((call) => <CallView key={call.id} call={call} />)}
            {growing && !message.content && !message.calls?.length && !message.reasoning && <p class="waiting">Waiting for the first token…</p>}
          </>
        ) : (
          <p class="plain">{message.content}</p>
        )}
        {message.error && <Failure message={message} busy={busy} />}
        {!growing && message.finish && ends[message.finish] && <p class="note">{ends[message.finish]}</p>}
        {asks && !busy && <Results message={message} />}
        <footer>
          {of > 1 && (
            <span class="versions" role="group" aria-label="Versions">
              <Button shape="left" label="Previous version" disabled={!previous || busy} onClick={() => store.showVersion(previous!)} />
              <span aria-label={`Version ${at} of ${of}`}>
                {at} / {of}
              </span>
              <Button shape="right" label="Next version" disabled={!next || busy} onClick={() => store.showVersion(next!)} />
            </span>
          )}
          {!growing && !editing && (
            <span class="actions">
              <Button
                shape="copy"
                label={copied}
                onClick={async () => {
                  setCopied((await copy(message.content)) ? "Copied" : "Cannot copy");
                  setTimeout(() => setCopied("Copy"), 2000);
                }}
              />
              {role !== "tool" && <Button shape="pencil" label="Edit" disabled={busy} onClick={() => setEditing(true)} />}
              {role === "assistant" && <Button shape="again" label="Answer again" disabled={busy} onClick={() => attempt(() => store.regenerate(message))} />}
            </span>
          )}
          {message.stats && !growing && <span class="stats">{statsText(message.stats)}</span>}
        </footer>
      </article>
    </li>
  );
}

function attempt(work: () => void): void {
  try {
    work();
  } catch (error) {
    store.set({ notice: (error as Error).message });
    alert((error as Error).message);
  }
}

function Failure({ message, busy }: { message: Message; busy: boolean }) {
  return (
    <p class="error">
      <span>{message.error}</span>
      <Button shape="again" label="Try again" text disabled={busy} onClick={() => attempt(() => store.regenerate(message))} />
    </p>
  );
}

function Editor({ message, onEnd }: { message: Message; onEnd: () => void }) {
  const [text, setText] = useState(message.content);
  const [error, setError] = useState("");
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => {
    field.current!.focus();
    field.current!.setSelectionRange(text.length, text.length);
  }, []);
  const isUser = message.role === "user";
  const end = (): void => {
    try {
      store.edit(message, text);
      onEnd();
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  return (
    <form
      class="editor"
      onSubmit={(event) => {
        event.preventDefault();
        end();
      }}
    >
      <textarea
        ref={field}
        aria-label="Edit the message"
        rows={Math.min(16, text.split("\n").length + 1)}
        value={text}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") {
            event.stopPropagation();
            onEnd();
          } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey || (isUser && !event.shiftKey)) && !event.isComposing) {
            event.preventDefault();
            end();
          }
        }}
      />
      {error && <p class="error">{error}</p>}
      <div class="row">
        <button type="submit" class="button primary">
          {isUser ? "Send" : "Save"}
        </button>
        <button type="button" class="button" onClick={onEnd}>
          Cancel
        </button>
        <span class="note">The earlier version stays as a branch.</span>
      </div>
    </form>
  );
}

/** The shown branch; keeps its end in view while the user has not scrolled up. */
export function Messages({ conversation, running }: { conversation: Conversation; running: boolean }) {
  const shown = branch(conversation);
  const open = running ? null : openCalls(conversation);
  const end = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  useLayoutEffect(() => {
    const area = end.current!.closest(".scroll")!;
    const onScroll = (): void => {
      follows.current = area.scrollHeight - area.scrollTop - area.clientHeight < 60;
    };
    area.addEventListener("scroll", onScroll, { passive: true });
    return () => area.removeEventListener("scroll", onScroll);
  }, []);
  useLayoutEffect(() => {
    follows.current = true;
  }, [conversation.id, running]);
  useLayoutEffect(() => {
    if (follows.current) end.current!.scrollIntoView({ block: "end" });
  });
  const names = new Map(shown.flatMap((message) => message.calls?.map((call) => [call.id, call.name] as const) ?? []));
  return (
    <>
      <ol class="messages" aria-label="Messages">
        {shown.map((message, i) => {
          const all = versions(conversation, message);
          const at = all.indexOf(message);
          return (
            <MessageView
              key={message.id}
              message={message}
              at={at + 1}
              of={all.length}
              previous={all[at - 1] ?? null}
              next={all[at + 1] ?? null}
              growing={running && i === shown.length - 1}
              busy={running}
              callName={names.get(message.callId ?? "") ?? "a tool"}
              asks={message === open}
            />
          );
        })}
      </ol>
      <div ref={end} />
    </>
  );
}
