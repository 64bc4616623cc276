#!/usr/bin/python3
"""Straight-line references of the model families, in float64 NumPy: the whole sequence at once, no cache, every family written out for itself.

    python3 reference.py        writes FAMILY.json beside this file

Each file holds a config.json with the keys of the published ones, the list of tensors with their shapes in the published layout, tokens, and the logits
at some positions for some numbers of passes. Weights are not stored: value i of a tensor is mean + scale*u, rounded to float32 (and to bfloat16 where the
file says so), where u in [-1, 1) is made of the upper 24 bits of splitmix64(fnv1a64(name) + i). Where a family has a GGUF form, the file says how
its keys and tensors follow from these."""

import json
import os
import sys

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
U64 = np.uint64


def fnv1a(name):
    h = 0xCBF29CE484222325
    for b in name.encode():
        h = (h ^ b) * 0x100000001B3 % 2**64
    return h


def uniform(name, n):
    with np.errstate(over="ignore"):
        z = np.arange(n, dtype=U64) + U64(fnv1a(name)) + U64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> U64(30))) * U64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> U64(27))) * U64(0x94D049BB133111EB)
        z = z ^ (z >> U64(31))
    return (z >> U64(40)).astype(np.float64) / 2.0**23 - 1


def bfloat16(x):
    b = x.astype(np.float32).view(np.uint32).astype(np.uint64)
    b = (b + 0x7FFF + ((b >> 16) & 1)) >> 16 << 16
    return b.astype(np.uint32).view(np.float32)


class Weights(dict):
    """Makes tensors and remembers how."""

    def __init__(self, dtype="F32"):
        super().__init__()
        self.dtype, self.list = dtype, []

    def add(self, name, *shape, scale=None, mean=0.0):
        scale = float(scale if scale is not None else np.sqrt(3.0 / shape[-1]))
        v = (mean + scale * uniform(name, int(np.prod(shape)))).astype(np.float32)
        if self.dtype == "BF16":
            v = bfloat16(v)
        self[name] = v.astype(np.float64).reshape(shape)
        self.list.append([name, list(shape), scale, mean])

    def gain(self, name, n, mean=1.0):
        self.add(name, n, scale=0.3, mean=mean)

    def bias(self, name, n):
        self.add(name, n, scale=0.2)


def rms(x, g, eps):
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + eps) * g


def layernorm(x, g, b, eps):
    m = x - x.mean(axis=-1, keepdims=True)
    return m / np.sqrt(np.mean(m * m, axis=-1, keepdims=True) + eps) * g + b


