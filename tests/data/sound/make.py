#!/usr/bin/env python3
"""Writes the files of this folder: what transformers makes of sounds that follow from their lengths.

spectrograms.json: values of WhisperFeatureExtractor. FAMILY.json: encoders of small models, as tests/data/vision has them; the rows
are those of the authors' networks in floats of 64 bits. Ultravox is no part of transformers: its encoder is Whisper's with shorter inputs,
its projector is written down here. *.wav: a few samples by libsndfile, in wav.json and adpcm.json as it reads them; compressed.json: the same
of *.mp3, *.flac and *.ogg.

Needs numpy, torch, soundfile and transformers 5.24.
"""
import json, os, sys
import numpy as np, soundfile, torch
from transformers import (Qwen2_5OmniAudioEncoderConfig, Qwen2AudioConfig, Qwen2AudioEncoderConfig, Qwen3ASRConfig, Qwen3ASREncoderConfig, Qwen3ASRFeatureExtractor,
                          VoxtralConfig, VoxtralEncoderConfig, WhisperConfig, WhisperFeatureExtractor)
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniAudioEncoder
from transformers.models.qwen2_audio.modeling_qwen2_audio import Qwen2AudioEncoder, Qwen2AudioMultiModalProjector
from transformers.models.qwen3_asr.modeling_qwen3_asr import Qwen3ASREncoder, Qwen3ASRMultiModalProjector
from transformers.models.voxtral.modeling_voxtral import VoxtralEncoder, VoxtralMultiModalProjector
from transformers.models.whisper.modeling_whisper import WhisperEncoder

HERE = os.path.dirname(os.path.abspath(__file__))
D, HEADS, FFN, LAYERS, BINS, PLACES, HIDDEN = 48, 3, 192, 2, 16, 100, 64
PART = PLACES * 320
# Width of Ultravox's projector.
INNER = 80
# Ids behind those of tests/data/vision/vocabulary.json.
NAMES = ["<|audio_bos|>", "<|audio_eos|>", "<|AUDIO|>", "[BEGIN_AUDIO]", "[AUDIO]", "<|audio|>", "<|audio_start|>", "<|audio_end|>", "<|audio_pad|>"]
# Bins and channels of Qwen3's, which its convolutions do not divide.
BINS3, CHANNELS = 20, 24


def weights(name, shape):
    """`weights` of tests/data/folders/make.py."""
    seed = np.uint64(14695981039346656037)
    with np.errstate(over="ignore"):
        for byte in name.encode():
            seed = (seed ^ np.uint64(byte)) * np.uint64(1099511628211)
        x = np.arange(int(np.prod(shape)), dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15) + seed
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        x = x ^ (x >> np.uint64(31))
    u = (x >> np.uint64(40)).astype(np.float64) / 2**23 - 1
    if len(shape) < 2:
        is_norm = name.endswith("weight") and any(part in name.lower() for part in ["norm", "ln_", "ln."])
        values = 1 + 0.25 * u if is_norm else 0.25 * u
    else:
        values = u * np.sqrt(3.0 / shape[-1])
    return values.astype(np.float32).reshape(shape)


