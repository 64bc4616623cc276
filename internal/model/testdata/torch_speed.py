#!/usr/bin/env python3
"""Tokens a second of forward and backward in PyTorch, for the models of BenchmarkBatch.

/usr/bin/python3 torch_speed.py [threads] [steps]     Debian's python3-torch 1.13 with libopenblas0-pthread; prints the best and the median step.
"""
import math
import sys
import time

import torch
import torch.nn.functional as F

THREADS = int(sys.argv[1]) if len(sys.argv) > 1 else 2
STEPS = int(sys.argv[2]) if len(sys.argv) > 2 else 5
ROWS, T, VOCAB = 16, 256, 2048
torch.set_num_threads(THREADS)


def rms(x, g):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g


def attend(q, k, v, mask):
    s = torch.baddbmm(mask, q, k.transpose(1, 2), alpha=1 / math.sqrt(q.shape[-1]))
    return torch.bmm(torch.softmax(s, -1), v)


class Looped:
    """d = 192, 6 heads, ReLU2 MLP of 4d, 1 prelude + 2 core x 4 + 1 coda, tied head under a soft cap."""

    def __init__(self):
        d, self.h = 192, 6
        par = lambda n, k: (torch.randn(n, k) / math.sqrt(k)).requires_grad_()
        one = lambda n=d: torch.ones(n, requires_grad=True)
        self.blocks = [dict(n1=one(), qkv=par(3 * d, d), gq=one(d // self.h), gk=one(d // self.h), o=par(d, d), n2=one(), up=par(4 * d, d), down=par(d, 4 * d))
                       for _ in range(4)]
        self.emb, self.pre, self.out, self.alpha = par(VOCAB, d), one(), one(), one()
        angle = torch.arange(T)[:, None] * 10000.0 ** (-torch.arange(16) / 16.0)
        self.cos, self.sin = angle.cos(), angle.sin()

    def rotate(self, x):
        a, b = x[..., :16], x[..., 16:]
        return torch.cat([a * self.cos - b * self.sin, a * self.sin + b * self.cos], -1)

    def block(self, b, x, mask):
        q, k, v = (rms(x, b["n1"]) @ b["qkv"].t()).view(ROWS, T, 3 * self.h, 32).transpose(1, 2).split(self.h, 1)
        q, k = self.rotate(rms(q, b["gq"])), self.rotate(rms(k, b["gk"]))
        flat = lambda t: t.reshape(ROWS * self.h, T, 32)
        o = attend(flat(q), flat(k), flat(v), mask).view(ROWS, self.h, T, 32).transpose(1, 2).reshape(ROWS, T, -1)
        x = x + o @ b["o"].t()
        u = torch.relu(rms(x, b["n2"]) @ b["up"].t())
        return x + (u * u) @ b["down"].t()

    def loss(self, ids, target, mask):
        e = rms(self.block(self.blocks[0], F.embedding(ids, self.emb) * math.sqrt(192), mask), self.pre)
        h = e
        for l in range(4):
            h = (rms(h, self.out) if l else h) + self.alpha * e
            h = self.block(self.blocks[2], self.block(self.blocks[1], h, mask), mask)
        z = rms(self.block(self.blocks[3], h, mask), self.out) @ self.emb.t()
        return F.cross_entropy((15 * torch.tanh(z / 15)).view(-1, VOCAB), target.view(-1))


class Plain:
    """d = 256, 8 heads, GELU MLP of 4d, 6 layers, learned positions, LayerNorm, tied head."""

    def __init__(self):
        d, self.h = 256, 8
        par = lambda n, k: (torch.randn(n, k) / math.sqrt(k)).requires_grad_()
        vec = lambda n, v: torch.full((n,), float(v), requires_grad=True)
        self.blocks = [dict(g1=vec(d, 1), b1=vec(d, 0), qkv=par(3 * d, d), qb=vec(3 * d, 0), o=par(d, d), ob=vec(d, 0), g2=vec(d, 1), b2=vec(d, 0),
                            up=par(4 * d, d), ub=vec(4 * d, 0), down=par(d, 4 * d), db=vec(d, 0)) for _ in range(6)]
        self.emb, self.pos, self.g, self.b = par(VOCAB, d), par(T, d), vec(d, 1), vec(d, 0)

    def loss(self, ids, target, mask):
        x = F.embedding(ids, self.emb) + self.pos
        for b in self.blocks:
            y = F.linear(F.layer_norm(x, (256,), b["g1"], b["b1"]), b["qkv"], b["qb"])
            q, k, v = y.view(ROWS, T, 3 * self.h, 32).transpose(1, 2).split(self.h, 1)
            flat = lambda t: t.reshape(ROWS * self.h, T, 32)
            o = attend(flat(q), flat(k), flat(v), mask).view(ROWS, self.h, T, 32).transpose(1, 2).reshape(ROWS, T, -1)
            x = x + F.linear(o, b["o"], b["ob"])
            u = F.linear(F.layer_norm(x, (256,), b["g2"], b["b2"]), b["up"], b["ub"])
            x = x + F.linear(F.gelu(u), b["down"], b["db"])
        z = F.layer_norm(x, (256,), self.g, self.b) @ self.emb.t()
        return F.cross_entropy(z.view(-1, VOCAB), target.view(-1))


def main():
    torch.manual_seed(1)
    ids = torch.randint(VOCAB, (ROWS, T))
    for name, model in (("looped", Looped()), ("gpt", Plain())):
        mask = torch.full((T, T), -math.inf).triu(1).expand(ROWS * model.h, T, T)
        times = []
        for _ in range(STEPS + 1):
            start = time.perf_counter()
            model.loss(ids, ids, mask).backward()
            times.append(time.perf_counter() - start)
        times = sorted(times[1:])
        print("%s threads=%d: best %.0f tokens/s, median %.0f" % (name, THREADS, ROWS * T / times[0], ROWS * T / times[len(times) // 2]), flush=True)


if __name__ == "__main__":
    main()
