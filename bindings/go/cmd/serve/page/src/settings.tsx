// The settings of a conversation: system message, sampling, reasoning, tools, JSON schema.
import { useState } from "preact/hooks";
import { efforts, parseSchema, parseTools, samplingFields, toolChoices } from "./conversation";
import { Dialog } from "./parts";
import * as store from "./store";

const exampleTools = `[
  {
    "name": "get_weather",
    "description": "Returns the weather of a city.",
    "parameters": {
      "type": "object",
      "properties": {"city": {"type": "string"}},
      "required": ["city"],
      "additionalProperties": false
    }
  }
]`;

const exampleSchema = `{
  "type": "object",
  "properties": {
    "title": {"type": "string"},
    "year": {"type": "integer"}
  },
  "required": ["title", "year"],
  "additionalProperties": false
}`;

const effortNames: Record<string, string> = { "": "Model's default", none: "Off" };

/** The error of a JSON field; "" if it is valid. */
function errorOf(check: () => unknown): string {
  try {
    check();
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

function JsonField({ label, help, value, example, error, onChange }: { label: string; help: string; value: string; example: string; error: string; onChange: (text: string) => void }) {
  const id = `field-${label.replaceAll(/\W+/g, "-")}`;
  return (
    <div class="stack">
      <div class="row spread">
        <label for={id}>{label}</label>
        {!value && (
          <button type="button" class="link" onClick={() => onChange(example)}>
            Insert an example
          </button>
        )}
      </div>
      <textarea
        id={id}
        class="code"
        rows={value ? 10 : 3}
        spellcheck={false}
        value={value}
        aria-invalid={error !== ""}
        aria-describedby={`${id}-help`}
        onInput={(event) => onChange(event.currentTarget.value)}
      />
      <p id={`${id}-help`} class={error ? "error" : "note"}>
        {error || help}
      </p>
    </div>
  );
}

export function SettingsDialog({ onClose }: { onClose: () => void }) {
  const settings = store.settings();
  const model = store.model();
  const advised = model?.realizar?.sampling;
  const [, redraw] = useState(0);
  const change = (edit: Parameters<typeof store.changeSettings>[0]): void => {
    store.changeSettings(edit);
    redraw((n) => n + 1);
  };
  const toolsError = errorOf(() => parseTools(settings.tools));
  const schemaError = errorOf(() => parseSchema(settings.schema));
  const fallback = (name: string): string => {
    const value = advised?.[name] ?? (name === "temperature" ? 1 : undefined);
    return value === undefined ? "default" : String(Math.round(value * 1e4) / 1e4);
  };
  return (
    <Dialog title="Settings of this chat" onClose={onClose} class="drawer">
      <div class="stack">
        <label for="system">System message</label>
        <textarea id="system" rows={3} value={settings.system} onInput={(event) => change({ system: event.currentTarget.value })} />
      </div>
      <fieldset>
        <legend>Sampling</legend>
        <p class="note">
          {advised ? "Empty fields have the values that the model's authors recommend." : "The model's authors recommend no values. Empty fields have the server's defaults."}
        </p>
        <div class="grid">
          {samplingFields.map(({ name, label, min, max, step }) => (
            <label key={name}>
              {label}
              <input
                type="number"
                name={name}
                min={min}
                max={max}
                step={step}
                value={settings.sampling[name] ?? ""}
                placeholder={name === "seed" ? "random" : name === "max_completion_tokens" ? "no limit" : fallback(name)}
                onInput={(event) => change({ sampling: { ...settings.sampling, [name]: event.currentTarget.value } })}
              />
            </label>
          ))}
          <label>
            Reasoning
            <select aria-label="Reasoning" value={settings.effort} onChange={(event) => change({ effort: event.currentTarget.value })}>
              {efforts.map((effort) => (
                <option key={effort} value={effort}>
                  {effortNames[effort] ?? effort}
                </option>
              ))}
            </select>
          </label>
        </div>
        <button type="button" class="link" onClick={() => change({ sampling: {}, effort: "" })}>
          Use the defaults
        </button>
      </fieldset>
      <fieldset>
        <legend>Tools</legend>
        <JsonField
          label="Tools as JSON"
          help="A list of functions with name, description and parameters (a JSON schema). You type the results of calls."
          value={settings.tools}
          example={exampleTools}
          error={toolsError}
          onChange={(tools) => change({ tools })}
        />
        <label>
          Tool choice
          <select aria-label="Tool choice" value={settings.toolChoice} onChange={(event) => change({ toolChoice: event.currentTarget.value })}>
            {toolChoices.map((choice) => (
              <option key={choice}>{choice}</option>
            ))}
          </select>
        </label>
      </fieldset>
      <fieldset>
        <legend>Structured output</legend>
        <JsonField
          label="JSON schema"
          help="Answers follow the schema. Empty: answers are free text."
          value={settings.schema}
          example={exampleSchema}
          error={schemaError}
          onChange={(schema) => change({ schema })}
        />
      </fieldset>
    </Dialog>
  );
}
