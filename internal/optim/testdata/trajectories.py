"""Ten steps of AdamW and of Muon with PyTorch (1.13), as numbers for optim_test.go: python3 trajectories.py > trajectories.json

AdamW is torch.optim's. Muon is written down here with plain operations. The gradient of step t (from 0) at parameter i is
sin(0.7 i + 1.3 t) + 0.1 x_i, the start is cos(0.3 i).
"""
import json
import math

import torch

STEPS = 10


def start(n):
    return torch.tensor([math.cos(0.3 * i) for i in range(n)], dtype=torch.float32)


def gradient(x, t):
    g = torch.tensor([math.sin(0.7 * i + 1.3 * t) for i in range(x.numel())], dtype=torch.float32)
    return g.view_as(x) + 0.1 * x


def adamw(n, lr, decay):
    x = torch.nn.Parameter(start(n))
    opt = torch.optim.AdamW([x], lr=lr, betas=(0.9, 0.95), eps=1e-8, weight_decay=decay)
    out = []
    for t in range(STEPS):
        x.grad = gradient(x.detach(), t)
        opt.step()
        out.append(x.detach().tolist())
    return {"rows": n, "cols": 0, "lr": lr, "decay": decay, "steps": out}


def orthogonal(g):
    x = g.T if g.shape[0] > g.shape[1] else g
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if g.shape[0] > g.shape[1] else x


def muon(rows, cols, lr, decay):
    x = start(rows * cols).view(rows, cols)
    m = torch.zeros_like(x)
    out = []
    for t in range(STEPS):
        mu = 0.85 + 0.10 * min(t / 300, 1)
        g = gradient(x, t)
        m = torch.lerp(m, g, 1 - mu)
        u = orthogonal(torch.lerp(g, m, mu))
        x = x * (1 - lr * decay) - lr * math.sqrt(max(1, rows / cols)) * u
        out.append(x.flatten().tolist())
    return {"rows": rows, "cols": cols, "lr": lr, "decay": decay, "steps": out}


if __name__ == "__main__":
    short = lambda v: [short(e) for e in v] if isinstance(v, list) else float(f"{v:.8g}")
    runs = {"adamw": [adamw(37, 3e-3, 0.0), adamw(20, 1e-2, 0.1)], "muon": [muon(8, 20, 0.02, 0.0), muon(24, 10, 0.02, 0.02), muon(7, 7, 0.02, 0.1)]}
    for kind in runs.values():
        for r in kind:
            r["steps"] = short(r["steps"])
    print(json.dumps(runs))