def sound(n):
    """The sound that tests make again: whole numbers by their places over a power of two, with silence between."""
    i = np.arange(n, dtype=np.int64)
    x = (i * (i % 97 + 3) * 37 + i // 5) % 4001 - 2000
    return (np.where(i // 4000 % 3 == 2, 0, x) / 4096).astype(np.float32)


def extractor(bins, seconds):
    return WhisperFeatureExtractor(feature_size=bins, chunk_length=seconds)


def spectrogram(bins, samples, padded):
    """[frames, bins], by the processor's arithmetic in floats of 64 bits."""
    x = np.zeros((1, padded))
    x[0, :len(samples)] = samples
    return extractor(bins, 30)._np_extract_fbank_features(x, "cpu")[0].T


def spectrograms():
    out = []
    for bins, n, padded in ((80, 16000, 480000), (128, 12345, 480000), (80, 479999, 480000), (16, 640, 640), (80, 320, 320), (80, 5, 320),
                            (128, 0, 480000), (40, 100, 1600)):
        mel = spectrogram(bins, sound(n), padded)
        every = 997 if mel.size > 4000 else 7
        out.append([bins, n, padded, list(mel.shape), every, [round(float(x), 7) for x in mel.reshape(-1)[::every]]])
    return out


def whisper():
    return [["a.conv1d.1.weight", [D, BINS, 3], 0.3, 0], ["a.conv1d.1.bias", [D], 1, 0], ["a.conv1d.2.weight", [D, D, 3], 0.2, 0],
            ["a.conv1d.2.bias", [D], 1, 0], ["a.position_embd.weight", [PLACES, D], 4, 0]]


def chunked():
    rows = []
    for i, inputs in enumerate((1, CHANNELS, CHANNELS), 1):
        rows += [[f"a.conv2d.{i}.weight", [CHANNELS, inputs, 3, 3], 0.5, 0], [f"a.conv2d.{i}.bias", [CHANNELS], 1, 0]]
    return rows + [["a.conv_out.weight", [D, CHANNELS * 3], 1, 0]]


def layers(keys=False):
    rows = [["a.post_ln.weight", [D], 1, 1], ["a.post_ln.bias", [D], 1, 0]]
    for i in range(LAYERS):
        p = f"a.blk.{i}."
        for part in ("ln1", "ln2"):
            rows += [[f"{p}{part}.weight", [D], 1, 1], [f"{p}{part}.bias", [D], 1, 0]]
        for part, scale in (("attn_q", 2), ("attn_k", 2), ("attn_v", 1), ("attn_out", 1)):
            rows.append([f"{p}{part}.weight", [D, D], scale, 0])
            if part != "attn_k" or keys:
                rows.append([f"{p}{part}.bias", [D], 1, 0])
        rows += [[f"{p}ffn_up.weight", [FFN, D], 1.5, 0], [f"{p}ffn_up.bias", [FFN], 1, 0], [f"{p}ffn_down.weight", [D, FFN], 1, 0],
                 [f"{p}ffn_down.bias", [D], 1, 0]]
    return rows


FOLDER = {"a.conv1d.1": "audio_tower.conv1", "a.conv1d.2": "audio_tower.conv2", "a.position_embd": "audio_tower.embed_positions",
          "a.post_ln": "audio_tower.layer_norm", "ln1": "self_attn_layer_norm", "ln2": "final_layer_norm", "attn_q": "self_attn.q_proj",
          "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_out": "self_attn.out_proj", "ffn_up": "fc1", "ffn_down": "fc2",
          "a.conv2d.1": "audio_tower.conv2d1", "a.conv2d.2": "audio_tower.conv2d2", "a.conv2d.3": "audio_tower.conv2d3",
          "a.conv_out": "audio_tower.conv_out", "mm.a.fc": "multi_modal_projector.linear", "mm.a.mlp.1": "multi_modal_projector.linear_1",
          "mm.a.mlp.2": "multi_modal_projector.linear_2"}


def folder_name(name, family):
    part, leaf = name.rsplit(".", 1)
    if family == "qwen2.5o":
        own = {"a.post_ln": "audio_tower.ln_post", "mm.a.fc": "audio_tower.proj", "audio_bos_eos_token": "audio_tower.audio_bos_eos_token"}
        return "thinker." + (f"{own[part]}.{leaf}" if part in own else folder_name(name, None))
    if part == "a.post_ln" and family == "qwen3a":
        return "audio_tower.ln_post." + leaf
    if part.startswith("a.blk."):
        _, _, i, part = part.split(".")
        return f"audio_tower.layers.{i}.{FOLDER[part]}.{leaf}"
    return f"{FOLDER[part]}.{leaf}" if part in FOLDER else name


def values(rows):
    return {name: torch.from_numpy((weights(name, shape).astype(np.float64) * scale + offset).astype(np.float32).astype(np.float64))
            for name, shape, scale, offset in rows}


def load(module, w, prefix):
    """Loads the tensors whose names in a folder begin with `prefix`."""
    module = module.double().eval()
    names = {folder_name(name, "qwen3a" * ("a.conv_out.weight" in w)): t for name, t in w.items()}
    module.load_state_dict({n[len(prefix):]: t for n, t in names.items() if n.startswith(prefix)}, strict=True)
    return module


def config(kind, **more):
    return kind(d_model=D, encoder_layers=LAYERS, encoder_attention_heads=HEADS, encoder_ffn_dim=FFN, num_mel_bins=BINS,
                max_source_positions=PLACES, attn_implementation="eager", **more)


def features(mel):
    return torch.from_numpy(np.ascontiguousarray(mel.T, np.float64))[None]


def mask_behind(seen, n):
    """A mask to add to scores, so that none of `n` sees those from `seen` on."""
    return torch.zeros(1, 1, n, n, dtype=torch.float64).masked_fill(torch.arange(n) >= seen, -np.inf)


def qwen2a(w, samples):
    """Parts one after the other, each as Qwen2AudioModel.forward takes a sound."""
    whole = config(Qwen2AudioEncoderConfig)
    encoder = load(Qwen2AudioEncoder(whole), w, "audio_tower.")
    projector = load(Qwen2AudioMultiModalProjector(Qwen2AudioConfig(audio_config=whole, text_config=dict(model_type="qwen2", hidden_size=HIDDEN))), w,
                     "multi_modal_projector.")
    out = []
    for first in range(0, len(samples), PART):
        part = samples[first:first + PART]
        mask = extractor(BINS, 2)(part, sampling_rate=16000, padding="max_length", return_attention_mask=True)["attention_mask"]
        seen, rows = (int(n) for n in encoder._get_feat_extract_output_lengths(torch.tensor(int(mask.sum()))))
        states = encoder(features(spectrogram(BINS, part, PART)), attention_mask=mask_behind(seen, PLACES)).last_hidden_state
        out.append(projector(states)[0, :rows])
    return torch.cat(out)


def omni(w, samples):
    """As Qwen2_5OmniThinkerModel.get_audio_features cuts the spectrogram of a sound."""
    encoder = Qwen2_5OmniAudioEncoder(config(Qwen2_5OmniAudioEncoderConfig, output_dim=HIDDEN)).double().eval()
    names = {folder_name(name, "qwen2.5o")[len("thinker.audio_tower."):]: t for name, t in w.items()}
    encoder.load_state_dict(names, strict=True)
    padded = 32 * PART
    mask = extractor(BINS, padded // 16000)(samples, sampling_rate=16000, padding="max_length", return_attention_mask=True)["attention_mask"]
    mel = features(spectrogram(BINS, samples, padded))[0, :, :int(mask.sum())]
    return encoder(mel, feature_lens=torch.tensor([mel.shape[1]])).last_hidden_state


def voxtral(w, samples):
    whole = config(VoxtralEncoderConfig)
    encoder = load(VoxtralEncoder(whole), w, "audio_tower.")
    shape = VoxtralConfig(audio_config=whole, text_config=dict(model_type="llama", hidden_size=HIDDEN))
    projector = load(VoxtralMultiModalProjector(shape), w, "multi_modal_projector.")
    padded = -(-len(samples) // PART) * PART
    mel = features(spectrogram(BINS, samples, padded))[0].reshape(BINS, -1, 2 * PLACES).transpose(0, 1)
    return projector(encoder(mel).last_hidden_state.reshape(-1, 4 * D))


def qwen3a(w, samples):
    """As Qwen3ASRProcessor pads one sound."""
    shape = Qwen3ASRConfig(audio_config=dict(model_type="qwen3_asr_encoder", d_model=D, encoder_layers=LAYERS, encoder_attention_heads=HEADS,
                                             encoder_ffn_dim=FFN, num_mel_bins=BINS3, downsample_hidden_size=CHANNELS, output_dim=HIDDEN))
    shape.audio_config._attn_implementation = "eager"
    encoder = load(Qwen3ASREncoder(shape.audio_config), w, "audio_tower.")
    projector = load(Qwen3ASRMultiModalProjector(shape), w, "multi_modal_projector.")
    told = Qwen3ASRFeatureExtractor(feature_size=BINS3)(samples, sampling_rate=16000, padding=True, return_attention_mask=True)
    mel = spectrogram(BINS3, samples, max(len(samples), 8000))
    mel = np.pad(mel, ((0, -len(mel) % 100), (0, 0)))
    assert np.abs(told["input_features"][0].numpy().T - mel).max() < 1e-4
    # The mask of a short sound is that of its samples as they were filled up.
    states = encoder(input_features=features(mel), input_features_mask=told["attention_mask"]).last_hidden_state
    return projector(states)


def ultravox(w, samples):
    """UltravoxProcessor._chunk_and_pad_audio, ModifiedWhisperEncoder and UltravoxProjector of fixie-ai/ultravox."""
    STACK = 8
    encoder = load(WhisperEncoder(config(WhisperConfig)), w, "audio_tower.")
    samples = np.pad(samples, (0, max(0, 320 - len(samples))))
    padded = -(-len(samples) // 160) * 160
    mel = features(spectrogram(BINS, samples, padded))
    rms = lambda x, name: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w[name]
    out = []
    for first in range(0, mel.shape[-1], 2 * PLACES):
        part = mel[..., first:first + 2 * PLACES]
        given = part.shape[-1]
        if first:
            part = torch.nn.functional.pad(part, (0, 2 * PLACES - given))
        x = torch.nn.functional.gelu(encoder.conv1(part))
        x = torch.nn.functional.gelu(encoder.conv2(x)).permute(0, 2, 1)
        x = x + encoder.embed_positions.weight[:x.shape[1]]
        seen = (given - 1) // 2 + 1
        for layer in encoder.layers:
            x = layer(x, mask_behind(seen, x.shape[1]))
            x = x[0] if isinstance(x, tuple) else x
        x = encoder.layer_norm(x)
        x = torch.nn.functional.pad(x, (0, 0, 0, -x.shape[1] % STACK)).reshape(1, -1, STACK * D)
        x = rms(x, "mm.a.norm_pre.weight") @ w["mm.a.mlp.1.weight"].T
        up, gate = x.chunk(2, -1)
        x = rms(torch.nn.functional.silu(gate) * up, "mm.a.norm_mid.weight") @ w["mm.a.mlp.2.weight"].T
        out.append(x[0, :-(-given // 16)])
    return torch.cat(out)


FAMILIES = {
    "qwen2.5o": (omni, [["mm.a.fc.weight", [HIDDEN, D], 1, 0], ["mm.a.fc.bias", [HIDDEN], 1, 0], ["audio_bos_eos_token.weight", [2, HIDDEN], 1, 0]], {}, "qwen2_5_omni", ([0], [1])),
    "qwen3a": (qwen3a, [["mm.a.mlp.1.weight", [D, D], 1, 0], ["mm.a.mlp.1.bias", [D], 1, 0], ["mm.a.mlp.2.weight", [HIDDEN, D], 1, 0],
                        ["mm.a.mlp.2.bias", [HIDDEN], 1, 0]], {"clip.audio.num_mel_bins": BINS3}, "qwen3_asr", ([6], [7])),
    "qwen2a": (qwen2a, [["mm.a.fc.weight", [HIDDEN, D], 1, 0], ["mm.a.fc.bias", [HIDDEN], 1, 0]], {}, "qwen2_audio", ([0], [1])),
    "voxtral": (voxtral, [["mm.a.mlp.1.weight", [HIDDEN, 4 * D], 1, 0], ["mm.a.mlp.2.weight", [HIDDEN, HIDDEN], 1, 0]],
                {"clip.audio.projector.stack_factor": 4}, "voxtral", ([3], [])),
    "ultravox": (ultravox, [["mm.a.norm_pre.weight", [8 * D], 1, 0], ["mm.a.mlp.1.weight", [2 * INNER, 8 * D], 1, 0],
                            ["mm.a.norm_mid.weight", [INNER], 1, 0], ["mm.a.mlp.2.weight", [HIDDEN, INNER], 1, 0]],
                 {"clip.audio.projector.stack_factor": 8}, None, ([], [])),
}
TEXT = dict(hidden_size=HIDDEN, num_hidden_layers=1, num_attention_heads=4, num_key_value_heads=4, intermediate_size=96, vocab_size=320,
            rms_norm_eps=1e-5, rope_theta=10000.0, max_position_embeddings=4096, tie_word_embeddings=False, hidden_act="silu")


def text(bias, norms):
    """Names and shapes of a text model of one layer."""
    p, rows = "language_model.model.", [["language_model.lm_head.weight", [320, HIDDEN]]]
    rows += [[p + "embed_tokens.weight", [320, HIDDEN]], [p + "norm.weight", [HIDDEN]]]
    for part in "qkvo":
        rows.append([f"{p}layers.0.self_attn.{part}_proj.weight", [HIDDEN, HIDDEN]])
        rows += [[f"{p}layers.0.self_attn.{part}_proj.bias", [HIDDEN]]] if bias and part != "o" else []
    rows += [[f"{p}layers.0.self_attn.{part}_norm.weight", [HIDDEN // 4]] for part in "qk"] if norms else []
    rows += [[f"{p}layers.0.mlp.{part}_proj.weight", [96, HIDDEN]] for part in ("gate", "up")] + [[p + "layers.0.mlp.down_proj.weight", [HIDDEN, 96]]]
    return rows + [[f"{p}layers.0.{part}_layernorm.weight", [HIDDEN]] for part in ("input", "post_attention")]


def write_family(family):
    rows_of, projector, more, model_type, around = FAMILIES[family]
    is_chunked = family == "qwen3a"
    rows = (chunked() if is_chunked else whisper()) + layers(is_chunked) + projector
    # Places of Qwen's later encoders are waves, which folders do not have.
    rows = [row for row in rows if family != "qwen2.5o" or "position_embd" not in row[0]]
    w = values(rows)
    keys = {"general.architecture": "clip", "general.type": "mmproj", "clip.projector_type": family, "clip.has_audio_encoder": True,
            "clip.audio.embedding_length": D, "clip.audio.feed_forward_length": FFN, "clip.audio.block_count": LAYERS,
            "clip.audio.projection_dim": HIDDEN, "clip.audio.attention.head_count": HEADS,
            "clip.audio.attention.layer_norm_epsilon": float(np.float32(1e-5)), "clip.audio.num_mel_bins": BINS} | more
    columns = lambda name: [1] * ((name.count("conv1d") + 2 * name.count("conv2d")) * name.endswith("bias"))
    shape = lambda name, s: s + columns(name)
    data = {"family": family, "keys": keys, "base": rows, "gguf": [[n, n, "", shape(n, s)] for n, s, _, _ in rows if "bos_eos" not in n]}
    if model_type:
        names = dict(qwen3_asr=("audio_token_id", 151676, dict(model_type="qwen3_asr_encoder", d_model=D, encoder_layers=LAYERS,
                                encoder_attention_heads=HEADS, encoder_ffn_dim=FFN, n_window=50, n_window_infer=800, output_dim=HIDDEN,
                                downsample_hidden_size=CHANNELS, max_position_embeddings=13)),
                     qwen2_5_omni=("audio_token_id", 151646, dict(model_type="qwen2_5_omni_audio_encoder", d_model=D, encoder_layers=LAYERS,
                                   encoder_attention_heads=HEADS, encoder_ffn_dim=FFN, n_window=100, output_dim=HIDDEN)),
                     qwen2_audio=("audio_token_index", 151646, dict(model_type="qwen2_audio_encoder", d_model=D, encoder_layers=LAYERS,
                                  encoder_attention_heads=HEADS, encoder_ffn_dim=FFN, encoder_layerdrop=0.0)),
                     voxtral=("audio_token_id", 24, dict(model_type="voxtral_encoder", hidden_size=D, num_hidden_layers=LAYERS,
                              num_attention_heads=HEADS, intermediate_size=FFN, layerdrop=0.0)))[model_type]
        bins = BINS3 if is_chunked else BINS
        audio = names[2] | dict(num_mel_bins=bins) | ({} if is_chunked else dict(max_source_positions=PLACES))
        audio |= dict(scale_embedding=False, activation_function="gelu", dropout=0.0,
                                attention_dropout=0.0, activation_dropout=0.0, initializer_range=0.02)
        llm = TEXT | dict(model_type=dict(qwen3_asr="qwen3", qwen2_5_omni="qwen2", qwen2_audio="qwen2", voxtral="llama")[model_type])
        llm |= dict(head_dim=HIDDEN // 4) if is_chunked else {}
        data["config"] = {"model_type": model_type, names[0]: names[1], "audio_config": audio, "text_config": llm, "torch_dtype": "float32"}
        data["config"] |= {"projector_hidden_act": "gelu"} if model_type == "voxtral" else {}
        data["config"] |= {"timestamp_token_id": 151705, "token_classification_bias": False} if is_chunked else {}
        data["pixels"] = {"chunk_length": 2, "dither": 0.0, "feature_extractor_type": "WhisperFeatureExtractor", "feature_size": bins, "hop_length": 160,
                          "n_fft": 400, "n_samples": PART, "nb_max_frames": 2 * PLACES, "padding_side": "right", "padding_value": 0.0,
                          "processor_class": "Some", "return_attention_mask": True, "sampling_rate": 16000}
        data["pixels"] |= {"feature_extractor_type": "Qwen3ASRFeatureExtractor", "n_window": 50, "min_length": 8000} if is_chunked else {}
        data["folder"] = [[folder_name(n, family), n, "", s] for n, s, _, _ in rows]
        if family == "qwen2.5o":
            config = data["config"]
            data["config"] = {"model_type": model_type, "thinker_config": config | {"model_type": "qwen2_5_omni_thinker"}, "torch_dtype": "float32"}
        data["text"] = text(model_type == "qwen2_audio", is_chunked)
    data["sounds"] = []
    for n in (321, 9599, 20001, 32000, 38000, 65000) + ((140001,) if is_chunked else ()):
        with torch.no_grad():
            out = rows_of(w, sound(n)).numpy()
        at = sorted({0, 1 % len(out), len(out) // 2, len(out) - 1})
        data["sounds"].append({"samples": n, "n_rows": len(out), "around": around, "at": at, "rows": [[float("%.8g" % x) for x in out[i]] for i in at]})
        print(family, n, out.shape, out.std())
    with open(os.path.join(HERE, family + ".json"), "w") as f:
        json.dump(data, f, separators=(",", ":"))


def wavs():
    out = {}
    left, right = sound(23), -sound(40)[17:]
    for name, kind, form in (("u8", "PCM_U8", "WAV"), ("s16", "PCM_16", "WAV"), ("s24", "PCM_24", "WAV"), ("s32", "PCM_32", "WAV"), ("f32", "FLOAT", "WAV"),
                             ("f64", "DOUBLE", "WAV"), ("s24x", "PCM_24", "WAVEX"), ("f32x", "FLOAT", "WAVEX"), ("ulaw", "ULAW", "WAV"),
                             ("alaw", "ALAW", "WAV"), ("ulawx", "ULAW", "WAVEX"), ("rf64", "PCM_16", "RF64"),
                             ("big-s16", "PCM_16", "WAV"), ("big-s24", "PCM_24", "WAV"), ("big-f32", "FLOAT", "WAV"), ("big-f64", "DOUBLE", "WAV")):
        path = os.path.join(HERE, name + ".wav")
        endian = "BIG" if name.startswith("big-") else "FILE"
        soundfile.write(path, np.stack([left, right], 1), 16000, subtype=kind, format=form, endian=endian)
        out[name] = [float(x) for x in soundfile.read(path, dtype="float32")[0].reshape(-1)]
    with open(os.path.join(HERE, "wav.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))


def adpcm():
    """Two blocks of each kind, loud enough for samples that are clipped, and every fifth mean of the channels as libsndfile reads them."""
    out = {}
    for name, kind, channels in (("ima-mono", "IMA_ADPCM", 1), ("ima-both", "IMA_ADPCM", 2), ("ms-mono", "MS_ADPCM", 1), ("ms-both", "MS_ADPCM", 2)):
        x = np.stack([sound(1500), np.sign(sound(1540)[40:]) * 0.99], 1)[:, :channels]
        x[300:600] = np.clip(x[300:600] * 4, -1, 1)
        path = os.path.join(HERE, name + ".wav")
        soundfile.write(path, x, 16000, subtype=kind, format="WAV")
        read, _ = soundfile.read(path, dtype="float32", always_2d=True)
        out[name] = {"frames": len(read), "values": [float(x) for x in read.mean(1, dtype=float)[::5]]}
    with open(os.path.join(HERE, "adpcm.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))


def compressed():
    """Waves, which lossy formats keep, by libsndfile, and every fifth sample as it reads them."""
    out = {}
    for name, kind, form, rate, channels in (("mono.mp3", "MPEG_LAYER_III", "MP3", 16000, 1), ("both.mp3", "MPEG_LAYER_III", "MP3", 44100, 2),
                                             ("mono.flac", "PCM_16", "FLAC", 16000, 1), ("both.flac", "PCM_24", "FLAC", 44100, 2),
                                             ("mono.ogg", "VORBIS", "OGG", 16000, 1), ("both.ogg", "VORBIS", "OGG", 44100, 2)):
        t = np.arange(3000) / rate
        waves = [0.4 * np.sin(2 * np.pi * (300 + 200 * c) * t) + 0.2 * np.sin(2 * np.pi * 1100 * t + c) for c in range(channels)]
        path = os.path.join(HERE, name)
        soundfile.write(path, np.stack(waves, 1), rate, subtype=kind, format=form)
        read, _ = soundfile.read(path, dtype="float32", always_2d=True)
        out[name] = {"rate": rate, "channels": channels, "frames": len(read), "values": [round(float(x), 6) for x in read.reshape(-1)[::5]]}
    with open(os.path.join(HERE, "compressed.json"), "w") as f:
        json.dump(out, f, separators=(",", ":"))


if __name__ == "__main__":
    with open(os.path.join(HERE, "spectrograms.json"), "w") as f:
        json.dump(spectrograms(), f, separators=(",", ":"))
    wavs()
    adpcm()
    compressed()
    for family in sys.argv[1:] or FAMILIES:
        write_family(family)
