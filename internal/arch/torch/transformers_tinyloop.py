"""The model for the transformers library, which finds these classes by `auto_map` of config.json:

    model = AutoModelForCausalLM.from_pretrained("folder", trust_remote_code=True)
    logits = model(input_ids, loops=8).logits
    model.generate(input_ids, loops=8, max_new_tokens=20)
    model.save_pretrained("folder2")             and `tinyloop import folder2 model.tinyloop` takes the weights back

There is no cache: generate computes the whole text for each token. What serves and what answers fast is tinyloop itself."""

import torch
from torch.nn import functional as F
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

from .modeling_tinyloop import Layers


class TinyLoopConfig(PretrainedConfig):
    """config.json with its keys as they stand there, dots included; the head is tied or not by `tied_head`."""

    model_type = "tinyloop"

    def __init__(self, **keys):
        super().__init__(**{**keys, "tie_word_embeddings": False, "use_cache": False})


class TinyLoopForCausalLM(Layers, PreTrainedModel, GenerationMixin):
    config_class = TinyLoopConfig
    main_input_name = "input_ids"
    _no_split_modules = ["Block"]

    def __init__(self, config):
        super().__init__(config)
        self.build(config.to_dict())
        self.post_init()

    def _init_weights(self, module):
        pass  # a new model begins with `tinyloop train`

    def forward(self, input_ids, attention_mask=None, labels=None, loops=None, grad_loops=0, **_):
        """attention_mask: 0 for padding, which stands before a text or behind it. labels: the ids themselves, -100 = not learned; they are shifted here."""
        start = first(attention_mask)
        if start is not None and self.c["position"] == "learned" and bool((start[:, -1] > 0).any()):
            raise ValueError("positions of this model are learned: padding must stand behind the text")
        states, read = self.states(input_ids, loops, grad_loops, start)
        logits, loss = read(states[-1]), None
        if labels is not None:
            loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten(), ignore_index=-100)
        return CausalLMOutput(loss=loss, logits=logits)

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, loops=None, **_):
        return {"input_ids": input_ids, "attention_mask": attention_mask, "loops": loops}


def first(mask):
    """The first position that each position may see, [rows, positions]: where the padding before a text ends. Padding itself sees itself."""
    if mask is None or bool(mask.all()):
        return None
    begin = mask.long().argmax(1, keepdim=True)
    return torch.minimum(begin, torch.arange(mask.shape[1], device=mask.device))


TinyLoopConfig.register_for_auto_class()
TinyLoopForCausalLM.register_for_auto_class("AutoModelForCausalLM")
