// The tab about the server: models, memory, queue and speed over time.
import { useEffect, useState } from "preact/hooks";
import { failed, onSample, type Sample, samples } from "./metrics";
import { bytes, count, seconds } from "./parts";
import * as store from "./store";

interface Line {
  name: string;
  points: [number, number][]; // seconds before now (negative), value
}

const height = 190;
const isNarrow = matchMedia("(max-width: 600px)");
const box = { left: 52, right: 12, top: 12, bottom: 26 };

/** The smallest of 1, 2, 5, 10, ... that is at least n. */
function roundUp(n: number): number {
  if (n <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= n * 0.9999)!;
}

function Chart({ title, lines, format, span, dots }: { title: string; lines: Line[]; format: (n: number) => string; span: number; dots?: boolean }) {
  const width = isNarrow.matches ? 340 : 560;
  const values = lines.flatMap((line) => line.points.map(([, value]) => value));
  const top = roundUp(Math.max(0, ...values));
  const x = (time: number): number => box.left + (1 + time / span) * (width - box.left - box.right);
  const y = (value: number): number => height - box.bottom - (Math.min(value, top) / top) * (height - box.top - box.bottom);
  const latest = lines.filter((line) => line.points.length).map((line) => `${line.name}: ${format(line.points.at(-1)![1])}`);
  return (
    <figure class="chart">
      <figcaption>{title}</figcaption>
      <svg viewBox={`0 0 ${width} ${height}`} role="img" aria-label={`${title}. Latest values: ${latest.join(", ") || "none yet"}.`}>
        {[0, 0.5, 1].map((part) => (
          <g key={part}>
            <line class="grid-line" x1={box.left} x2={width - box.right} y1={y(part * top)} y2={y(part * top)} />
            <text x={box.left - 6} y={y(part * top) + 4} text-anchor="end">
              {format(part * top)}
            </text>
          </g>
        ))}
        <text x={box.left} y={height - 6}>
          {span >= 120 ? `${Math.round(span / 60)} min ago` : `${Math.round(span)} s ago`}
        </text>
        <text x={width - box.right} y={height - 6} text-anchor="end">
          now
        </text>
        {lines.map((line, i) => (
          <g key={line.name} class={`line line-${i % 6}`}>
            <polyline points={line.points.map(([time, value]) => `${x(time).toFixed(1)},${y(value).toFixed(1)}`).join(" ")} />
            {line.points.slice(dots ? 0 : -1).map(([time, value]) => (
              <circle key={time} cx={x(time)} cy={y(value)} r="3.5" />
            ))}
          </g>
        ))}
      </svg>
      <ul class="legend">
        {lines.map((line, i) => (
          <li key={line.name} class={`line-${i % 6}`}>
            <span class="swatch" aria-hidden="true" />
            {line.name} <strong>{line.points.length ? format(line.points.at(-1)![1]) : "–"}</strong>
          </li>
        ))}
      </ul>
    </figure>
  );
}

const rate = (n: number): string => (n >= 100 ? String(Math.round(n)) : String(Math.round(n * 10) / 10));
const whole = (n: number): string => String(Math.round(n * 10) / 10);

export function Server() {
  const [, redraw] = useState(0);
  useEffect(() => {
    void store.refreshModels();
    let seen = 0;
    return onSample(() => {
      redraw((n) => n + 1);
      if (++seen % 5 === 0) void store.refreshModels();
    });
  }, []);
  const { models } = store.state;
  const now = samples.at(-1);
  const span = Math.max(60, now ? now.time - samples[0]!.time : 0);
  const line = (name: string, value: (sample: Sample) => number | undefined): Line => ({
    name,
    points: samples.flatMap((sample): [number, number][] => {
      const one = value(sample);
      return one === undefined ? [] : [[sample.time - now!.time, one]];
    }),
  });
  const names = models.filter((model) => !model.parent).map((model) => model.id);
  const byModel = (values: (sample: Sample) => Record<string, number>): Line[] => names.map((name) => line(name, (sample) => values(sample)[name]));
  return (
    <div class="scroll">
      <div class="server">
        <h1>Server</h1>
        {failed && (
          <p class="error" role="alert">
            {failed}
          </p>
        )}
        <div class="table" tabIndex={0} role="region" aria-label="Models">
          <table>
            <thead>
              <tr>
                {["Model", "State", "Parameters", "Memory", "Context", "Slots in use", "Waiting", "Input"].map((name) => (
                  <th key={name} scope="col">
                    {name}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {models.map(({ id, parent, realizar }) => {
                const file = parent ?? id;
                const inputs = ["text", realizar?.image && "images", realizar?.audio && "audio"].filter(Boolean).join(", ");
                return (
                  <tr key={id}>
                    <th scope="row">
                      {id}
                      <small>{parent ? `LoRA adapter of ${parent}` : realizar?.architecture}</small>
                    </th>
                    <td>{realizar?.loaded ? "loaded" : "not loaded"}</td>
                    <td>{realizar?.parameters ? count(realizar.parameters) : "–"}</td>
                    <td>{realizar?.memory && !parent ? bytes(realizar.memory) : "–"}</td>
                    <td>{realizar?.context ? `${realizar.context} tokens` : "–"}</td>
                    <td>{now?.slots[file] ? `${now.busy[file] ?? 0} of ${now.slots[file]}` : "–"}</td>
                    <td>{now?.queue[file] ?? "–"}</td>
                    <td>{realizar?.loaded ? inputs : "–"}</td>
                  </tr>
                );
              })}
            </tbody>
          </table>
        </div>
        <p class="note">
          {now ? `The process occupies ${bytes(now.resident)}.${now.limit ? ` The limit for models and KV caches is ${bytes(now.limit)}.` : ""}` : "Reading the metrics…"}
        </p>
        <div class="charts">
          <Chart title="Generated tokens per second" lines={byModel((sample) => sample.speed)} format={rate} span={span} />
          <Chart title="Time to first token" lines={byModel((sample) => sample.firstToken)} format={seconds} span={span} dots />
          <Chart
            title="Queue: running and waiting answers"
            lines={[
              line("running", (sample) => names.reduce((sum, name) => sum + (sample.busy[name] ?? 0), 0)),
              line("waiting", (sample) => names.reduce((sum, name) => sum + (sample.queue[name] ?? 0), 0)),
            ]}
            format={whole}
            span={span}
          />
          <Chart
            title="Memory"
            lines={[line("process", (sample) => sample.resident), line("models and KV caches", (sample) => Object.values(sample.memory).reduce((a, b) => a + b, 0))]}
            format={bytes}
            span={span}
          />
        </div>
      </div>
    </div>
  );
}
