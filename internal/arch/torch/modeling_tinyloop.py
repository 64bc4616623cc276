"""A TinyLoop model in plain PyTorch (1.13 or newer; nothing else is needed).

    model = TinyLoop.load("folder")              the folder that `tinyloop export --hf` wrote
    logits = model(ids, loops=8)                 ids [rows, positions] -> [rows, positions, vocabulary]
    loss = model.loss(ids, targets, loops=8)     targets: -1 = not learned
    model.save("folder")                         and `tinyloop import folder model.tinyloop` takes the weights back

The configuration's keys are those of a .tinyloop file (docs/format/tinyloop.md), and so are the names of the tensors.
"""

import json
import math
import os
import struct

import torch
from torch import nn
from torch.nn import functional as F

DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


class Config(dict):
    """config.json; an absent key is off: 0, False or the first word of a choice."""

    WORDS = {"norm": "rms", "norm_place": "pre", "position": "rope_half", "feed_forward": "swiglu", "injection": "none", "state_init": "input", "loop_norm": "none",
             "coda_norm": "none"}

    def __missing__(self, key):
        return self.WORDS.get(key, 0)


def gelu(x):
    """GELU in its tanh form."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


class Norm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.kind, self.eps = config["norm"], config["norm_epsilon"]
        self.weight = nn.Parameter(torch.ones(config["embedding_length"]))
        if self.kind == "layernorm":
            self.bias = nn.Parameter(torch.zeros(config["embedding_length"]))

    def forward(self, x):
        if self.kind == "layernorm":
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Gain(nn.Module):
    """The norm of a query or key head."""

    def __init__(self, width, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


class Bias(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(width))

    def forward(self, x):
        return x + self.bias


class Block(nn.Module):
    """Two branches, attention and feed-forward, with norms where norm_place has them."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        d, h, g, w, f = c["embedding_length"], c["attention.head_count"], c["attention.head_count_kv"], c["attention.head_length"], c["feed_forward_length"]
        bias, out_bias, ff_bias = (bool(c[k]) for k in ("attention.qkv_bias", "attention.output_bias", "feed_forward_bias"))
        if c["norm_place"] != "post":
            self.attn_norm, self.ffn_norm = Norm(c), Norm(c)
        if c["norm_place"] != "pre":
            self.attn_post_norm, self.ffn_post_norm = Norm(c), Norm(c)
        self.attn_q, self.attn_k, self.attn_v = nn.Linear(d, h * w, bias), nn.Linear(d, g * w, bias), nn.Linear(d, g * w, bias)
        self.attn_output = nn.Linear(h * w, d, out_bias)
        if c["attention.qk_norm"]:
            self.attn_q_norm, self.attn_k_norm = Gain(w, c["norm_epsilon"]), Gain(w, c["norm_epsilon"])
        if c["attention.qk_head_bias"]:
            self.attn_q_head, self.attn_k_head = Bias(h * w), Bias(g * w)
        if c["feed_forward"] in ("swiglu", "geglu"):
            self.ffn_gate = nn.Linear(d, f, ff_bias)
        self.ffn_up, self.ffn_down = nn.Linear(d, f, ff_bias), nn.Linear(f, d, ff_bias)

    def forward(self, x, rotate, hide):
        x = self.branch(x, "attn", lambda y: self.attention(y, rotate, hide))
        return self.branch(x, "ffn", self.feed_forward)

    def branch(self, x, name, f):
        place = self.c["norm_place"]
        y = f(x if place == "post" else getattr(self, name + "_norm")(x))
        post = getattr(self, name + "_post_norm", None)
        if place == "branch_sandwich":
            y = post(y)
        x = x + (self.c["residual_scale"] or 1.0) * y
        return post(x) if place in ("residual_sandwich", "post") else x

    def attention(self, x, rotate, hide):
        c, (rows, t, _) = self.c, x.shape
        width = c["attention.head_length"]
        q, k, v = self.attn_q(x).view(rows, t, -1, width), self.attn_k(x).view(rows, t, -1, width), self.attn_v(x).view(rows, t, -1, width)
        if c["attention.qk_norm"]:
            q, k = self.attn_q_norm(q), self.attn_k_norm(k)
        if c["attention.qk_head_bias"]:
            q, k = self.attn_q_head(q.flatten(2)).view_as(q), self.attn_k_head(k.flatten(2)).view_as(k)
        q, k, v = (y.transpose(1, 2) for y in (rotate(q), rotate(k), v))
        group = q.shape[1] // k.shape[1]
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        scores = q @ k.transpose(2, 3) * (c["attention.scale"] or width**-0.5)
        if c["attention.softcap"]:
            scores = c["attention.softcap"] * torch.tanh(scores / c["attention.softcap"])
        return self.attn_output((scores.masked_fill(hide, float("-inf")).softmax(-1) @ v).transpose(1, 2).flatten(2))

    def feed_forward(self, x):
        up, kind = self.ffn_up(x), self.c["feed_forward"]
        if kind == "swiglu":
            return self.ffn_down(F.silu(self.ffn_gate(x)) * up)
        if kind == "relu2":
            return self.ffn_down(F.relu(up).square())
        if kind == "geglu":
            return self.ffn_down(gelu(self.ffn_gate(x)) * up)
        return self.ffn_down(gelu(up))


