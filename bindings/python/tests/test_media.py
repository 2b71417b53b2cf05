"""Pictures, sounds and videos, and prompts with them."""

import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import time
import unittest

import numpy as np

import realizar

from support import PROMPT, STORY, Tiny, chat_model


class Media(Tiny):
    def rows_of(self, tokens):
        """Embeddings of tokens, the first tensor of the tiny model."""
        with open(STORY, "rb") as file:
            table = np.frombuffer(file.read(), dtype=np.float32, count=512 * 64, offset=14176).reshape(512, 64)
        return table[tokens]

    def test_rows_of_media_stand_for_tokens(self):
        ids = self.model.tokenize(PROMPT)
        with self.model.session() as session:
            text = "".join(session.generate(ids, max_tokens=25))
            session.truncate(0)
            session.prefill(ids)
            logits = session.logits()
        rows = self.rows_of(ids[1:4])
        media = realizar.Media.from_rows(self.model, rows)
        self.assertEqual((media.info.kind, len(media), media.info.row_dim, media.info.columns, media.info.lines), ("image", 3, 64, 3, 1))
        np.testing.assert_array_equal(media.rows(), rows)
        prompt = realizar.Prompt(self.model, [ids[:1], media, np.array(ids[4:])], bare=True)
        self.assertEqual(prompt.tokens, [ids[0], *[realizar.Prompt.MEDIA_TOKEN] * 3, *ids[4:]])
        with self.model.session() as session:
            for _ in range(2):
                self.assertEqual("".join(session.generate(prompt, max_tokens=25)), text)
            self.assertEqual(session.match(prompt), len(ids))
            self.assertEqual(session.match(ids), 1)
            self.assertEqual(session.tokens[: len(ids)], prompt.tokens)
            session.truncate(2)
            session.prefill(prompt, first=2)
            np.testing.assert_array_equal(session.logits(), logits)
            session.prefill(ids, first=len(ids) - 1)
            self.assertEqual(len(session), len(ids) + 1)
            # A prompt that ends with rows is computed from their start.
            ends = realizar.Prompt(self.model, [ids[:1], realizar.Media.from_rows(self.model, self.rows_of(ids[1:]))], bare=True)
            for _ in range(2):
                self.assertEqual("".join(session.generate(ends, max_tokens=25)), text)
        first = realizar.Prompt(self.model, ["Once", " upon", media])
        self.assertEqual(first.tokens[:1], ids[:1])
        self.assertEqual(first.tokens.count(ids[0]), 1)

    def test_sounds_have_channels_and_are_measured(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "mmproj.gguf")
            tests = os.path.join(os.path.dirname(os.path.dirname(STORY)), "encoder.py")
            subprocess.run([sys.executable, tests, "sound/ultravox", path], check=True)
            encoder = realizar.Encoder(self.model, path)
        samples = (np.arange(70000, dtype=np.int64) ** 2 % 2048 / 4096 - 0.25).astype(np.float32)
        media = encoder.encode_sound(samples, 16000)
        measured = encoder.measure(70000)
        self.assertEqual((measured.kind, measured.n_rows, measured.n_tokens), ("audio", len(media), media.info.n_tokens))
        both = encoder.encode_sound(np.stack([samples + 0.125, samples - 0.125], 1), 16000)
        self.assertEqual(both.hash, media.hash)
        np.testing.assert_array_equal(both.rows(), media.rows())
        for wrong in (samples.astype(np.int16), samples.reshape(100, 70, 10), samples.reshape(7, 10000)):
            with self.assertRaises(realizar.InvalidArgument):
                encoder.encode_sound(wrong, 16000)

    def test_frames_become_a_video(self):
        with tempfile.TemporaryDirectory() as folder:
            tests = os.path.join(os.path.dirname(os.path.dirname(STORY)), "encoder.py")
            subprocess.run([sys.executable, tests, "videos/qwen25", folder], check=True)
            model = realizar.Model(folder)
            encoder = realizar.Encoder(model, folder)
        self.assertEqual(encoder.info.kinds, ("image", "video"))
        frames = [np.arange(56 * 84 * 3).reshape(56, 84, 3).astype(np.uint8) + np.uint8(i) for i in range(3)]
        told = []
        media = encoder.encode_video(frames, [0, 0.5, 1], progress=lambda done, total: told.append((done, total)))
        info = media.info
        self.assertEqual((info.kind, info.pairs, info.n_rows, info.columns, info.lines), ("video", 2, 12, 3, 2))
        self.assertEqual((info.n_tokens, info.width, info.height, told[-1]), (14, 84, 56, (2, 2)))
        four = [np.dstack([frame, np.full((56, 84), 255, np.uint8)]) for frame in frames]
        self.assertEqual(encoder.encode_video(four, [0, 0.5, 1]).hash, media.hash)
        self.assertNotEqual(encoder.encode_video(frames, [0, 1, 2]).hash, media.hash)
        # What is transparent shows white, or the colour that is told.
        clear = np.dstack([frames[0], np.zeros((56, 84), np.uint8)])
        white = np.full((56, 84, 3), 255, np.uint8)
        self.assertEqual(encoder.encode(clear).hash, encoder.encode(white).hash)
        self.assertEqual(encoder.encode(clear, background=0xFF000000).hash, encoder.encode(white * 0).hash)
        prompt = realizar.Prompt(model, [[5, 9], media, [7]])
        self.assertEqual(len(prompt), 17)
        for wrong, times, message in (
            (frames, [0, 1], "times has 2 numbers; it must have one for each of 3 frames"),
            (frames, [0, 2, 1], "entry 2: the time"),
            ([frames[0], frames[1][:28]], [0, 1], "entry 1: it has 84 x 28 pixels"),
        ):
            with self.assertRaisesRegex(realizar.InvalidArgument, message):
                encoder.encode_video(wrong, times)
        # Options that there are not, and numbers that do not fit.
        picture = frames[0]
        for call in (lambda **o: encoder.encode(picture, **o), lambda **o: encoder.begin(picture, **o), lambda **o: encoder.measure(56, 56, **o)):
            with self.assertRaisesRegex(TypeError, "^the option max_rowz is unknown; the nearest is max_rows$"):
                call(max_rowz=1)
            for wrong in (-1, 1 << 32, 0.5):
                with self.assertRaisesRegex(realizar.InvalidArgument, "^max_rows is .*; it must be a whole number from 0 to 4294967295$"):
                    call(max_rows=wrong)
        with self.assertRaisesRegex(realizar.InvalidArgument, "^rate is -1; "):
            encoder.encode_sound(np.zeros(9, np.float32), -1)

    @unittest.skipUnless(importlib.util.find_spec("PIL"), "Pillow is not here")
    def test_pictures_of_pillow_are_upright_and_keep_what_is_transparent(self):
        from PIL import Image, ImageOps

        from realizar import _of_pillow

        picture = Image.fromarray(np.arange(4 * 6 * 3).reshape(4, 6, 3).astype(np.uint8))
        for orientation in range(1, 9):
            exif, file = Image.Exif(), io.BytesIO()
            exif[0x112] = orientation
            picture.save(file, "PNG", exif=exif)
            lying = Image.open(io.BytesIO(file.getvalue()))
            np.testing.assert_array_equal(np.asarray(_of_pillow(lying)), np.asarray(ImageOps.exif_transpose(lying)))
        file = io.BytesIO()
        picture.quantize(9).save(file, "PNG", transparency=2)
        modes = [_of_pillow(one).mode for one in (Image.open(io.BytesIO(file.getvalue())), picture.convert("LA"), picture.convert("1"), picture)]
        self.assertEqual(modes, ["RGBA", "RGBA", "RGB", "RGB"])

    def test_media_are_saved_and_have_hashes(self):
        rows = self.rows_of([5, 6, 7, 8])
        media = realizar.Media.from_rows(self.model, rows, columns=2, lines=2)
        file = io.BytesIO()
        media.save(file)
        again = realizar.Media.load(self.model, io.BytesIO(file.getvalue()))
        self.assertEqual((again.hash, again.info.columns), (media.hash, 2))
        self.assertEqual(len(media.hash), 32)
        self.assertNotEqual(realizar.Media.from_rows(self.model, rows + 1).hash, media.hash)
        np.testing.assert_array_equal(again.rows(), rows)
        with self.assertRaises(realizar.FormatError):
            realizar.Media.load(self.model, io.BytesIO(b"x" * 1000))

    def test_media_in_messages(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            media = realizar.Media.from_rows(model, self.rows_of([5, 6, 7]))
            image, text = {"type": "image", "media": media}, {"type": "text", "text": PROMPT}
            prompt = realizar.Prompt.of_chat(model, [{"role": "user", "content": [image, text, image]}])
            self.assertEqual([prompt.tokens[1:4], prompt.tokens[-3:]], [[realizar.Prompt.MEDIA_TOKEN] * 3] * 2)
            plain = [token for token in prompt.tokens if token != realizar.Prompt.MEDIA_TOKEN]
            self.assertEqual(model.detokenize(plain), PROMPT)
            self.assertEqual(realizar.Prompt.of_chat(model, PROMPT).tokens, model.tokenize_chat(PROMPT))
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Prompt.of_chat(model, [{"role": "user", "content": [{"type": "image", "media": 7}, image]}])
            with self.assertRaises(TypeError):
                realizar.Prompt.of_chat(model, [{"role": "user", "content": object()}])

    def test_conversations_are_shown_media(self):
        with tempfile.TemporaryDirectory() as folder, realizar.Model(chat_model(folder), threads=1) as model:
            media = realizar.Media.from_rows(model, self.rows_of([5, 6, 7]))
            shown = {"role": "user", "content": [{"type": "image", "media": media}, {"type": "text", "text": PROMPT}]}
            prompt = realizar.Prompt.of_chat(model, [shown])
            with model.session() as session:
                text = "".join(session.generate(prompt, max_tokens=10))
            talk = realizar.Conversation(model)
            talk.add(shown)
            media.close()
            self.assertEqual("".join(part.text for part in talk.reply(max_tokens=10) if part.kind == "content"), text)
            self.assertEqual((talk.info.prompt_tokens, talk.info.n_media), (len(prompt), 1))
            self.assertEqual([media.hash for media in talk.media], [realizar.Media.from_rows(model, self.rows_of([5, 6, 7])).hash])
            self.assertEqual(talk.messages()[0]["content"][0], {"type": "image", "media": 0})
            with self.assertRaises(realizar.Error):
                talk.add(shown)
            with self.assertRaisesRegex(realizar.InvalidArgument, "media is 0, there are 0 media"):
                talk.add({"role": "user", "content": [{"type": "image", "media": 0}]})

    def test_prompts_are_embedded_and_stored(self):
        ids = self.model.tokenize(PROMPT)
        media = realizar.Media.from_rows(self.model, self.rows_of(ids[1:4]))
        prompt = realizar.Prompt(self.model, [ids[:1], media, ids[4:]], bare=True)
        for pooling in "mean", "none":
            plain = self.model.embed([ids, "Once"], pooling=pooling)
            np.testing.assert_array_equal(self.model.embed([prompt, "Once"], pooling=pooling), plain)
        store = realizar.Store(self.model, min_tokens=2)
        for held in 0, len(ids) - 1:
            with store.take(prompt) as session:
                self.assertEqual(len(session), held)
                session.prefill(prompt, first=len(session))
                store.put(session)

    def test_wrong_media_are_refused(self):
        media = realizar.Media.from_rows(self.model, self.rows_of([5]))
        for rows, options in [(np.zeros((2, 63)), {}), (np.zeros((0, 64)), {}), (np.zeros(64), {}), (np.full((1, 64), np.nan), {}),
                              (np.zeros((4, 64)), {"columns": 3, "lines": 1}), (np.zeros((1, 64)), {"kind": "smell"})]:  # fmt: skip
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Media.from_rows(self.model, rows, **options)
        for parts in ([[512]], [realizar.Prompt.MEDIA_TOKEN], [[realizar.Prompt.MEDIA_TOKEN]]):
            with self.assertRaises(realizar.InvalidArgument):
                realizar.Prompt(self.model, parts)
        prompt = realizar.Prompt(self.model, [media])
        with self.model.session() as session, realizar.Model(STORY, threads=1) as other, other.session() as strange:
            with self.assertRaises(realizar.InvalidArgument):
                session.prefill(prompt, first=len(prompt))
            with self.assertRaises(realizar.Mismatch):
                strange.prefill(prompt)
            with self.assertRaises(realizar.Mismatch):
                realizar.Prompt(other, [media])
        with self.assertRaises(realizar.Unsupported):
            realizar.Encoder(self.model, STORY)
        media.close()
        self.assertEqual(prompt.tokens.count(realizar.Prompt.MEDIA_TOKEN), 1)
        with self.assertRaises(realizar.Closed):
            realizar.Prompt(self.model, [media])
