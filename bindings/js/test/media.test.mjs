// Pictures, sounds and videos.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import test from "node:test";
import {
  chat, Conversation, Encoder, fails, Media, MEDIA_TOKEN, model, Model, Prompt, reasons, Session, talk,
} from "./fixture.mjs";
import { PROMPT, STORY, all, folder } from "./models.mjs";

test("sounds are encoded at once and in steps", async (t) => {
  const encoder = path.join(path.dirname(chat), "mmproj.gguf");
  try {
    execFileSync("python3", [path.join(path.dirname(STORY), "../encoder.py"), "sound/ultravox", encoder]);
  } catch (error) {
    if (error.code === "ENOENT") return t.skip("there is no python3");
    throw error;
  }
  const hears = await Encoder.load(model, encoder);
  assert.deepEqual([hears.info.hears, hears.info.sampleRate], [true, 16000]);
  const samples = Float32Array.from({ length: 70000 }, (_, i) => ((i * i) % 2048) / 4096 - 0.25);
  const whole = await hears.encodeSound(samples, { rate: 16000 });
  const { nRows, nTokens, hash } = whole.info;
  const measured = hears.measure(70000);
  assert.deepEqual([measured.kind, measured.nRows, measured.nTokens, measured.width], ["audio", nRows, nTokens, 70000]);
  const both = Float32Array.from({ length: 140000 }, (_, i) => samples[i >> 1] + (i % 2 ? -0.125 : 0.125));
  const stepped = await hears.encodeSound(both, { channels: 2, rate: 16000, inSteps: true });
  assert.throws(() => stepped.rows(), fails("RZ_ERR_NOT_READY"));
  assert.equal(stepped.info.nRows, nRows);
  let steps = 1;
  while (await stepped.step(0.001)) steps++;
  assert.ok(steps > 1);
  assert.deepEqual(stepped.hash, hash);
  assert.deepEqual(stepped.rows(), whole.rows());
  assert.equal(await stepped.step(), false);
  const other = await hears.encodeSound(samples, { rate: 16000, inSteps: true });
  assert.equal(await other.step(), false);
  assert.deepEqual(other.rows(), whole.rows());
  await assert.rejects(hears.encodeSound(samples, { channels: 3, rate: 16000 }), fails("RZ_ERR_INVALID_ARGUMENT", /3 channels/));
});

test("frames become a video", async (t) => {
  const folder = path.join(path.dirname(chat), "video");
  try {
    execFileSync("python3", [path.join(path.dirname(STORY), "../encoder.py"), "videos/qwen25", folder]);
  } catch (error) {
    if (error.code === "ENOENT") return t.skip("there is no python3");
    throw error;
  }
  const sees = await Encoder.load(await Model.load(folder), folder);
  const size = { width: 84, height: 56 };
  const data = Uint8Array.from({ length: 3 * 84 * 56 * 4 }, (_, i) => (i % 4 === 3 ? 255 : i * 7));
  const video = await sees.encodeVideo({ data, ...size }, [0, 0.5, 1]);
  const { kind, pairs, nRows, nTokens, columns, lines, width, height } = video.info;
  assert.deepEqual({ kind, pairs, nRows, nTokens }, { kind: "video", pairs: 2, nRows: 12, nTokens: 14 });
  assert.deepEqual([columns, lines, width, height], [3, 2, 84, 56]);
  const rgb = data.filter((_, i) => i % 4 !== 3);
  const same = await sees.encodeVideo({ data: rgb, ...size, format: "rgb8" }, [0, 0.5, 1], { inSteps: true });
  assert.deepEqual(same.hash, video.hash);
  while (await same.step(0.001));
  assert.deepEqual(same.rows(), video.rows());
  const other = await sees.encodeVideo({ data, ...size }, [0, 1, 2]);
  assert.notDeepEqual(other.hash, video.hash);
  const invalid = (message) => fails("RZ_ERR_INVALID_ARGUMENT", message);
  await assert.rejects(sees.encodeVideo({ data, ...size }, [0, 2, 1]), invalid(/entry 2: the time/));
  await assert.rejects(sees.encodeVideo({ data, ...size }, [0, 1]), invalid(/frames/));
});

