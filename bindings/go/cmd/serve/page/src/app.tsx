// The layout of the page, its dialogs and its keys.
import { useEffect, useState } from "preact/hooks";
import { Composer } from "./composer";
import { Messages } from "./messages";
import { Button, Dialog, useStore } from "./parts";
import { Server } from "./server";
import { SettingsDialog } from "./settings";
import { Sidebar } from "./sidebar";
import * as store from "./store";

const keys: [string, string][] = [
  ["Enter", "send the message"],
  ["Shift+Enter", "new line"],
  ["Escape", "stop the answer"],
  ["Alt+N", "new chat"],
  ["Alt+S", "settings"],
  ["Alt+L", "to the message field"],
  ["Alt+K", "this list"],
];

function KeyDialog({ error }: { error: string }) {
  const [key, setKey] = useState("");
  return (
    <Dialog title="API key">
      <form
        onSubmit={(event) => {
          event.preventDefault();
          void store.useKey(key.trim());
        }}
      >
        <p>The server requires an API key. The browser keeps it until this tab is closed.</p>
        {error && (
          <p class="error" role="alert">
            {error}
          </p>
        )}
        <input type="password" aria-label="API key" autocomplete="off" required value={key} onInput={(event) => setKey(event.currentTarget.value)} />
        <div class="row end">
          <button type="submit" class="button primary">
            Use this key
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function Welcome() {
  const model = store.model();
  const { realizar } = model ?? {};
  const inputs = [realizar?.image && "images", realizar?.audio && "audio"].filter(Boolean).join(" and ");
  return (
    <div class="welcome">
      <h1>{model ? `Chat with ${model.id}` : "Chat"}</h1>
      {realizar && !realizar.loaded && <p>The model is loaded when it gets the first message.</p>}
      {realizar?.loaded && realizar.chat === false && <p>This model has no chat template: it cannot chat. Choose another one.</p>}
      {inputs && <p>This model takes {inputs}: drop files here, or paste them.</p>}
      <p class="note">Conversations stay in this browser. Nothing is loaded from or sent to other servers.</p>
    </div>
  );
}

export function App() {
  const { models, modelsError, needsKey, keyError, running, view, notice } = useStore();
  const [dialog, setDialog] = useState<"settings" | "keys" | null>(null);
  const [menu, setMenu] = useState(false);
  const conversation = store.current();
  const settings = store.settings();

  useEffect(() => {
    const onKey = (event: KeyboardEvent): void => {
      const isModal = document.querySelector("dialog[open]") !== null;
      if (event.key === "Escape" && !isModal) {
        if (menu) setMenu(false);
        else store.stop();
      }
      if (!event.altKey || event.ctrlKey || event.metaKey || isModal) return;
      const actions: Record<string, () => void> = {
        KeyN: () => store.newChat(),
        KeyS: () => setDialog("settings"),
        KeyL: () => store.showView("chat"),
        KeyK: () => setDialog("keys"),
      };
      const action = actions[event.code];
      if (!action) return;
      event.preventDefault();
      action();
      if (event.code !== "KeyN" && event.code !== "KeyL") return;
      const focus = (): void => document.getElementById("message")?.focus();
      focus();
      requestAnimationFrame(focus); // after the field is there
    };
    addEventListener("keydown", onKey);
    return () => removeEventListener("keydown", onKey);
  }, [menu]);
  useEffect(() => {
    if (view === "chat" && matchMedia("(pointer: fine)").matches) document.getElementById("message")?.focus();
  }, [view, conversation?.id]);

  const title = view === "server" ? "Server" : (conversation?.title ?? "New chat");
  useEffect(() => {
    document.title = `${title} – realizar`;
  }, [title]);

  const missing = models.length > 0 && settings.model !== "" && !models.some((one) => one.id === settings.model);
  return (
    <div class={`page ${menu ? "menu-open" : ""}`}>
      <a class="skip" href="#message" onClick={(event) => {
        event.preventDefault();
        store.showView("chat");
        document.getElementById("message")?.focus();
      }}>
        To the message field
      </a>
      <Sidebar onDone={() => setMenu(false)} />
      <div class="shade" onClick={() => setMenu(false)} />
      <div class="content">
        <header class="top">
          <Button shape="menu" label={menu ? "Close the list of conversations" : "Conversations"} class="menu" onClick={() => setMenu(!menu)} />
          <div class="tabs" role="group" aria-label="View">
            <button type="button" aria-pressed={view === "chat"} onClick={() => store.showView("chat")}>
              Chat
            </button>
            <button type="button" aria-pressed={view === "server"} onClick={() => store.showView("server")}>
              Server
            </button>
          </div>
          <select class="model" aria-label="Model" value={settings.model} disabled={models.length === 0} onChange={(event) => store.changeSettings({ model: event.currentTarget.value })}>
            {missing && <option value={settings.model}>{settings.model} (not there)</option>}
            {models.map((one) => (
              <option key={one.id} value={one.id}>
                {one.id}
                {one.realizar?.loaded === false ? " (not loaded)" : ""}
              </option>
            ))}
          </select>
          <Button shape="gear" label="Settings" shortcut="Alt+S" onClick={() => setDialog("settings")} />
          <button type="button" class="icon-button keys" aria-label="Keys" title="Keys (Alt+K)" onClick={() => setDialog("keys")}>
            ?
          </button>
        </header>
        {modelsError && (
          <p class="error banner" role="alert">
            <span>{modelsError}</span>
            <Button shape="again" label="Try again" text onClick={() => void store.refreshModels()} />
          </p>
        )}
        <main>
          {view === "server" ? (
            <Server />
          ) : (
            <>
              <div class="scroll">{conversation ? <Messages conversation={conversation} running={running === conversation.id} /> : <Welcome />}</div>
              <Composer running={running !== null} />
            </>
          )}
        </main>
      </div>
      <div class="hidden" role="status" aria-live="polite">
        {notice}
      </div>
      {dialog === "settings" && <SettingsDialog onClose={() => setDialog(null)} />}
      {dialog === "keys" && (
        <Dialog title="Keys" onClose={() => setDialog(null)}>
          <dl class="keys">
            {keys.map(([key, what]) => (
              <div key={key}>
                <dt>
                  <kbd>{key}</kbd>
                </dt>
                <dd>{what}</dd>
              </div>
            ))}
          </dl>
          <p class="note">
            <a href="page/licenses.txt" target="_blank" rel="noopener">
              Licenses of the packages in this page
            </a>
          </p>
        </Dialog>
      )}
      {needsKey && <KeyDialog error={keyError} />}
    </div>
  );
}