class Inject(nn.Module):
    """How the prelude's output e enters the state h before each pass."""

    def __init__(self, c):
        super().__init__()
        d, self.kind = c["embedding_length"], c["injection"]
        if self.kind == "diagonal":
            self.a_log, self.dt_bias = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.full((d,), 0.2147))  # decay sqrt(1/5)
            if c["injection_matrix"]:
                self.weight = nn.Parameter(torch.eye(d))
        elif self.kind == "concat":
            self.weight = nn.Parameter(torch.cat([torch.eye(d), torch.eye(d)], 1))
        elif self.kind == "scaled":
            self.alpha = nn.Parameter(torch.ones(d))

    def forward(self, h, e):
        if self.kind == "diagonal":
            dt = F.softplus(self.dt_bias)
            return torch.exp(-dt * torch.exp(self.a_log)) * h + dt * (F.linear(e, self.weight) if hasattr(self, "weight") else e)
        if self.kind == "concat":
            return F.linear(torch.cat([h, e], -1), self.weight)
        if self.kind == "scaled":
            return h + self.alpha * e
        return h + e


class Vector(nn.Module):
    """A named vector, in the file as NAME.weight."""

    def __init__(self, *shape, learned=True):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(*shape), requires_grad=learned)


class Layers:
    """The parts of a model under the names that they have in the file, and how they compute. It belongs beside a class of modules (see TinyLoop)."""

    def build(self, config):
        self.c = c = Config(config)
        d, v = c["embedding_length"], c["vocab_size"]
        self.token_embd = nn.Embedding(v, d)
        if c["position"] == "learned":
            self.pos_embd = nn.Embedding(c["context_length"], d)
        if c["rope.factors"]:
            self.rope_freqs = Vector(self.rotated() // 2, learned=False)
        if c["embedding.norm"]:
            self.embd_norm = Norm(c)
        for part in ("prelude", "core", "coda"):
            setattr(self, part, nn.ModuleList(Block(c) for _ in range(c[part + "_count"])))
        if c["prelude_norm"]:
            self.prelude_norm = Norm(c)
        if c["injection"] not in ("none", "add"):
            self.inject = Inject(c)
        if c["loop_norm"] == "own":
            self.loop_norm = Norm(c)
        if c["readout"]:
            self.readout = nn.Linear(d, d, False)
        if c["coda_norm"] == "own":
            self.coda_norm = Norm(c)
        self.output_norm = Norm(c)
        if not c["tied_head"]:
            self.output = nn.Linear(d, v, False)
        if c["exit_gate"]:
            self.exit_gate = nn.Module()
            self.exit_gate.weight, self.exit_gate.bias = nn.Parameter(torch.zeros(d)), nn.Parameter(torch.zeros(1))

    def rotated(self):
        return self.c["rope.dimension_count"] or self.c["attention.head_length"]

    def rotation(self, t, device):
        """The function that rotates [rows, t, heads, width]."""
        c, rot = self.c, self.rotated()
        if not c["position"].startswith("rope"):
            return lambda x: x
        freq = c["rope.freq_base"] ** (-2.0 * torch.arange(rot // 2, device=device, dtype=torch.float64) / rot)
        if c["rope.factors"]:
            freq = freq / self.rope_freqs.weight.double()
        angle = torch.arange(t, device=device, dtype=torch.float64)[:, None] * freq
        cos, sin = angle.cos()[:, None, :], angle.sin()[:, None, :]

        def halves(x):
            a, b = x[..., : rot // 2], x[..., rot // 2 : rot]
            co, si = cos.to(x.dtype), sin.to(x.dtype)
            return torch.cat([a * co - b * si, b * co + a * si, x[..., rot:]], -1)

        def pairs(x):
            a, b = x[..., :rot:2], x[..., 1:rot:2]
            co, si = cos.to(x.dtype), sin.to(x.dtype)
            return torch.cat([torch.stack([a * co - b * si, b * co + a * si], -1).flatten(-2), x[..., rot:]], -1)

        return halves if c["position"] == "rope_half" else pairs

    def hidden(self, t, start, device):
        """What a position may not see: later ones, those behind the window, and those before start [rows, t], the first position of its text."""
        i = torch.arange(t, device=device)
        hide = i[None, :] > i[:, None]
        if self.c["attention.window"]:
            hide = hide | (i[None, :] <= i[:, None] - self.c["attention.window"])
        hide = hide[None, None]
        return hide if start is None else hide | (i[None, None, None, :] < start[:, None, :, None])

    def states(self, ids, loops=None, grad_loops=0, start=None):
        """The state after every pass, and what turns a state into logits. Only the last grad_loops passes carry gradients (0: all)."""
        c = self.c
        loops = loops or c["loops.default"]
        x = self.token_embd(ids) * (c["embedding.scale"] or 1.0)
        if c["position"] == "learned":
            x = x + self.pos_embd.weight[: ids.shape[1]]
        if c["embedding.norm"]:
            x = self.embd_norm(x)
        rotate, hide = self.rotation(ids.shape[1], ids.device), self.hidden(ids.shape[1], start, ids.device)
        for block in self.prelude:
            x = block(x, rotate, hide)
        e = self.prelude_norm(x) if c["prelude_norm"] else x
        h = torch.zeros_like(e) if c["state_init"] == "zero" else e
        out = []
        for t in range(loops):
            with torch.set_grad_enabled(torch.is_grad_enabled() and (grad_loops == 0 or t >= loops - grad_loops)):
                h = self.turn(h, e, t, rotate, hide)
            out.append(h)
        return out, lambda h: self.read(h, rotate, hide)

    def turn(self, h, e, t, rotate, hide):
        """One pass through the core."""
        c = self.c
        if c["loop_norm"] == "between" and t > 0:
            h = self.output_norm(h)
        if c["injection"] == "add":
            h = h + e
        elif c["injection"] != "none":
            h = self.inject(h, e)
        for block in self.core:
            h = block(h, rotate, hide)
        return self.loop_norm(h) if c["loop_norm"] == "own" else h

    def read(self, h, rotate, hide):
        """Logits of a state: readout, coda, final norm, head."""
        c = self.c
        x = self.readout(h) if c["readout"] else h
        if c["coda_norm"] != "none":
            x = (self.coda_norm if c["coda_norm"] == "own" else self.output_norm)(x)
        for block in self.coda:
            x = block(x, rotate, hide)
        x = F.linear(self.output_norm(x), self.token_embd.weight if c["tied_head"] else self.output.weight)
        x = x * (c["logit.scale"] or 1.0)
        cap = c["logit.softcap"]
        return cap * torch.tanh(x / cap) if cap else x

    def loss(self, ids, targets, loops=None, grad_loops=0, start=None, extra=(), z=0.0):
        """The mean cross entropy over targets that are not -1, in nats. extra: pairs (pass, weight) of earlier passes that are read out too, so that early
        passes draft well; z: weight of the squared log of the normaliser, which keeps logits from drifting."""
        states, read = self.states(ids, loops, grad_loops, start)
        total = 0.0
        for at, weight in [(len(states), 1.0), *extra]:
            logits = read(states[at - 1]).flatten(0, 1)
            total = total + weight * F.cross_entropy(logits, targets.flatten(), ignore_index=-1)
            if z:
                total = total + weight * z * logits.logsumexp(-1)[targets.flatten() >= 0].square().mean()
        return total


class TinyLoop(Layers, nn.Module):
    def __init__(self, config):
        super().__init__()
        self.build(config)

    @property
    def config(self):
        return self.c

    def forward(self, ids, loops=None, start=None):
        states, read = self.states(ids, loops, start=start)
        return read(states[-1])

    @classmethod
    def load(cls, folder, dtype=torch.float32):
        with open(os.path.join(folder, "config.json")) as f:
            model = cls(json.load(f))
        model.load_state_dict({k: v.to(dtype) for k, v in read_safetensors(os.path.join(folder, "model.safetensors")).items()})
        return model.to(dtype)

    def save(self, folder):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(self.config, f, indent=2)
        write_safetensors(os.path.join(folder, "model.safetensors"), self.state_dict())


def sample_loops(step, config, seed=0, ramp=0):
    """The passes of a step of training: half of the time uniform over the trained range, half of the time Poisson around its mean; while step < ramp the
    range grows to its full width. The same for every process of a run, and known from the step alone, so that a run can be resumed."""
    low, mean, high = (config["loops.trained_" + k] for k in ("min", "mean", "max"))
    if step < ramp:
        high = max(low, round(low + (high - low) * step / ramp))
    g = torch.Generator().manual_seed((seed * 1_000_003 + step) % 2**63)
    if torch.rand((), generator=g) < 0.5:
        return int(torch.randint(low, high + 1, (), generator=g))
    drawn = low + int(torch.poisson(torch.tensor(float(max(mean - low, 0))), generator=g))
    return min(drawn, high)


def read_safetensors(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head, data = json.loads(f.read(n)), bytearray(f.read())
    head.pop("__metadata__", None)
    return {k: torch.frombuffer(data, dtype=DTYPES[v["dtype"]], count=math.prod(v["shape"]), offset=v["data_offsets"][0]).reshape(v["shape"]) for k, v in head.items()}


def write_safetensors(path, tensors):
    names, head, at = {v: k for k, v in DTYPES.items()}, {"__metadata__": {"format": "pt"}}, 0
    for k, v in tensors.items():
        size = v.numel() * v.element_size()
        head[k] = {"dtype": names[v.dtype], "shape": list(v.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(head).encode()
    text += b" " * (-len(text) % 8)
    with open(path + ".tmp", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for v in tensors.values():
            f.write(v.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    os.replace(path + ".tmp", path)
