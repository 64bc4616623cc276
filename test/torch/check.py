"""Runs an exported model for internal/arch's test of PyTorch:

    check.py FOLDER TOKENS LOOPS AGAIN

prints the logits of all positions for every number of passes in LOOPS as one JSON list, writes the model to the folder AGAIN, and sees that a few steps of
training make the loss smaller and that the sampled passes stay within the trained range. TOKENS and LOOPS are lists in JSON."""

import json
import sys

import torch

folder, tokens, loops, again = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
sys.path.insert(0, folder)
from modeling_tinyloop import TinyLoop, sample_loops  # noqa: E402

torch.manual_seed(1)
model = TinyLoop.load(folder)
ids = torch.tensor([tokens])
with torch.no_grad():
    logits = [model(ids, r)[0].double().tolist() for r in loops]
    both = model(torch.cat([ids, ids.flip(1)]), loops[0])[:1]
    assert (both - model(ids, loops[0])).abs().max() < 1e-4, "rows of a batch see each other"
model.save(again)

drawn = [sample_loops(step, model.config, seed=3, ramp=50) for step in range(400)]
low, high = model.config["loops.trained_min"], model.config["loops.trained_max"]
assert min(drawn) == low and max(drawn) == high, (min(drawn), max(drawn), low, high)
assert drawn == [sample_loops(step, model.config, seed=3, ramp=50) for step in range(400)]
targets = torch.cat([ids[:, 1:], torch.full((1, 1), -1)], 1)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2)
losses = []
for step in range(12):
    loss = model.loss(ids, targets, loops=max(loops), grad_loops=1 + step % 2, extra=[(1, 0.3)], z=1e-4)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(float(loss.detach()))
assert losses[-1] < losses[0] - 0.1, losses
json.dump(logits, sys.stdout)