test("rows of media stand for tokens, and wrong ones are refused", async () => {
  // The embeddings of tokens, the first tensor of the tiny model.
  const table = new Float32Array(fs.readFileSync(STORY).subarray(14176).buffer.slice(14176, 14176 + 4 * 512 * 64));
  const ids = model.tokenize(PROMPT);
  const rows = Float32Array.from([...ids.subarray(1, 4)].flatMap((token) => [...table.subarray(token * 64, token * 64 + 64)]));
  const media = Media.fromRows(model, rows, { rowDim: 64 });
  const { kind, nRows, rowDim, columns, lines } = media.info;
  assert.deepEqual([kind, nRows, rowDim, columns, lines], ["image", 3, 64, 3, 1]);
  assert.deepEqual(media.rows(), rows);
  const prompt = new Prompt(model, [ids.subarray(0, 1), media, [...ids.subarray(4)]], { bare: true });
  const tokens = ids.map((id, i) => (i >= 1 && i <= 3 ? MEDIA_TOKEN : id));
  assert.deepEqual(prompt.tokens, tokens);
  const expected = await all(new Session(model).generate(PROMPT, { maxTokens: 25 }));
  const session = new Session(model);
  for (let i = 0; i < 2; i++) assert.deepEqual(await all(session.generate(prompt, { maxTokens: 25 })), expected);
  assert.deepEqual(session.tokens.subarray(0, tokens.length), tokens);
  const again = await Media.load(model, await media.save());
  assert.deepEqual([again.hash, media.hash.length], [media.hash, 32]);
  assert.notDeepEqual(Media.fromRows(model, new Float32Array(192), { rowDim: 64 }).hash, media.hash);

  const parts = [
    { type: "image", media },
    { type: "text", text: "Once" },
  ];
  const seen = Prompt.ofChat(model, [{ role: "user", content: parts }]).tokens;
  assert.deepEqual([seen[1], seen.filter((token) => token === MEDIA_TOKEN).length], [MEDIA_TOKEN, 3]);

  const shown = talk();
  shown.add({ role: "user", content: parts });
  await all(shown.reply({ maxTokens: 5 }));
  assert.deepEqual([shown.info.nMedia, shown.media[0].hash], [1, media.hash]);
  assert.deepEqual(shown.messages()[0].content[0], { type: "image", media: 0 });
  const begun = new Conversation(model, { system: "S", messages: [{ role: "user", content: [{ type: "image", media }] }] });
  assert.deepEqual(begun.messages()[1].content, [{ type: "image", media: 0 }]);
  assert.equal(begun.info.nMedia, 1);
  for (const pooling of ["mean", "none"]) {
    assert.deepEqual(await model.embed([prompt, "Once"], { pooling }), await model.embed([ids, "Once"], { pooling }));
  }
  await assert.rejects(Encoder.load(model, fs.readFileSync(STORY)), fails("RZ_ERR_UNSUPPORTED"));

  const wrong = fails("RZ_ERR_INVALID_ARGUMENT");
  parts.push({ type: "image", media: 7 });
  assert.throws(() => Prompt.ofChat(model, [{ role: "user", content: parts }]), wrong);
  assert.throws(() => Media.fromRows(model, new Float32Array(63), { rowDim: 63 }), wrong);
  assert.throws(() => Media.fromRows(model, new Float32Array(63), { rowDim: 64 }), wrong);
  assert.throws(() => Media.fromRows(model, rows, { rowDim: 64, kind: "smell" }), wrong);
  assert.throws(() => new Prompt(model, [[512]]), wrong);
  assert.throws(() => new Prompt(reasons, [media]), fails("RZ_ERR_MISMATCH"));
  await assert.rejects(Encoder.load(model, STORY), fails("RZ_ERR_UNSUPPORTED"));
  await assert.rejects(Encoder.plan(model, "none.gguf"), fails("RZ_ERR_IO"));
  media.close();
  assert.throws(() => new Prompt(model, [media]), wrong);
  assert.equal(prompt.length, tokens.length);
});
