#!/usr/bin/env python3
"""Losses, states and gradients of small looped models by PyTorch's autograd, for TestTorch.

Run with Debian's python3-torch (1.13): /usr/bin/python3 torch_train.py > torch_train.json
The models are written down here in plain tensor operations and double precision, from the comments of Spec and of Pass, sharing nothing with the
Go code but the rule by which weights are drawn. Weight i of the flat array is scale * (h / 2^24 - 0.5) with h the upper 24 bits of
(i + 1) * 2654435761 mod 2^32, plus 1 for gains of norms; scale is 3.4 / sqrt(K) for matrices, 0.5 for vectors.
"""
import base64
import json
import math
import struct

import torch

torch.set_default_dtype(torch.float64)

VOCAB, DIM, CONTEXT = 23, 16, 16
ROWS, T = 2, 12
INPUT = [(7 * i * i + 3 * i + 5) % VOCAB for i in range(ROWS * T)]
TARGET = [-1 if i % 5 == 3 else (5 * i * i + i + 2) % VOCAB for i in range(ROWS * T)]
START = [0] * 5 + [5] * 7 + [0] * 9 + [9] * 3
TRACES = [(2, 1, 4), (8, 2, 9), (13, 1, 1), (20, 3, 7), (15, 2, 3)]  # position, step, id

MODELS = [
    dict(name="recipe", norm="rms", place="pre", heads=2, kv=2, hd=8, qknorm=True, qkbias=False, bias=False, rope="half", theta=100.0, softcap=0.0,
         window=0, mlp="relu2", hidden=32, prelude=1, core=2, coda=1, prelude_norm=True, inject="scaled", state="input", loop_norm="between", readout=False,
         coda_norm="none", tied=True, embed_scale=4.0, embed_norm=False, logit_cap=15.0, res=1.0,
         loops=4, grad_loops=4, extra=[(2, 0.3)], trace_weight=0.5, z=1e-3),
    dict(name="sandwich", norm="layer", place="residual", heads=4, kv=2, hd=4, qknorm=False, qkbias=True, bias=True, rope="neighbours", theta=1000.0,
         softcap=2.0, window=4, mlp="swiglu", hidden=24, prelude=1, core=1, coda=1, prelude_norm=False, inject="concat", state="zero", loop_norm="own",
         readout=False, coda_norm="final", tied=False, embed_scale=0.0, embed_norm=True, logit_cap=0.0, res=0.5,
         loops=3, grad_loops=2, extra=[], trace_weight=0.0, z=0.0),
    dict(name="diagonal", norm="rms", place="branch", heads=2, kv=1, hd=8, qknorm=True, qkbias=False, bias=False, rope="half", theta=100.0, softcap=0.0,
         window=0, mlp="gelu", hidden=32, prelude=1, core=1, coda=0, prelude_norm=True, inject="diagonal", state="input", loop_norm="none", readout=True,
         coda_norm="own", tied=True, embed_scale=0.0, embed_norm=False, logit_cap=0.0, res=1.0,
         loops=3, grad_loops=3, extra=[(1, 0.5), (2, 0.25)], trace_weight=0.0, z=1e-2),
]


def layout(c):
    """Names and shapes in the order of the flat array."""
    out = []

    def norm(name):
        out.append((name + ".weight", DIM, 0))
        if c["norm"] == "layer":
            out.append((name + ".bias", DIM, 0))

    def dense(name, n, k, bias):
        out.append((name + ".weight", n, k))
        if bias:
            out.append((name + ".bias", n, 0))

    def block(p):
        q, kv = c["heads"] * c["hd"], c["kv"] * c["hd"]
        norm(p + "attn_norm")
        dense(p + "attn_q", q, DIM, c["bias"])
        dense(p + "attn_k", kv, DIM, c["bias"])
        dense(p + "attn_v", kv, DIM, c["bias"])
        if c["qknorm"]:
            out.append((p + "attn_q_norm.weight", c["hd"], 0))
            out.append((p + "attn_k_norm.weight", c["hd"], 0))
        if c["qkbias"]:
            out.append((p + "attn_q_head.bias", q, 0))
            out.append((p + "attn_k_head.bias", kv, 0))
        dense(p + "attn_output", DIM, q, c["bias"])
        if c["place"] != "pre":
            norm(p + "attn_post_norm")
        norm(p + "ffn_norm")
        if c["mlp"] == "swiglu":
            dense(p + "ffn_gate", c["hidden"], DIM, c["bias"])
        dense(p + "ffn_up", c["hidden"], DIM, c["bias"])
        dense(p + "ffn_down", DIM, c["hidden"], c["bias"])
        if c["place"] != "pre":
            norm(p + "ffn_post_norm")

    out.append(("token_embd.weight", VOCAB, DIM))
    if c["embed_norm"]:
        norm("embd_norm")
    for i in range(c["prelude"]):
        block("prelude.%d." % i)
    if c["prelude_norm"]:
        norm("prelude_norm")
    if c["inject"] == "scaled":
        out.append(("inject.alpha", DIM, 0))
    if c["inject"] == "diagonal":
        out.append(("inject.a_log", DIM, 0))
        out.append(("inject.dt_bias", DIM, 0))
        out.append(("inject.weight", DIM, DIM))
    if c["inject"] == "concat":
        out.append(("inject.weight", DIM, 2 * DIM))
    for i in range(c["core"]):
        block("core.%d." % i)
    if c["loop_norm"] == "own":
        norm("loop_norm")
    if c["readout"]:
        out.append(("readout.weight", DIM, DIM))
    if c["coda_norm"] == "own":
        norm("coda_norm")
    for i in range(c["coda"]):
        block("coda.%d." % i)
    norm("output_norm")
    if not c["tied"]:
        out.append(("output.weight", VOCAB, DIM))
    return out


