"""Trains the model of this folder further on a corpus that `tinyloop data prepare` made with the folder's tokenizer. PyTorch 1.13 or newer, nothing else.

    python3 train.py --data CORPUS --out OUT --steps 1000
    torchrun --nproc_per_node 8 train.py --data CORPUS --out OUT --steps 1000          one process a device; OUT is written by the first

A step draws its number of passes from (seed, step), the same for all processes. OUT is a folder like this one, `tinyloop import OUT model.tinyloop` takes it
back; where it holds a run already, that goes on from its last checkpoint, with the rows it would have had.
"""

import argparse
import contextlib
import json
import mmap
import os
import shutil
import struct
import sys

import torch
from torch import distributed, nn

here = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, here)
from modeling_tinyloop import TinyLoop, sample_loops  # noqa: E402


class Shard:
    """One token shard: 192 bytes of header, the tokens, an entry a document, the learned ranges (docs/data.md of TinyLoop)."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.map = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_COPY)  # a map that PyTorch takes for writable
        magic, version, width, _, _, tokens, docs, ranges = struct.unpack_from("<8sIIIIQQQ", self.map)
        if magic != b"TLSHARD\0" or version != 1:
            raise SystemExit(f"{path} is no token shard of version 1")
        at = (192 + tokens * width + 7) // 8 * 8
        self.tokens = self.view(torch.int16 if width == 2 else torch.int32, 192, tokens)
        entries = self.view(torch.int32, at, (docs + 1) * 6).view(-1, 6)
        self.mask = 0xFFFF if width == 2 else 0x7FFFFFFF
        self.begin = self.view(torch.int64, at, (docs + 1) * 3).view(-1, 3)[:, 0]
        self.first = entries[:, 2]  # of each document's ranges
        self.ranges = self.view(torch.int32, at + (docs + 1) * 24, ranges * 2).view(-1, 2)

    def view(self, dtype, offset, count):
        return torch.frombuffer(self.map, dtype=dtype, count=count, offset=offset) if count else torch.zeros(0, dtype=dtype)

    def lengths(self):
        return (self.begin[1:] - self.begin[:-1]).tolist()

    def piece(self, doc, start, end):
        """Tokens [start, end) of a document, and what follows each: -1 where that is not learned or not there."""
        base, length = int(self.begin[doc]), int(self.begin[doc + 1] - self.begin[doc])
        ids = self.tokens[base + start : base + min(end + 1, length)].long() & self.mask
        learn = torch.zeros(length + 1, dtype=torch.bool)
        for a, b in self.ranges[int(self.first[doc]) : int(self.first[doc + 1])].tolist():
            learn[a:b] = True
        targets = torch.full((end - start,), -1)
        following = ids[1:]
        targets[: len(following)] = torch.where(learn[start + 1 : start + 1 + len(following)], following, -1)
        return ids[: end - start], targets


class Rows:
    """Endless rows of documents one behind the other, in an order that follows from seed and pass over the corpus. What a row cannot hold goes on in the next."""

    def __init__(self, corpus, context, seed):
        with open(os.path.join(corpus, "data.json")) as f:
            shards = json.load(f)["splits"][0]["shards"]
        self.shards = [Shard(os.path.join(corpus, s["file"])) for s in shards]
        self.docs = [(s, d, n) for s, shard in enumerate(self.shards) for d, n in enumerate(shard.lengths())]
        if not self.docs:
            raise SystemExit(f"{corpus} holds nothing to train on")
        self.context, self.seed = context, seed

    def plan(self):
        """Yields the pieces of each row, without reading a token: (shard, document, start, end)."""
        row, room, epoch = [], self.context, 0
        while True:
            order = torch.randperm(len(self.docs), generator=torch.Generator().manual_seed(self.seed * 1_000_003 + epoch))
            for i in order.tolist():
                shard, doc, length = self.docs[i]
                at = 0
                while at < length:
                    n = min(room, length - at)
                    row.append((shard, doc, at, at + n))
                    at, room = at + n, room - n
                    if room == 0:
                        yield row
                        row, room = [], self.context
            epoch += 1

    def row(self, pieces):
        ids, targets, start = [], [], []
        for shard, doc, a, b in pieces:
            start += [len(start)] * (b - a)
            x, y = self.shards[shard].piece(doc, a, b)
            ids.append(x)
            targets.append(y)
        return torch.cat(ids), torch.cat(targets), torch.tensor(start)


class Loss(nn.Module):
    """The loss as a forward pass, which is where DistributedDataParallel listens."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *args, **kwargs):
        return self.model.loss(*args, **kwargs)


def rate(step, o):
    """Warm-up, then flat, then linearly to 0 over the last fifth."""
    return o.lr * min(1.0, (step + 1) / max(1, o.warmup), 5.0 * (o.steps - step) / o.steps)


