"""Runs an exported model through the transformers library's own way in, or through the stand-in beside this file where the library is not installed:

    check_transformers.py FOLDER TOKENS LOOPS AGAIN

sees that auto_map leads to a model whose logits, padded or not, and loss are those of modeling_tinyloop.py, and saves it to the folder AGAIN."""

import json
import os
import sys

import torch

folder, tokens, loops, again = sys.argv[1], json.loads(sys.argv[2]), json.loads(sys.argv[3]), sys.argv[4]
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "standin"))  # behind the library, if there is one
sys.path.append(folder)
from transformers import AutoModelForCausalLM  # noqa: E402

from modeling_tinyloop import TinyLoop  # noqa: E402

torch.manual_seed(1)
plain, model = TinyLoop.load(folder), AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True)
ids = torch.tensor([tokens])
with torch.no_grad():
    for r in loops:
        assert torch.equal(model(ids, loops=r).logits, plain(ids, r)), r
    assert torch.equal(model(ids).logits, plain(ids)), "the default depth"
    pad = 5
    padded = torch.cat([torch.zeros_like(ids[:, :pad]), ids], 1)[:, : plain.config["context_length"]]
    mask = torch.ones_like(padded)
    mask[:, :pad] = 0
    want = plain(ids, loops[0])[:, : padded.shape[1] - pad]
    if plain.config["position"] == "learned":
        try:
            model(padded, mask, loops=loops[0])
            raise SystemExit("padding before learned positions is taken")
        except ValueError:
            pass
    else:
        assert (model(padded, mask, loops=loops[0]).logits[:, pad:] - want).abs().max() < 1e-4, "padding before a text changes it"
    behind, mask = torch.cat([ids[:, pad:], torch.zeros_like(ids[:, :pad])], 1), torch.ones_like(ids)
    mask[:, -pad:] = 0
    assert (model(behind, mask, loops=loops[0]).logits[:, :-pad] - plain(ids[:, pad:], loops[0])).abs().max() < 1e-4, "padding behind a text changes it"
    labels = ids.clone()
    labels[:, :4] = -100
    targets = torch.cat([labels[:, 1:], torch.full((1, 1), -1)], 1)
    targets[targets == -100] = -1
    assert abs(float(model(ids, labels=labels, loops=loops[0]).loss) - float(plain.loss(ids, targets, loops[0]))) < 1e-6
given = model.prepare_inputs_for_generation(ids, attention_mask=None, loops=3, cache_position=None)
assert given["loops"] == 3 and given["input_ids"] is ids
model.save_pretrained(again)