def as_f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def weights(c):
    w, i = {}, 0
    for name, n, k in layout(c):
        scale = as_f32(3.4 / math.sqrt(k)) if k else 0.5
        shift = 1.0 if not k and name.endswith(".weight") else 0.0
        vals = []
        for _ in range(n * max(k, 1)):
            h = ((i + 1) * 2654435761 % 2**32) >> 8
            vals.append(as_f32(shift + as_f32(scale * (h / 2**24 - 0.5))))
            i += 1
        w[name] = torch.tensor(vals).reshape((n, k) if k else (n,)).requires_grad_()
    return w


class Model:
    def __init__(self, c):
        self.c, self.w = c, weights(c)
        self.place = torch.tensor([i % T - START[i] for i in range(ROWS * T)]).reshape(ROWS, T)
        self.sees = torch.zeros(ROWS, T, T, dtype=torch.bool)
        for r in range(ROWS):
            for i in range(T):
                for j in range(i + 1):
                    self.sees[r, i, j] = j >= START[r * T + i] and (c["window"] == 0 or j > i - c["window"])

    def norm(self, name, x):
        if self.c["norm"] == "layer":
            m = x.mean(-1, keepdim=True)
            v = ((x - m) ** 2).mean(-1, keepdim=True)
            return (x - m) / torch.sqrt(v + 1e-5) * self.w[name + ".weight"] + self.w[name + ".bias"]
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.w[name + ".weight"]

    def dense(self, name, x):
        y = x @ self.w[name + ".weight"].t()
        return y + self.w[name + ".bias"] if self.c["bias"] else y

    def heads(self, p, which, x, n):
        c = self.c
        x = x.reshape(ROWS, T, n, c["hd"])
        if c["qknorm"]:
            x = x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * self.w[p + "attn_%s_norm.weight" % which]
        if c["qkbias"]:
            x = x + self.w[p + "attn_%s_head.bias" % which].reshape(n, c["hd"])
        half = c["hd"] // 2
        angle = self.place[:, :, None, None] * c["theta"] ** (-torch.arange(half) * 2.0 / c["hd"])
        cos, sin = torch.cos(angle), torch.sin(angle)
        if c["rope"] == "half":
            a, b = x[..., :half], x[..., half:]
            return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)
        a, b = x[..., 0::2], x[..., 1::2]
        return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)

    def attention(self, p, x):
        c = self.c
        q = self.heads(p, "q", self.dense(p + "attn_q", x), c["heads"])
        k = self.heads(p, "k", self.dense(p + "attn_k", x), c["kv"])
        v = self.dense(p + "attn_v", x).reshape(ROWS, T, c["kv"], c["hd"])
        group = c["heads"] // c["kv"]
        k, v = k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)
        s = torch.einsum("rihd,rjhd->rhij", q, k) / math.sqrt(c["hd"])
        if c["softcap"]:
            s = c["softcap"] * torch.tanh(s / c["softcap"])
        s = s.masked_fill(~self.sees[:, None], -math.inf)
        o = torch.einsum("rhij,rjhd->rihd", torch.softmax(s, -1), v)
        return self.dense(p + "attn_output", o.reshape(ROWS, T, -1))

    def mlp(self, p, x):
        u = self.dense(p + "ffn_up", x)
        if self.c["mlp"] == "swiglu":
            g = self.dense(p + "ffn_gate", x)
            u = g * torch.sigmoid(g) * u
        elif self.c["mlp"] == "gelu":
            u = 0.5 * u * (1 + torch.tanh(math.sqrt(2 / math.pi) * (u + 0.044715 * u**3)))
        else:
            u = torch.relu(u) ** 2
        return self.dense(p + "ffn_down", u)

    def block(self, p, x):
        for f, n in ((self.attention, "attn"), (self.mlp, "ffn")):
            y = f(p, self.norm(p + n + "_norm", x))
            if self.c["place"] == "branch":
                y = self.norm(p + n + "_post_norm", y)
            x = x + self.c["res"] * y
            if self.c["place"] == "residual":
                x = self.norm(p + n + "_post_norm", x)
        return x

    def chain(self, part, x):
        for i in range(self.c[part]):
            x = self.block("%s.%d." % (part, i), x)
        return x

    def inject(self, h, e):
        c, w = self.c, self.w
        if c["inject"] == "scaled":
            return h + w["inject.alpha"] * e
        if c["inject"] == "concat":
            return torch.cat([h, e], -1) @ w["inject.weight"].t()
        dt = torch.log1p(torch.exp(w["inject.dt_bias"]))
        return torch.exp(-dt * torch.exp(w["inject.a_log"])) * h + dt * (e @ w["inject.weight"].t())

    def logits(self, h):
        c = self.c
        if c["readout"]:
            h = h @ self.w["readout.weight"].t()
        if c["coda_norm"] != "none":
            h = self.norm("output_norm" if c["coda_norm"] == "final" else "coda_norm", h)
        x = self.norm("output_norm", self.chain("coda", h))
        z = x @ self.w["token_embd.weight" if c["tied"] else "output.weight"].t()
        z = c["logit_cap"] * torch.tanh(z / c["logit_cap"]) if c["logit_cap"] else z
        return z.reshape(ROWS * T, VOCAB)

    def run(self):
        """The objective, and what Result holds."""
        c = self.c
        x = self.w["token_embd.weight"][torch.tensor(INPUT)].reshape(ROWS, T, DIM)
        x = x * c["embed_scale"] if c["embed_scale"] else x
        x = self.norm("embd_norm", x) if c["embed_norm"] else x
        e = self.chain("prelude", x)
        e = self.norm("prelude_norm", e) if c["prelude_norm"] else e
        h = torch.zeros_like(e) if c["state"] == "zero" else e
        states, total = [], 0.0
        out = dict(extra=[], trace=0.0, traces=0)
        for l in range(1, c["loops"] + 1):
            if l - 1 == c["loops"] - c["grad_loops"]:
                h = h if l == 1 else h.detach()
            if l > 1 and c["loop_norm"] == "between":
                h = self.norm("output_norm", h)
            h = self.chain("core", self.inject(h, e))
            if c["loop_norm"] == "own":
                h = self.norm("loop_norm", h)
            states.append(h.detach())
            z = self.logits(h if l > c["loops"] - c["grad_loops"] else h.detach())
            lse = torch.logsumexp(z, -1)

            def loss(pos, ids, weight):
                nll = (lse[pos] - z[pos, ids]).sum()
                return nll, weight * (nll + c["z"] * (lse[pos] ** 2).sum())

            pos = torch.tensor([i for i in range(ROWS * T) if TARGET[i] >= 0])
            ids = torch.tensor(TARGET)[pos]
            weight = 1.0 if l == c["loops"] else dict(c["extra"]).get(l)
            if weight is not None:
                nll, part = loss(pos, ids, weight)
                total = total + part
                if l == c["loops"]:
                    out["loss"] = nll.item()
                else:
                    out["extra"].append(nll.item())
            now = [t for t in TRACES if t[1] == l and l < c["loops"]]
            if c["trace_weight"] and now:
                nll, part = loss(torch.tensor([t[0] for t in now]), torch.tensor([t[2] for t in now]), c["trace_weight"])
                total = total + part
                out["trace"] += nll.item()
                out["traces"] += len(now)
        out["objective"] = total.item()
        total.backward()
        return out, states


def packed(x):
    return base64.b64encode(struct.pack("<%df" % len(x), *x)).decode()


def main():
    result = []
    for c in MODELS:
        m = Model(c)
        out, states = m.run()
        grads = []
        for name, n, k in layout(c):
            g = m.w[name].grad
            grads += (torch.zeros(n * max(k, 1)) if g is None else g.reshape(-1)).tolist()
        out.update(name=c["name"], layout=["%s %d %d" % t for t in layout(c)], grads=packed(grads),
                   states=packed(torch.cat([s.reshape(-1) for s in states]).tolist()))
        result.append(out)
    print(json.dumps(dict(torch=torch.__version__, models=result)).replace("}, {", "},\n{"))


if __name__ == "__main__":
    main()
