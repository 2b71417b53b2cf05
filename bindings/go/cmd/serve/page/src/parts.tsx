// Small parts: icons, buttons, dialogs, and the state of the page as a hook.
import { type ComponentChildren, Component } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { type State, state, subscribe } from "./store";

export function useStore(): State {
  const [, redraw] = useState(0);
  useEffect(() => subscribe(() => redraw((n) => n + 1)), []);
  return state;
}

/** A component that is drawn again only if a property changes. */
export abstract class Pure<Props extends object> extends Component<Props> {
  override shouldComponentUpdate(next: Readonly<Props>): boolean {
    return (Object.keys(next) as (keyof Props)[]).some((name) => next[name] !== this.props[name]);
  }
}

const shapes = {
  menu: "M4 7h16M4 12h16M4 17h16",
  plus: "M12 5v14M5 12h14",
  send: "M12 19V5M6 11l6-6 6 6",
  stop: "M7 7h10v10H7z",
  clip: "M20 11l-8.5 8.5a5 5 0 0 1-7-7L13 4a3.4 3.4 0 0 1 4.8 4.8l-8.5 8.5a1.7 1.7 0 0 1-2.4-2.4L14.5 7",
  gear: "M4 7h9M17 7h3M4 17h3M11 17h9M15 4.5v5M9 14.5v5",
  copy: "M9 9h10v11H9zM5 15V4h10",
  pencil: "M4 20l1-4L16 5l3 3L8 19z",
  again: "M4 12a8 8 0 1 0 2.5-5.8M4 4v4h4",
  left: "M14 6l-6 6 6 6",
  right: "M10 6l6 6-6 6",
  close: "M6 6l12 12M18 6L6 18",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
  save: "M12 4v11M7 10l5 5 5-5M5 20h14",
  open: "M12 15V4M7 9l5-5 5 5M5 20h14",
  tool: "M14 6a4 4 0 0 0-5 5l-5 5 3 3 5-5a4 4 0 0 0 5-5l-2.5 2.5-2.5-2.5z",
  file: "M7 3h7l4 4v14H7zM14 3v5h4",
};
export type Shape = keyof typeof shapes;

export function Icon({ shape }: { shape: Shape }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={shapes[shape]} />
    </svg>
  );
}

interface ButtonProps {
  shape: Shape;
  label: string;
  onClick?: () => void;
  disabled?: boolean;
  class?: string;
  submit?: boolean;
  text?: boolean; // show the label too
  shortcut?: string;
}

export function Button({ shape, label, onClick, disabled, class: more = "", submit, text, shortcut }: ButtonProps) {
  return (
    <button
      type={submit ? "submit" : "button"}
      class={`${text ? "button" : "icon-button"} ${more}`}
      onClick={onClick}
      disabled={disabled}
      aria-label={text ? undefined : label}
      aria-keyshortcuts={shortcut}
      title={shortcut ? `${label} (${shortcut})` : text ? undefined : label}
    >
      <Icon shape={shape} />
      {text && <span>{label}</span>}
    </button>
  );
}

export function Dialog({ title, onClose, children, class: more = "" }: { title: string; onClose?: () => void; children: ComponentChildren; class?: string }) {
  const box = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = box.current!;
    if (!dialog.open) dialog.showModal();
    return () => dialog.close();
  }, []);
  return (
    <dialog
      ref={box}
      class={more}
      aria-labelledby="dialog-title"
      onCancel={(event) => {
        event.preventDefault();
        onClose?.();
      }}
      onMouseDown={(event) => event.target === box.current && onClose?.()}
    >
      <div class="dialog">
        <header>
          <h2 id="dialog-title">{title}</h2>
          {onClose && <Button shape="close" label="Close" onClick={onClose} />}
        </header>
        {children}
      </div>
    </dialog>
  );
}

/** Saves a text as a file of the user. */
export function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text); // only at https: and localhost
    return true;
  } catch {
    const area = document.createElement("textarea");
    area.value = text;
    (document.querySelector("dialog[open]") ?? document.body).append(area);
    area.select();
    const copied = document.execCommand("copy");
    area.remove();
    return copied;
  }
}

export function bytes(n: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${n >= 100 || i === 0 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

export function count(n: number): string {
  const units = ["", " thousand", " million", " billion", " trillion"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)}${units[i]}`;
}

export function seconds(n: number): string {
  return n < 1 ? `${Math.round(n * 1000)} ms` : `${n.toFixed(n < 10 ? 2 : 1)} s`;
}
