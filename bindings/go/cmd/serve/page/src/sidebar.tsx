// The list of conversations.
import { useRef, useState } from "preact/hooks";
import { exportAll } from "./conversation";
import { Button, Dialog, download, useStore } from "./parts";
import * as store from "./store";
import { applyTheme, theme, themes } from "./theme";
import type { Conversation } from "./types";

type Asked = { kind: "rename" | "delete"; conversation: Conversation } | { kind: "delete all" } | null;

export function Sidebar({ onDone }: { onDone: () => void }) {
  const { conversations, current, running, kept } = useStore();
  const [asked, setAsked] = useState<Asked>(null);
  const [title, setTitle] = useState("");
  const [message, setMessage] = useState("");
  const [look, setLook] = useState(theme());
  const file = useRef<HTMLInputElement>(null);
  const date = new Date().toISOString().slice(0, 10);
  const confirm = (): void => {
    if (asked?.kind === "rename") store.rename(asked.conversation.id, title);
    else if (asked?.kind === "delete") store.remove(asked.conversation.id);
    else if (asked) store.removeAll();
    setAsked(null);
  };
  return (
    <nav class="sidebar" aria-label="Conversations">
      <Button
        shape="plus"
        label="New chat"
        text
        class="primary"
        shortcut="Alt+N"
        onClick={() => {
          store.newChat();
          onDone();
        }}
      />
      {!kept && <p class="note">This browser does not keep the conversations: they end with this page.</p>}
      <ul class="conversations">
        {conversations.map((one) => (
          <li key={one.id} class={one.id === current ? "current" : ""}>
            <button
              type="button"
              class="title"
              aria-current={one.id === current ? "true" : undefined}
              onClick={() => {
                store.select(one.id);
                onDone();
              }}
            >
              {one.title}
              {one.id === running && <span class="hidden"> (answering)</span>}
            </button>
            <Button
              shape="pencil"
              label={`Rename ${one.title}`}
              onClick={() => {
                setTitle(one.title);
                setAsked({ kind: "rename", conversation: one });
              }}
            />
            <Button shape="save" label={`Export ${one.title}`} onClick={() => download(`realizar-chat-${date}.json`, exportAll([one]))} />
            <Button shape="bin" label={`Delete ${one.title}`} onClick={() => setAsked({ kind: "delete", conversation: one })} />
          </li>
        ))}
      </ul>
      <div class="sidebar-end">
        {message && (
          <p class="note" role="status">
            {message}
          </p>
        )}
        <div class="row">
          <Button shape="save" label="Export all" text disabled={!conversations.length} onClick={() => download(`realizar-chats-${date}.json`, exportAll(conversations))} />
          <Button shape="open" label="Import" text onClick={() => file.current!.click()} />
          <Button shape="bin" label="Delete all" text disabled={!conversations.length} onClick={() => setAsked({ kind: "delete all" })} />
        </div>
        <input
          ref={file}
          type="file"
          accept=".json,application/json"
          hidden
          aria-label="Exported file"
          onChange={async (event) => {
            const input = event.currentTarget;
            try {
              const number = store.importText(await input.files![0]!.text());
              setMessage(`Imported ${number} ${number === 1 ? "conversation" : "conversations"}.`);
            } catch (error) {
              setMessage((error as Error).message);
            }
            input.value = "";
          }}
        />
        <label class="row spread">
          Colors
          <select
            value={look}
            onChange={(event) => {
              const chosen = themes.find((one) => one === event.currentTarget.value)!;
              applyTheme(chosen);
              setLook(chosen);
            }}
          >
            <option value="auto">As the system</option>
            <option value="light">Light</option>
            <option value="dark">Dark</option>
          </select>
        </label>
      </div>
      {asked && (
        <Dialog title={asked.kind === "rename" ? "Rename the chat" : asked.kind === "delete" ? "Delete the chat?" : "Delete all chats?"} onClose={() => setAsked(null)}>
          <form
            onSubmit={(event) => {
              event.preventDefault();
              confirm();
            }}
          >
            {asked.kind === "rename" ? (
              <input aria-label="Title" value={title} onInput={(event) => setTitle(event.currentTarget.value)} />
            ) : (
              <p>{asked.kind === "delete" ? `“${asked.conversation.title}” will be deleted from this browser.` : `${conversations.length} conversations will be deleted from this browser.`}</p>
            )}
            <div class="row end">
              <button type="button" class="button" onClick={() => setAsked(null)}>
                Cancel
              </button>
              <button type="submit" class={`button ${asked.kind === "rename" ? "primary" : "danger"}`}>
                {asked.kind === "rename" ? "Rename" : "Delete"}
              </button>
            </div>
          </form>
        </Dialog>
      )}
    </nav>
  );
}