def silu(x):
    return x / (1 + np.exp(-x))


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def angles(n, dim, theta, divisor=None):
    f = theta ** (-2.0 * np.arange(dim // 2) / dim)
    if divisor is not None:
        f = f / divisor(f)
    return np.arange(n)[:, None] * f[None, :]


def rotate_halves(x, a):
    """x [T, heads, dim]; pairs (j, j + dim/2)."""
    h = x.shape[-1] // 2
    c, s = np.cos(a)[:, None, :], np.sin(a)[:, None, :]
    return np.concatenate([x[..., :h] * c - x[..., h:] * s, x[..., h:] * c + x[..., :h] * s], axis=-1)


def rotate_pairs(x, a):
    """x [T, heads, dim]; pairs (2j, 2j + 1)."""
    c, s = np.cos(a)[:, None, :], np.sin(a)[:, None, :]
    out = np.empty_like(x)
    out[..., 0::2] = x[..., 0::2] * c - x[..., 1::2] * s
    out[..., 1::2] = x[..., 1::2] * c + x[..., 0::2] * s
    return out


def attend(q, k, v, scale=None, window=0, cap=0.0):
    """q [T, H, d], k and v [T, G, d]; causal."""
    t, heads, d = q.shape
    group = heads // k.shape[1]
    i, j = np.arange(t)[:, None], np.arange(t)[None, :]
    hide = j > i
    if window:
        hide = hide | (j <= i - window)
    out = np.empty_like(q)
    for h in range(heads):
        s = q[:, h] @ k[:, h // group].T * (scale or d**-0.5)
        if cap:
            s = cap * np.tanh(s / cap)
        s = np.where(hide, -np.inf, s)
        out[:, h] = softmax(s) @ v[:, h // group]
    return out.reshape(t, heads * d)


def heads(x, dim):
    return x.reshape(x.shape[0], -1, dim)


TOKENS = [int(x) for x in (uniform("tokens", 70) + 1) * 22][:70]  # 0 .. 43
POSITIONS = [0, 1, 17, 69]
VOCAB = 44


def llama_like(config, dtype="F32", qkv_bias=False, qk_norm=False, sandwich=False):
    """The tensors of llama and its kin."""
    w, c = Weights(dtype), config
    d, f, dim = c["hidden_size"], c["intermediate_size"], c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    q, kv = c["num_attention_heads"] * dim, c["num_key_value_heads"] * dim
    w.add("model.embed_tokens.weight", c["vocab_size"], d, scale=1.0)
    for l in range(c["num_hidden_layers"]):
        p = "model.layers.%d." % l
        w.gain(p + "input_layernorm.weight", d)
        w.gain(p + "post_attention_layernorm.weight", d)
        if sandwich:
            w.gain(p + "input_layernorm_2.weight", d)
            w.gain(p + "post_attention_layernorm_2.weight", d)
        for n, rows in (("q", q), ("k", kv), ("v", kv)):
            w.add(p + "self_attn.%s_proj.weight" % n, rows, d)
            if qkv_bias:
                w.bias(p + "self_attn.%s_proj.bias" % n, rows)
        if qk_norm:
            w.gain(p + "self_attn.q_norm.weight", dim)
            w.gain(p + "self_attn.k_norm.weight", dim)
        w.add(p + "self_attn.o_proj.weight", d, q)
        w.add(p + "mlp.gate_proj.weight", f, d)
        w.add(p + "mlp.up_proj.weight", f, d)
        w.add(p + "mlp.down_proj.weight", d, f)
    w.gain("model.norm.weight", d)
    if not c["tie_word_embeddings"]:
        w.add("lm_head.weight", c["vocab_size"], d)
    return w


def llama_layer(w, p, x, dim, a, eps, window=0):
    n = rms(x, w[p + "input_layernorm.weight"], eps)
    q, k, v = (n @ w[p + "self_attn.%s_proj.weight" % s].T for s in "qkv")
    q, k, v = heads(q, dim), heads(k, dim), heads(v, dim)
    x = x + attend(rotate_halves(q, a), rotate_halves(k, a), v, window=window) @ w[p + "self_attn.o_proj.weight"].T
    n = rms(x, w[p + "post_attention_layernorm.weight"], eps)
    return x + (silu(n @ w[p + "mlp.gate_proj.weight"].T) * (n @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T


def llama_gguf(arch, config, w, interleave, extra=None, norms=None):
    """How the GGUF form follows: [name there, name here, how]."""
    c = config
    dim = c.get("head_dim", c["hidden_size"] // c["num_attention_heads"])
    keys = {
        "block_count": c["num_hidden_layers"], "context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"],
        "feed_forward_length": c["intermediate_size"], "attention.head_count": c["num_attention_heads"], "attention.head_count_kv": c["num_key_value_heads"],
        "attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"]), "rope.freq_base": float(c["rope_theta"]), "vocab_size": c["vocab_size"],
        "attention.key_length": dim, "attention.value_length": dim, "rope.dimension_count": dim,
    }
    keys.update(extra or {})
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    names.update(norms or {})
    tensors = []
    for name in w:
        what, kind = name.rsplit(".", 1)
        if name.startswith("model.layers."):
            _, _, l, rest = what.split(".", 3)
            how = "pairs%d" % dim if interleave and names[rest] in ("attn_q", "attn_k") else ""
            tensors.append(["blk.%s.%s.%s" % (l, names[rest], kind), name, how])
        else:
            tensors.append([{"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}[what] + "." + kind, name, ""])
    return {"general.architecture": arch, "prefix": arch + ".", "keys": keys, "tensors": tensors}


COMMON = {"vocab_size": VOCAB, "torch_dtype": "float32", "transformers_version": "4.57.0", "use_cache": True, "initializer_range": 0.02, "bos_token_id": 1,
          "eos_token_id": 2, "attention_dropout": 0.0}


def llama():
    """Llama 3.1 and later: grouped queries, tied head, the long-context scaling of rotations."""
    config = dict(COMMON, model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=32, intermediate_size=56, num_hidden_layers=3, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=8, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-5, rope_theta=500000.0, attention_bias=False, mlp_bias=False,
                  pretraining_tp=1, tie_word_embeddings=True,
                  rope_scaling={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 48})
    w = llama_like(config)

    def divisor(freq):
        wave = 2 * np.pi / freq
        smooth = (48 / wave - 1.0) / (4.0 - 1.0)
        mixed = 1 / ((1 - smooth) / 8.0 + smooth)
        return np.where(wave > 48 / 1.0, 8.0, np.where(wave < 48 / 4.0, 1.0, mixed))

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 8, 500000.0, divisor)
        for l in range(3):
            x = llama_layer(w, "model.layers.%d." % l, x, 8, a, 1e-5)
        return rms(x, w["model.norm.weight"], 1e-5) @ w["model.embed_tokens.weight"].T

    f = 500000.0 ** (-2.0 * np.arange(4) / 8)
    gguf = llama_gguf("llama", config, w, True)
    gguf["extra"] = [["rope_freqs.weight", [float(np.float32(x)) for x in divisor(f)]]]
    return config, w, forward, [1], gguf


def llama_biased():
    """Llama with every bias, many heads of one width, linear scaling, and the newer place of the rotation's parameters; SmolLM's extra keys."""
    config = dict(COMMON, model_type="llama", architectures=["LlamaForCausalLM"], hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=4, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-5, attention_bias=True, mlp_bias=True, tie_word_embeddings=False,
                  is_llama_config=True, rope_interleaved=False, rope_parameters={"rope_type": "linear", "factor": 2.0, "rope_theta": 10000.0})
    w = llama_like(config, qkv_bias=True)
    for l in range(2):
        p = "model.layers.%d." % l
        w.bias(p + "self_attn.o_proj.bias", 24)
        w.bias(p + "mlp.gate_proj.bias", 40)
        w.bias(p + "mlp.up_proj.bias", 40)
        w.bias(p + "mlp.down_proj.bias", 24)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 6, 10000.0) / 2.0
        for l in range(2):
            p = "model.layers.%d." % l

            def product(n, y):
                return y @ w[p + n + ".weight"].T + w[p + n + ".bias"]

            n = rms(x, w[p + "input_layernorm.weight"], 1e-5)
            q, k, v = (heads(product("self_attn.%s_proj" % s, n), 6) for s in "qkv")
            x = x + product("self_attn.o_proj", attend(rotate_halves(q, a), rotate_halves(k, a), v))
            n = rms(x, w[p + "post_attention_layernorm.weight"], 1e-5)
            x = x + product("mlp.down_proj", silu(product("mlp.gate_proj", n)) * product("mlp.up_proj", n))
        return rms(x, w["model.norm.weight"], 1e-5) @ w["lm_head.weight"].T

    return config, w, forward, [1], None


def mistral():
    """Mistral 7B v0.1: every layer sees a window."""
    config = dict(COMMON, model_type="mistral", architectures=["MistralForCausalLM"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=1, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=13, tie_word_embeddings=False)
    w = llama_like(config)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 8, 10000.0)
        for l in range(2):
            x = llama_layer(w, "model.layers.%d." % l, x, 8, a, 1e-5, window=13)
        return rms(x, w["model.norm.weight"], 1e-5) @ w["lm_head.weight"].T

    return config, w, forward, [1], llama_gguf("llama", config, w, True, {"attention.sliding_window": 13})


def qwen2():
    """Qwen 2 and 2.5: biases on queries, keys and values only; a window that is stated and not used."""
    config = dict(COMMON, model_type="qwen2", architectures=["Qwen2ForCausalLM"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False, sliding_window=16,
                  max_window_layers=2, tie_word_embeddings=True)
    w = llama_like(config, qkv_bias=True)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 8, 1000000.0)
        for l in range(2):
            p = "model.layers.%d." % l
            n = rms(x, w[p + "input_layernorm.weight"], 1e-6)
            q, k, v = (heads(n @ w[p + "self_attn.%s_proj.weight" % s].T + w[p + "self_attn.%s_proj.bias" % s], 8) for s in "qkv")
            x = x + attend(rotate_halves(q, a), rotate_halves(k, a), v) @ w[p + "self_attn.o_proj.weight"].T
            n = rms(x, w[p + "post_attention_layernorm.weight"], 1e-6)
            x = x + (silu(n @ w[p + "mlp.gate_proj.weight"].T) * (n @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
        return rms(x, w["model.norm.weight"], 1e-6) @ w["model.embed_tokens.weight"].T

    return config, w, forward, [1], llama_gguf("qwen2", config, w, False)


def qwen3():
    """Qwen 3: a norm on every query and key head; heads wider than their share of the stream."""
    config = dict(COMMON, model_type="qwen3", architectures=["Qwen3ForCausalLM"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=12, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=None,
                  use_sliding_window=False, sliding_window=None, max_window_layers=2, attention_bias=False, tie_word_embeddings=False)
    w = llama_like(config, qk_norm=True)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 12, 1000000.0)
        for l in range(2):
            p = "model.layers.%d." % l
            n = rms(x, w[p + "input_layernorm.weight"], 1e-6)
            q, k, v = (heads(n @ w[p + "self_attn.%s_proj.weight" % s].T, 12) for s in "qkv")
            q = rotate_halves(rms(q, w[p + "self_attn.q_norm.weight"], 1e-6), a)
            k = rotate_halves(rms(k, w[p + "self_attn.k_norm.weight"], 1e-6), a)
            x = x + attend(q, k, v) @ w[p + "self_attn.o_proj.weight"].T
            n = rms(x, w[p + "post_attention_layernorm.weight"], 1e-6)
            x = x + (silu(n @ w[p + "mlp.gate_proj.weight"].T) * (n @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
        return rms(x, w["model.norm.weight"], 1e-6) @ w["lm_head.weight"].T

    return config, w, forward, [1], llama_gguf("qwen3", config, w, False)


def nanbeige():
    """Nanbeige 4.2: llama with all layers run twice, the final norm between the passes; heads wider than their share."""
    config = dict(COMMON, model_type="nanbeige", architectures=["NanbeigeForCausalLM"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, head_dim=12, kv_channels=12, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-5, rope_theta=70000000, rope_scaling=None,
                  attention_bias=False, num_loops=2, loop_loss_weights=[], skip_loop_final_norm=False, pretraining_tp=1, tie_word_embeddings=False)
    w = llama_like(config)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 12, 70000000.0)
        for _ in range(loops):
            for l in range(2):
                x = llama_layer(w, "model.layers.%d." % l, x, 12, a, 1e-5)
            x = rms(x, w["model.norm.weight"], 1e-5)
        return x @ w["lm_head.weight"].T

    return config, w, forward, [1, 2, 3], llama_gguf("nanbeige", config, w, True, {"num_loops": 2, "skip_loop_final_norm": False})


def ouro():
    """Ouro: norms on both sides of each branch, the normalised state feeds the next pass; bfloat16 as published."""
    config = dict(COMMON, model_type="ouro", architectures=["OuroForCausalLM"], hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=4, head_dim=8, hidden_act="silu", max_position_embeddings=96, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=None,
                  layer_types=["full_attention"] * 2, sliding_window=None, use_sliding_window=False, max_window_layers=2, total_ut_steps=4, early_exit_threshold=1.0,
                  tie_word_embeddings=False, torch_dtype="bfloat16")
    w = llama_like(config, dtype="BF16", sandwich=True)
    w.add("model.early_exit_gate.weight", 1, 32)
    w.bias("model.early_exit_gate.bias", 1)

    def forward(loops):
        h = w["model.embed_tokens.weight"][TOKENS]
        a = angles(len(TOKENS), 8, 1000000.0)
        for _ in range(loops):
            u = h
            for l in range(2):
                p = "model.layers.%d." % l
                n = rms(u, w[p + "input_layernorm.weight"], 1e-6)
                q, k, v = (heads(n @ w[p + "self_attn.%s_proj.weight" % s].T, 8) for s in "qkv")
                y = attend(rotate_halves(q, a), rotate_halves(k, a), v) @ w[p + "self_attn.o_proj.weight"].T
                u = u + rms(y, w[p + "input_layernorm_2.weight"], 1e-6)
                n = rms(u, w[p + "post_attention_layernorm.weight"], 1e-6)
                y = (silu(n @ w[p + "mlp.gate_proj.weight"].T) * (n @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
                u = u + rms(y, w[p + "post_attention_layernorm_2.weight"], 1e-6)
            h = rms(u, w["model.norm.weight"], 1e-6)
        return h @ w["lm_head.weight"].T

    return config, w, forward, [1, 2, 3, 4], None


def huginn():
    """Huginn-0125, with the state starting at zero; a second copy of the head and the table of rotations lie in the file, as published."""
    d, hidden, n, dim = 24, 40, 3, 8
    config = dict(model_type="huginn_raven", architectures=["RavenForCausalLM"], n_embd=d, n_heads=n, n_layers=4, block_size=96, vocab_size=VOCAB, padding_multiple=4,
                  tie_embeddings=True, intermediate_size=hidden, bias=False, architecture_class_name="RecurrentGPT", block_class_name="SandwichBlock",
                  norm_class_name="RMSNorm_llama", norm_eps=1e-6, mlp_class_name="GatedMLP", nonlin_name="SiLU", init_strategy="takase", init_orthogonal=False,
                  state_init="like-init", injection_type="linear", n_layers_in_recurrent_block=2, mean_recurrence=4, sampling_scheme="poisson-lognormal-filling",
                  mean_backprop_depth=8, n_layers_in_prelude=1, n_layers_in_coda=1, qk_bias=True, activation_checkpoint_impl="per-iteration", rope_base=50000,
                  torch_dtype="float32", transformers_version="4.47.1")
    w = Weights()
    w.add("transformer.wte.weight", VOCAB, d, scale=0.25)
    blocks = ["transformer.prelude.0.", "transformer.core_block.0.", "transformer.core_block.1.", "transformer.coda.0."]
    for p in blocks:
        for i in "1234":
            w.gain(p + "norm_%s.weight" % i, d)
        w.add(p + "attn.Wqkv.weight", 3 * d, d)
        w.add(p + "attn.qk_bias", 2, 1, n, dim, scale=0.5)
        w.add(p + "attn.proj.weight", d, d)
        w.add(p + "mlp.fc.weight", 2 * hidden, d)
        w.add(p + "mlp.proj.weight", d, hidden)
    w.add("transformer.adapter.weight", d, 2 * d)
    w.gain("transformer.ln_f.weight", d)
    w.add("lm_head.weight", VOCAB, d, scale=0.25)
    w.add("freqs_cis", 1, 96, 1, dim // 2, 2)
    a = angles(len(TOKENS), dim, 50000.0)

    def block(p, x):
        q, k, v = np.split(rms(x, w[p + "norm_1.weight"], 1e-6) @ w[p + "attn.Wqkv.weight"].T, 3, axis=-1)
        q = rotate_pairs(heads(q, dim) + w[p + "attn.qk_bias"][0], a)
        k = rotate_pairs(heads(k, dim) + w[p + "attn.qk_bias"][1], a)
        u = rms(x + attend(q, k, heads(v, dim)) @ w[p + "attn.proj.weight"].T, w[p + "norm_2.weight"], 1e-6)
        gate, value = np.split(rms(u, w[p + "norm_3.weight"], 1e-6) @ w[p + "mlp.fc.weight"].T, 2, axis=-1)
        return rms(u + (silu(gate) * value) @ w[p + "mlp.proj.weight"].T, w[p + "norm_4.weight"], 1e-6)

    def forward(loops):
        e = block(blocks[0], w["transformer.wte.weight"][TOKENS] * np.sqrt(d))
        s = np.zeros_like(e)
        for _ in range(loops):
            s = np.concatenate([s, e], axis=-1) @ w["transformer.adapter.weight"].T
            s = block(blocks[2], block(blocks[1], s))
        x = block(blocks[3], rms(s, w["transformer.ln_f.weight"], 1e-6))
        return rms(x, w["transformer.ln_f.weight"], 1e-6) @ w["transformer.wte.weight"].T

    return config, w, forward, [1, 2, 4, 7], None


def parcae():
    """Parcae without value embeddings, with the state starting at zero: diagonal injection, norms of queries and keys without gains after the rotation, half of
    the square of the positive part, a square matrix before the coda."""
    d, hidden, n, dim = 24, 40, 3, 8
    config = {"_class_name": "ParcaeConfig", "name": "tiny", "block_size": 96, "n_embd": d, "intermediate_size": hidden, "num_attention_heads": n, "num_key_value_heads": n,
              "vocab_size": VOCAB, "padding_multiple": 4, "padded_vocab_size": VOCAB, "rope_settings": {"use_rope": True, "rope_condense_ratio": 1, "rope_base": 50000},
              "attn_impl": "sdpa", "norm_eps": 1e-5, "bias": False, "qk_bias": False, "init_strategy": "scaled-zero", "init_orthogonal": True, "use_fused_head": "pytorch",
              "qk_norm": True, "injection_type": "diagonal", "n_layers_in_recurrent_block": 2, "n_layers_in_prelude": 1, "n_layers_in_coda": 1, "state_init": "like-init",
              "recurrent_embedding_dimension": d, "recurrent_intermediation_embedding_dimension": hidden, "prelude_norm": True, "sampling_scheme": "poisson-truncated-full",
              "mean_recurrence": 4, "mean_backprop_depth": 4, "recurrent_iteration_method": "per-sequence", "tie_embeddings": True, "model_class_name": "Parcae"}
    w = Weights()
    w.add("transformer.wte.weight", VOCAB, d, scale=1.0)
    blocks = ["transformer.prelude.0.", "transformer.core_block.0.", "transformer.core_block.1.", "transformer.coda.0."]
    for p in blocks:
        w.gain(p + "norm_1.weight", d)
        w.gain(p + "norm_2.weight", d)
        for x in ("c_q", "c_k", "c_v", "c_proj"):
            w.add(p + "attn.%s.weight" % x, d, d)
        w.add(p + "mlp.fc.weight", hidden, d)
        w.add(p + "mlp.proj.weight", d, hidden)
    w.add("transformer.adapter.A_log", d, scale=0.5)
    w.add("transformer.adapter.dt_bias", d, scale=0.5)
    w.add("transformer.adapter.B", d, d)
    w.add("transformer.C.weight", d, d)
    w.gain("transformer.ln_prelude.weight", d)
    w.gain("transformer.ln_f.weight", d)
    w.add("lm_head.weight", VOCAB, d, scale=1.0)
    a = angles(len(TOKENS), dim, 50000.0)

    def block(p, x):
        y = rms(x, w[p + "norm_1.weight"], 1e-5)
        q, k, v = (heads(y @ w[p + "attn.c_%s.weight" % s].T, dim) for s in "qkv")
        q, k = rms(rotate_pairs(q, a), 1.0, 1e-5), rms(rotate_pairs(k, a), 1.0, 1e-5)
        x = x + attend(q, k, v) @ w[p + "attn.c_proj.weight"].T
        y = np.maximum(rms(x, w[p + "norm_2.weight"], 1e-5) @ w[p + "mlp.fc.weight"].T, 0)
        return x + 0.5 * (y * y) @ w[p + "mlp.proj.weight"].T

    def forward(loops):
        e = rms(block(blocks[0], w["transformer.wte.weight"][TOKENS]), w["transformer.ln_prelude.weight"], 1e-5)
        dt = np.log1p(np.exp(w["transformer.adapter.dt_bias"]))
        decay = np.exp(-dt * np.exp(w["transformer.adapter.A_log"]))
        h = np.zeros_like(e)
        for _ in range(loops):
            h = block(blocks[2], block(blocks[1], decay * h + dt * (e @ w["transformer.adapter.B"].T)))
        x = block(blocks[3], h @ w["transformer.C.weight"].T)
        return rms(x, w["transformer.ln_f.weight"], 1e-5) @ w["transformer.wte.weight"].T

    return config, w, forward, [1, 2, 4, 7], None


def gpt2():
    """GPT-2: matrices of the blocks are stored [inputs, outputs]; the mask lies in the file."""
    d, n = 24, 3
    config = dict(model_type="gpt2", architectures=["GPT2LMHeadModel"], activation_function="gelu_new", attn_pdrop=0.1, embd_pdrop=0.1, resid_pdrop=0.1, bos_token_id=43,
                  eos_token_id=43, initializer_range=0.02, layer_norm_epsilon=1e-5, n_ctx=80, n_embd=d, n_head=n, n_layer=2, n_positions=80, summary_activation=None,
                  summary_first_dropout=0.1, summary_proj_to_labels=True, summary_type="cls_index", summary_use_proj=True, vocab_size=VOCAB,
                  task_specific_params={"text-generation": {"do_sample": True, "max_length": 50}})
    w = Weights()
    w.add("wte.weight", VOCAB, d, scale=0.7)
    w.add("wpe.weight", 80, d, scale=0.4)
    for l in range(2):
        p = "h.%d." % l
        for x in ("ln_1", "ln_2"):
            w.gain(p + x + ".weight", d)
            w.bias(p + x + ".bias", d)
        w.add(p + "attn.bias", 1, 1, 80, 80)
        for x, k, rows in (("attn.c_attn", d, 3 * d), ("attn.c_proj", d, d), ("mlp.c_fc", d, 4 * d), ("mlp.c_proj", 4 * d, d)):
            w.add(p + x + ".weight", k, rows, scale=np.sqrt(3.0 / k))
            w.bias(p + x + ".bias", rows)
    w.gain("ln_f.weight", d)
    w.bias("ln_f.bias", d)

    def forward(loops):
        x = w["wte.weight"][TOKENS] + w["wpe.weight"][: len(TOKENS)]
        for l in range(2):
            p = "h.%d." % l
            y = layernorm(x, w[p + "ln_1.weight"], w[p + "ln_1.bias"], 1e-5)
            q, k, v = np.split(y @ w[p + "attn.c_attn.weight"] + w[p + "attn.c_attn.bias"], 3, axis=-1)
            x = x + attend(heads(q, 8), heads(k, 8), heads(v, 8)) @ w[p + "attn.c_proj.weight"] + w[p + "attn.c_proj.bias"]
            y = layernorm(x, w[p + "ln_2.weight"], w[p + "ln_2.bias"], 1e-5)
            x = x + gelu(y @ w[p + "mlp.c_fc.weight"] + w[p + "mlp.c_fc.bias"]) @ w[p + "mlp.c_proj.weight"] + w[p + "mlp.c_proj.bias"]
        return layernorm(x, w["ln_f.weight"], w["ln_f.bias"], 1e-5) @ w["wte.weight"].T

    names = {"ln_1": "attn_norm", "ln_2": "ffn_norm", "attn.c_attn": "attn_qkv", "attn.c_proj": "attn_output", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
             "wte": "token_embd", "wpe": "position_embd", "ln_f": "output_norm"}
    tensors = []
    for name in w:
        if name.endswith(".attn.bias"):
            continue
        what, kind = name.rsplit(".", 1)
        if name.startswith("h."):
            _, l, rest = what.split(".", 2)
            tensors.append(["blk.%s.%s.%s" % (l, names[rest], kind), name, "turn" if kind == "weight" and rest[:2] != "ln" else ""])
        else:
            tensors.append([names[what] + "." + kind, name, ""])
    keys = {"block_count": 2, "context_length": 80, "embedding_length": d, "feed_forward_length": 4 * d, "attention.head_count": n, "attention.layer_norm_epsilon": 1e-5}
    return config, w, forward, [1], {"general.architecture": "gpt2", "prefix": "gpt2.", "keys": keys, "tensors": tensors}


def gemma2():
    """Gemma 2: gains stored less one, norms on both sides of each branch, gated GELU, soft caps, the embedding times the root of its width; layers 0, 2, …
    see a window. The sequence here is shorter than it, as the engine bounds the context by it."""
    d, f, n, g, dim = 32, 48, 4, 2, 12
    config = dict(COMMON, model_type="gemma2", architectures=["Gemma2ForCausalLM"], hidden_size=d, intermediate_size=f, num_hidden_layers=3, num_attention_heads=n,
                  num_key_value_heads=g, head_dim=dim, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", max_position_embeddings=128, rms_norm_eps=1e-6,
                  rope_theta=10000.0, attention_bias=False, query_pre_attn_scalar=12, attn_logit_softcapping=5.0, final_logit_softcapping=6.0, sliding_window=72,
                  sliding_window_size=72, cache_implementation="hybrid")
    w = Weights()
    w.add("model.embed_tokens.weight", VOCAB, d, scale=0.3)
    norms = ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm")
    for l in range(3):
        p = "model.layers.%d." % l
        for x in norms:
            w.gain(p + x + ".weight", d, mean=0.0)
        for x, rows in (("q", n * dim), ("k", g * dim), ("v", g * dim)):
            w.add(p + "self_attn.%s_proj.weight" % x, rows, d)
        w.add(p + "self_attn.o_proj.weight", d, n * dim)
        w.add(p + "mlp.gate_proj.weight", f, d)
        w.add(p + "mlp.up_proj.weight", f, d)
        w.add(p + "mlp.down_proj.weight", d, f)
    w.gain("model.norm.weight", d, mean=0.0)

    def norm(x, name):
        return rms(x, 1 + w[name + ".weight"], 1e-6)

    def forward(loops):
        x = w["model.embed_tokens.weight"][TOKENS] * np.sqrt(d)
        a = angles(len(TOKENS), dim, 10000.0)
        for l in range(3):
            p = "model.layers.%d." % l
            y = norm(x, p + norms[0])
            q, k, v = (heads(y @ w[p + "self_attn.%s_proj.weight" % s].T, dim) for s in "qkv")
            y = attend(rotate_halves(q, a), rotate_halves(k, a), v, scale=12**-0.5, window=72 if l % 2 == 0 else 0, cap=5.0) @ w[p + "self_attn.o_proj.weight"].T
            x = x + norm(y, p + norms[1])
            y = norm(x, p + norms[2])
            y = (gelu(y @ w[p + "mlp.gate_proj.weight"].T) * (y @ w[p + "mlp.up_proj.weight"].T)) @ w[p + "mlp.down_proj.weight"].T
            x = x + norm(y, p + norms[3])
        return 6.0 * np.tanh(norm(x, "model.norm") @ w["model.embed_tokens.weight"].T / 6.0)

    names = dict(zip(norms, ("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")))
    gguf = llama_gguf("gemma2", config, w, False, {"attention.sliding_window": 72, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 6.0}, names)
    for t in gguf["tensors"]:
        if t[1].endswith("norm.weight"):
            t[2] = "plus1"
    return config, w, forward, [1], gguf


FAMILIES = [llama, llama_biased, mistral, qwen2, qwen3, nanbeige, ouro, huginn, parcae, gpt2, gemma2]


def text(x):
    return float("%.9g" % x)


def main():
    for make in FAMILIES:
        config, w, forward, depths, gguf = make()
        logits = {str(r): [[text(v) for v in row] for row in forward(r)[POSITIONS]] for r in depths}
        out = {"config": config, "dtype": w.dtype, "tensors": w.list, "tokens": TOKENS, "positions": POSITIONS, "logits": logits, "gguf": gguf}
        with open(os.path.join(HERE, make.__name__ + ".json"), "w") as f:
            json.dump(out, f, separators=(",", ":"))
            f.write("\n")
        last = np.array(logits[str(depths[-1])])
        print("%-14s %3d tensors, logits %.3f to %.3f" % (make.__name__, len(w), last.min(), last.max()), file=sys.stderr)


main()
