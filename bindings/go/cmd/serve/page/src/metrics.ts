// What /metrics reports, read every few seconds while the page is visible, as series over the last ten minutes.
import { readMetrics } from "./api";

const interval = 2; // seconds
const window_ = 600; // seconds that are kept

/** Values of a moment by model. */
export interface Sample {
  time: number; // seconds
  speed: Record<string, number>; // generated tokens per second
  busy: Record<string, number>;
  slots: Record<string, number>;
  queue: Record<string, number>;
  memory: Record<string, number>;
  firstToken: Record<string, number>; // mean of the interval in seconds; missing if there was none
  resident: number; // bytes of the process
  limit: number;
}

type Metrics = Map<string, { labels: Record<string, string>; value: number }[]>;

/** Parses the text format of Prometheus. */
export function parse(text: string): Metrics {
  const all: Metrics = new Map();
  for (const line of text.split("\n")) {
    const match = /^([a-z_A-Z:][\w:]*)(?:\{(.*)\})? (\S+)$/.exec(line);
    if (!match) continue;
    const labels: Record<string, string> = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(/(\w+)="((?:[^"\\]|\\.)*)"/g)) {
      labels[name!] = value!.replace(/\\(.)/g, (_, one) => (one === "n" ? "\n" : one));
    }
    const list = all.get(match[1]!) ?? [];
    all.set(match[1]!, [...list, { labels, value: Number(match[3]) }]);
  }
  return all;
}

const byModel = (metrics: Metrics, name: string): Record<string, number> =>
  Object.fromEntries((metrics.get(name) ?? []).map((one) => [one.labels.model ?? "", one.value]));

export let samples: Sample[] = [];
export let failed = "";

let last: { time: number; generated: Record<string, number>; sum: Record<string, number>; count: Record<string, number> } | null = null;
const listeners = new Set<() => void>();

export function onSample(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

async function read(): Promise<void> {
  const metrics = parse(await readMetrics());
  const time = performance.now() / 1000;
  const generated = byModel(metrics, "realizar_generated_tokens_total");
  const sum = byModel(metrics, "realizar_time_to_first_token_seconds_sum");
  const count = byModel(metrics, "realizar_time_to_first_token_seconds_count");
  const speed: Record<string, number> = {};
  const firstToken: Record<string, number> = {};
  if (last && time > last.time) {
    for (const [model, value] of Object.entries(generated)) {
      speed[model] = Math.max(0, value - (last.generated[model] ?? 0)) / (time - last.time);
      const answers = (count[model] ?? 0) - (last.count[model] ?? 0);
      if (answers > 0) firstToken[model] = ((sum[model] ?? 0) - (last.sum[model] ?? 0)) / answers;
    }
  }
  last = { time, generated, sum, count };
  const sample: Sample = {
    time,
    speed,
    firstToken,
    busy: byModel(metrics, "realizar_slots_busy"),
    slots: byModel(metrics, "realizar_slots"),
    queue: byModel(metrics, "realizar_queue_length"),
    memory: byModel(metrics, "realizar_memory_bytes"),
    resident: metrics.get("process_resident_memory_bytes")?.[0]?.value ?? 0,
    limit: metrics.get("realizar_memory_limit_bytes")?.[0]?.value ?? 0,
  };
  samples = [...samples.filter((one) => one.time > time - window_), sample];
}

/** Reads the metrics again and again. */
export function watchMetrics(): void {
  const tick = async (): Promise<void> => {
    if (!document.hidden) {
      try {
        await read();
        failed = "";
      } catch (error) {
        failed = (error as Error).message;
      }
      for (const listener of listeners) listener();
    }
    setTimeout(tick, interval * 1000);
  };
  void tick();
}
