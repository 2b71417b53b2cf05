// The field for a message, with files that are dropped, pasted or chosen.
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { attachmentUrl } from "./conversation";
import { Button, Icon } from "./parts";
import * as store from "./store";
import type { Attachment } from "./types";

const audioTypes: Record<string, string> = {
  "audio/wav": "audio/wav", "audio/x-wav": "audio/wav", "audio/wave": "audio/wav", "audio/vnd.wave": "audio/wav",
  "audio/mpeg": "audio/mpeg", "audio/mp3": "audio/mpeg",
  "audio/flac": "audio/flac", "audio/x-flac": "audio/flac", "audio/ogg": "audio/ogg", "application/ogg": "audio/ogg",
};
const imageTypes = ["image/png", "image/jpeg", "image/webp", "image/gif", "image/bmp"];
const textEndings = /\.(txt|md|csv|json|xml|ya?ml|toml|ini|log|html?|css|[cm]?[jt]sx?|py|rs|go|java|kt|swift|c|h|cc|cpp|hpp|cs|sh|sql|tex)$/i;

/** Reads a file as an attachment; the error says why it cannot be sent. */
async function attach(file: File): Promise<Attachment> {
  const { realizar } = store.model() ?? {};
  const model = store.settings().model;
  let kind: Attachment["kind"];
  let type = file.type;
  if (imageTypes.includes(type)) {
    kind = "image";
    if (realizar?.loaded && !realizar.image) throw new Error(`The model ${model} takes no images.`);
  } else if (audioTypes[type]) {
    kind = "audio";
    type = audioTypes[type]!;
    if (realizar?.loaded && !realizar.audio) throw new Error(`The model ${model} takes no audio.`);
  } else if (type.startsWith("text/") || type === "application/json" || textEndings.test(file.name)) {
    kind = "text";
    type = "text/plain";
  } else {
    throw new Error(`${file.name} cannot be sent: the server takes PNG, JPEG, WebP, GIF and BMP images, WAV, MP3, FLAC and Ogg audio, and text files.`);
  }
  const url = await new Promise<string>((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result as string);
    reader.onerror = () => reject(new Error(`Cannot read ${file.name}.`));
    reader.readAsDataURL(file);
  });
  const typed = `data:${type};base64,${url.slice(url.indexOf(",") + 1)}`;
  if (!attachmentUrl.test(typed)) throw new Error(`Cannot read ${file.name}.`);
  return { kind, name: file.name, url: typed };
}

/** What has been entered, while another view is shown. */
const entered: { text: string; files: Attachment[] } = { text: "", files: [] };

export function Composer({ running }: { running: boolean }) {
  const [text, setText] = useState(entered.text);
  const [files, setFiles] = useState(entered.files);
  Object.assign(entered, { text, files });
  const [error, setError] = useState("");
  const [dragged, setDragged] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const chooser = useRef<HTMLInputElement>(null);

  const add = async (all: Iterable<File>): Promise<void> => {
    setError("");
    for (const file of all) {
      try {
        const one = await attach(file);
        setFiles((old) => [...old, one]);
      } catch (failure) {
        setError((failure as Error).message);
      }
    }
    field.current?.focus();
  };
  const send = (): void => {
    if (running || (!text.trim() && files.length === 0)) return;
    try {
      store.send(text, files);
      setText("");
      setFiles([]);
      setError("");
    } catch (failure) {
      setError((failure as Error).message);
    }
  };
  useEffect(() => {
    const over = (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setDragged(true);
    };
    const leave = (event: DragEvent): void => {
      if (!event.relatedTarget) setDragged(false);
    };
    const drop = (event: DragEvent): void => {
      setDragged(false);
      if (!event.dataTransfer?.files.length) return;
      event.preventDefault();
      void add(event.dataTransfer.files);
    };
    addEventListener("dragover", over);
    addEventListener("dragleave", leave);
    addEventListener("drop", drop);
    return () => {
      removeEventListener("dragover", over);
      removeEventListener("dragleave", leave);
      removeEventListener("drop", drop);
    };
  }, []);
  useLayoutEffect(() => {
    const area = field.current!;
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight + 2, innerHeight * 0.4)}px`;
  }, [text]);

  return (
    <form
      class={`composer ${dragged ? "dragged" : ""}`}
      aria-label="New message"
      onSubmit={(event) => {
        event.preventDefault();
        send();
      }}
    >
      {error && (
        <p class="error" role="alert">
          {error}
        </p>
      )}
      {files.length > 0 && (
        <ul class="attachments" aria-label="Attached files">
          {files.map((file, i) => (
            <li key={i} class="chip">
              {file.kind === "image" ? <img src={file.url} alt="" /> : <Icon shape="file" />}
              <span>{file.name}</span>
              <Button shape="close" label={`Remove ${file.name}`} onClick={() => setFiles(files.filter((_, j) => i !== j))} />
            </li>
          ))}
        </ul>
      )}
      <div class="field">
        <input ref={chooser} type="file" multiple hidden aria-label="Files" onChange={(event) => {
          void add([...event.currentTarget.files!]);
          event.currentTarget.value = "";
        }} />
        <Button shape="clip" label="Attach files" onClick={() => chooser.current!.click()} />
        <textarea
          ref={field}
          id="message"
          aria-label="Message"
          aria-keyshortcuts="Enter"
          rows={1}
          value={text}
          placeholder={dragged ? "Drop the files here" : "Message"}
          onInput={(event) => setText(event.currentTarget.value)}
          onPaste={(event) => {
            const pasted = [...(event.clipboardData?.files ?? [])];
            if (pasted.length === 0) return;
            event.preventDefault();
            void add(pasted);
          }}
          onKeyDown={(event) => {
            if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
            event.preventDefault();
            send();
          }}
        />
        {running ? (
          <Button shape="stop" label="Stop" shortcut="Escape" class="primary" onClick={store.stop} />
        ) : (
          <Button shape="send" label="Send" submit class="primary" disabled={!text.trim() && files.length === 0} />
        )}
      </div>
    </form>
  );
}