def save(o, model, optimizer, step):
    os.makedirs(o.out, exist_ok=True)
    for name in os.listdir(here):
        if name not in ("config.json", "model.safetensors", "train.pt") and os.path.isfile(os.path.join(here, name)) and os.path.abspath(o.out) != here:
            shutil.copy(os.path.join(here, name), o.out)
    model.save(o.out)
    path = os.path.join(o.out, "train.pt")
    torch.save({"step": step, "optimizer": optimizer.state_dict(), "weights": model.state_dict()}, path + ".tmp")
    os.replace(path + ".tmp", path)  # last: it holds all that a run needs to go on


def options():
    p = argparse.ArgumentParser(description="Trains the model of this folder further.")
    p.add_argument("--data", required=True, help="corpus that tinyloop data prepare made")
    p.add_argument("--out", required=True, help="folder to write; not this one")
    p.add_argument("--steps", type=int, required=True)
    p.add_argument("--rows", type=int, default=8, help="rows of a step, a process")
    p.add_argument("--context", type=int, default=0, help="tokens of a row; 0 = the model's window")
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--warmup", type=int, default=100)
    p.add_argument("--decay", type=float, default=0.1, help="weight decay of the matrices")
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--grad-loops", type=int, default=8, help="last passes that carry gradients; 0 = all")
    p.add_argument("--early", type=float, default=0.3, help="weight of the loss read half-way through the passes")
    p.add_argument("--z", type=float, default=1e-4)
    p.add_argument("--ramp", type=int, default=0, help="steps in which the passes grow to their full range")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--save-every", type=int, default=500)
    p.add_argument("--bf16", action="store_true", help="bfloat16 where the device has it")
    o = p.parse_args()
    if os.path.abspath(o.out) == here:
        p.error("--out must be another folder")
    if o.steps < 1 or o.rows < 1 or o.context < 0 or o.save_every < 1:
        p.error("--steps, --rows and --save-every must be at least 1, --context at least 0")
    return o


def main():
    o = options()
    rank, world, local = (int(os.environ.get(k, d)) for k, d in (("RANK", 0), ("WORLD_SIZE", 1), ("LOCAL_RANK", 0)))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if world > 1:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    model, first = TinyLoop.load(here).to(device), 0
    for name, p in model.named_parameters():
        p.requires_grad_(p.requires_grad and not name.startswith("exit_gate"))  # it is fitted afterwards: tinyloop calibrate --gate
    learned = [p for p in model.parameters() if p.requires_grad]
    groups = [{"params": [p for p in learned if p.dim() > 1], "weight_decay": o.decay}, {"params": [p for p in learned if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=o.lr, betas=(0.9, 0.95))
    last = os.path.join(o.out, "train.pt")
    if os.path.exists(last):
        state = torch.load(last, map_location=device)
        model.load_state_dict(state["weights"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    context = min(o.context or model.config["context_length"], model.config["context_length"])
    loss_of = Loss(model)
    if world > 1:
        loss_of = nn.parallel.DistributedDataParallel(loss_of, device_ids=[local] if device.type == "cuda" else None)
    rows = Rows(o.data, context, o.seed)
    plan = rows.plan()
    for _ in range(first * world * o.rows):
        next(plan)
    for step in range(first, o.steps):
        mine = [pieces for i, pieces in enumerate(next(plan) for _ in range(world * o.rows)) if i % world == rank]
        ids, targets, start = (torch.stack(x).to(device) for x in zip(*(rows.row(p) for p in mine)))
        loops = sample_loops(step, model.config, o.seed, o.ramp)
        extra = [((loops + 1) // 2, o.early)] if loops > 1 and o.early else []
        for group in optimizer.param_groups:
            group["lr"] = rate(step, o)
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.type, torch.bfloat16) if o.bf16 else contextlib.nullcontext():
            loss = loss_of(ids, targets, loops, o.grad_loops, start, extra, o.z)
        share = torch.ones((), device=device)
        if world > 1:  # processes have learned tokens in different numbers: the mean is that of all of them
            count = (targets >= 0).sum().float()
            total = count.clone()
            distributed.all_reduce(total)
            share = count * world / total
        (loss * share).backward()
        norm = nn.utils.clip_grad_norm_(learned, o.clip)
        if torch.isfinite(norm):  # the same in every process: gradients are averaged
            optimizer.step()
        if rank == 0:
            print(f"step {step + 1} loops {loops} loss {float(loss.detach()):.4f} norm {float(norm):.3f} lr {rate(step, o):.2e}", flush=True)
            if (step + 1) % o.save_every == 0 or step + 1 == o.steps:
                save(o, model, optimizer, step + 1)
    if world > 1:
        distributed.barrier()
        distributed.destroy_process_group()


if __name__ == "__main__":
    main()
