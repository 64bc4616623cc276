"""Time whole training steps (forward, backward, AdamW) of two models in PyTorch, written with plain operations.

Usage: step.py MODEL STEPS THREADS     MODEL is looped (d=192, 1 + 2 x 4 + 1 blocks, four of them distinct) or gpt (d=256, 6 blocks)
Prints one JSON object: tokens per second of every step after two warm-up steps, and the number of parameters.
"""
import json
import math
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

ROWS, T, VOCAB = 16, 256, 2048


def rms(x, gain):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * gain


def rotate(x, cos, sin):
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def causal(q, k, v, mask):
    p = (q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])).masked_fill(mask, float("-inf")).softmax(-1)
    return p @ v


class LoopedBlock(nn.Module):
    """RMS norms, rotary positions, normed queries and keys, squared ReLU."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.dim = heads, d // heads
        self.q, self.k, self.v, self.out = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.gains = nn.ParameterList(nn.Parameter(torch.ones(n)) for n in (d, d, self.dim, self.dim))

    def forward(self, x, cos, sin, mask):
        b, t, d = x.shape
        y = rms(x, self.gains[0])
        split = lambda z: z.view(b, t, self.heads, self.dim).transpose(1, 2)
        q = rotate(rms(split(self.q(y)), self.gains[2]), cos, sin)
        k = rotate(rms(split(self.k(y)), self.gains[3]), cos, sin)
        y = causal(q, k, split(self.v(y)), mask)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(rms(x, self.gains[1]))).square())


class Looped(nn.Module):
    def __init__(self, d=192, heads=6, loops=4):
        super().__init__()
        self.loops = loops
        self.embed = nn.Embedding(VOCAB, d)
        nn.init.normal_(self.embed.weight, std=0.02)
        self.first, self.last = LoopedBlock(d, heads), LoopedBlock(d, heads)
        self.core = nn.ModuleList(LoopedBlock(d, heads) for _ in range(2))
        self.norm = nn.Parameter(torch.ones(d))
        angle = torch.outer(torch.arange(T), 10000 ** (-torch.arange(0, 16) / 16))
        self.register_buffer("cos", angle.cos())
        self.register_buffer("sin", angle.sin())
        self.register_buffer("mask", torch.ones(T, T, dtype=torch.bool).triu(1))

    def forward(self, ids):
        rest = self.cos, self.sin, self.mask
        e = h = self.first(self.embed(ids), *rest)
        for _ in range(self.loops):
            h = h + e
            for block in self.core:
                h = block(h, *rest)
        return rms(self.last(h, *rest), self.norm) @ self.embed.weight.T


class GPTBlock(nn.Module):
    """Layer norms with bias, GELU, one product for queries, keys and values."""

    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.dim = heads, d // heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x, mask):
        b, t, d = x.shape
        q, k, v = (z.view(b, t, self.heads, self.dim).transpose(1, 2) for z in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.out(causal(q, k, v, mask).transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.gelu(self.up(self.n2(x))))


class GPT(nn.Module):
    def __init__(self, d=256, heads=8, layers=6):
        super().__init__()
        self.embed, self.pos = nn.Embedding(VOCAB, d), nn.Embedding(T, d)
        self.blocks = nn.ModuleList(GPTBlock(d, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(d)
        self.register_buffer("mask", torch.ones(T, T, dtype=torch.bool).triu(1))

    def forward(self, ids):
        x = self.embed(ids) + self.pos.weight[:T]
        for block in self.blocks:
            x = block(x, self.mask)
        return self.norm(x) @ self.embed.weight.T


def main():
    name, steps, threads = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(0)
    torch.set_num_threads(threads)
    model = {"looped": Looped, "gpt": GPT}[name]()
    optim = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95))
    rates = []
    for step in range(steps + 2):
        ids = torch.randint(VOCAB, (ROWS, T + 1))
        start = time.perf_counter()
        loss = F.cross_entropy(model(ids[:, :-1]).reshape(-1, VOCAB), ids[:, 1:].reshape(-1))
        optim.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        if step >= 2:
            rates.append(ROWS * T / (time.perf_counter() - start))
    print(json.dumps({"model": name, "threads": threads, "parameters": sum(p.numel() for p in model.parameters()), "tokens_per_second": rates}))


main()
