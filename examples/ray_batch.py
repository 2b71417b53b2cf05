#!/usr/bin/env python3
"""Answers or embeds each row of a table, on all the processors that Ray has:

    ray_batch.py MODEL INPUT OUTPUT --id COLUMN --text COLUMN [--embed | --prompt "Summarise: {}" --max-tokens N]
                 [--workers N] [--threads N] [--together N] [--packed FILE]

INPUT is a file or folder of Parquet, CSV or JSON lines; OUTPUT a folder, which gets a Parquet file for each batch of rows, with the
columns id and answer or embedding. A file is whole once it has its name, so the program can be stopped at any moment and started
again: rows that are in OUTPUT are left out. A row that fails gets its message in the column error, and the others go on.

All workers of a machine map one file of packed weights, FILE or MODEL.rzpacked, which the first of them makes. Within a worker the
rows of a batch are answered together, one pass over the weights making a token of each."""

import argparse
import hashlib
import os
import time
import uuid
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
import ray.data


# Processors that a task takes which reads a part of INPUT: those that the workers leave.
READING = 0.1


class Worker:
    """A process with the model, and the rows that it is working on."""

    def __init__(self, args):
        import realizar

        self.args, self.realizar = args, realizar
        self.model = realizar.Model(args.model, threads=args.threads, packed_path=args.packed)
        self.sampling = realizar.Sampling()

    def __call__(self, batch: pa.Table) -> pa.Table:
        started = time.perf_counter()
        ids, texts = batch[self.args.id], batch[self.args.text].to_pylist()
        column = self.embedded(texts) if self.args.embed else self.answered(texts)
        name = hashlib.sha256("\0".join(map(str, ids.to_pylist())).encode()).hexdigest()[:16]
        whole = Path(self.args.output) / f"part-{name}.parquet"
        part = whole.with_name(f".{name}.{uuid.uuid4().hex}")
        pq.write_table(pa.table({"id": ids, **column}), part)
        os.replace(part, whole)
        return pa.table({"rows": [len(texts)], "tokens": [self.tokens], "seconds": [time.perf_counter() - started]})

    def embedded(self, texts):
        vectors, errors, self.tokens = [], [], 0
        for text in texts:
            try:
                tokens = self.model.tokenize(required(text))
                vectors.append(self.model.embed([tokens])[0])
                errors.append(None)
                self.tokens += len(tokens)
            except (self.realizar.Error, TypeError) as e:
                vectors.append(None)
                errors.append(str(e))
        return {"embedding": pa.array(vectors, pa.list_(pa.float32())), "error": pa.array(errors, pa.string())}

    def answered(self, texts):
        """Keeps as many jobs going as fit into one pass; a row that ends makes room for the next."""
        answers, errors, waiting, jobs = [None] * len(texts), [None] * len(texts), list(range(len(texts))), {}
        self.tokens = 0
        while waiting or jobs:
            while waiting and len(jobs) < self.args.together:
                row = waiting.pop(0)
                try:
                    prompt = self.model.tokenize_chat(self.args.prompt.replace("{}", required(texts[row])))
                    session = self.model.session(len(prompt) + self.args.max_tokens)
                    jobs[row] = session.job(prompt, self.sampling, max_tokens=self.args.max_tokens)
                    answers[row] = ""
                except (self.realizar.Error, TypeError) as e:
                    errors[row] = str(e)
            if not jobs:
                break
            self.realizar.step_jobs(list(jobs.values()))
            for row, job in list(jobs.items()):
                answers[row] += job.text()
                if job.end is not None:
                    self.tokens += len(job.tokens())
                    if job.error is not None:
                        answers[row], errors[row] = None, str(job.error)
                    job.close()
                    job.session.close()
                    del jobs[row]
        return {"answer": pa.array(answers, pa.string()), "error": pa.array(errors, pa.string())}


def required(text):
    if not isinstance(text, str):
        raise TypeError("the row has no text")
    return text


def read(path):
    """A table of Parquet, CSV or JSON lines, by the ends of its files' names."""
    name = next((p.name for p in Path(path).rglob("*") if p.is_file()), path) if os.path.isdir(path) else path
    readers = {".parquet": ray.data.read_parquet, ".csv": ray.data.read_csv, ".json": ray.data.read_json, ".jsonl": ray.data.read_json}
    reader = readers.get(Path(name).suffix)
    if reader is None:
        raise SystemExit(f"{name}: neither of {', '.join(readers)}")
    return reader(path, num_cpus=READING)


def done(output):
    """Ids of the rows in OUTPUT."""
    parts = sorted(Path(output).glob("part-*.parquet"))
    return pa.chunked_array([c for part in parts for c in pq.read_table(part, columns=["id"])["id"].chunks]) if parts else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "input", "output"):
        parser.add_argument(name)
    parser.add_argument("--id", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--embed", action="store_true")
    parser.add_argument("--prompt", default="{}")
    parser.add_argument("--max-tokens", type=int, default=128)
    parser.add_argument("--workers", type=int, help="processes; default: one for each --threads processors")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--together", type=int, default=16, help="rows that a worker answers at once")
    parser.add_argument("--batch", type=int, default=64, help="rows of a file of OUTPUT")
    parser.add_argument("--packed", help="default: MODEL.rzpacked")
    args = parser.parse_args()
    args.model, args.output = os.path.abspath(args.model), os.path.abspath(args.output)
    args.packed = os.path.abspath(args.packed or args.model.rstrip("/") + ".rzpacked")
    os.makedirs(args.output, exist_ok=True)

    ray.init(ignore_reinit_error=True, log_to_driver=False)
    workers = args.workers or max(1, int(ray.cluster_resources()["CPU"]) // args.threads)
    rows, finished = read(args.input), done(args.output)
    if finished is not None:
        finished = ray.put(finished)
        absent = lambda batch: batch.filter(pc.invert(pc.is_in(batch[args.id], value_set=ray.get(finished).combine_chunks())))
        rows = rows.map_batches(absent, batch_format="pyarrow", num_cpus=READING)
    # Blocks of a batch each, so that all workers have some; rows of an answer are in no order.
    started, count, tokens = time.perf_counter(), 0, 0
    parts = rows.map_batches(Worker, fn_constructor_args=(args,), batch_format="pyarrow", batch_size=args.batch,
                             compute=ray.data.ActorPoolStrategy(size=workers), num_cpus=args.threads - READING)
    for part in parts.iter_rows():
        count, tokens = count + part["rows"], tokens + part["tokens"]
        seconds = time.perf_counter() - started
        print(f"{count} rows, {tokens} tokens, {tokens / seconds:.0f} tokens/s", flush=True)
    print(f"done: {count} rows in {time.perf_counter() - started:.1f} s by {workers} workers")


if __name__ == "__main__":
    main()
