from dataclasses import dataclass
from typing import Any


@dataclass
class CausalLMOutput:
    loss: Any = None
    logits: Any = None
