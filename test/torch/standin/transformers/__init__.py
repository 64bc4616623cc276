"""What transformers_tinyloop.py uses of the transformers library, as far as its documentation promises it, for machines that have no transformers. The real
library is taken wherever it is installed (check_transformers.py)."""

import importlib
import json
import os
import shutil
import sys
import types

from torch import nn


class PretrainedConfig:
    """Keeps every key as an attribute, and gives them back."""

    def __init__(self, **keys):
        for key, value in keys.items():
            setattr(self, key, value)

    def to_dict(self):
        return {**self.__dict__, "model_type": self.model_type}

    @classmethod
    def register_for_auto_class(cls, name="AutoConfig"):
        cls._auto_class = name


class PreTrainedModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config

    def post_init(self):
        self.apply(self._init_weights)

    def save_pretrained(self, folder):
        """The keys, the weights under the names of state_dict, and the files that the classes are in."""
        os.makedirs(folder, exist_ok=True)
        here = sys.modules[type(self).__module__]
        package = sys.modules[here.__package__]
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump({**self.config.to_dict(), "transformers_version": "0.0.0", "torch_dtype": "float32"}, f, indent=2)
        package.modeling_tinyloop.write_safetensors(os.path.join(folder, "model.safetensors"), self.state_dict())
        for name in (here.__name__, package.modeling_tinyloop.__name__):
            shutil.copy(sys.modules[name].__file__, folder)

    @classmethod
    def register_for_auto_class(cls, name="AutoModel"):
        cls._auto_class = name


class GenerationMixin:
    pass


class AutoModelForCausalLM:
    @classmethod
    def from_pretrained(cls, folder, trust_remote_code=False):
        """auto_map names FILE.CLASS in the folder, which is loaded as a package, so that its files can import each other."""
        assert trust_remote_code
        with open(os.path.join(folder, "config.json")) as f:
            keys = json.load(f)
        package = types.ModuleType("tinyloop_folder")
        package.__path__ = [folder]
        for name in [n for n in sys.modules if n.startswith("tinyloop_folder")]:
            del sys.modules[name]
        sys.modules["tinyloop_folder"] = package

        def named(auto):
            file, name = keys["auto_map"][auto].split(".")
            return getattr(importlib.import_module("tinyloop_folder." + file), name)

        model = named(cls.__name__)(named("AutoConfig")(**keys))
        weights = package.modeling_tinyloop.read_safetensors(os.path.join(folder, "model.safetensors"))
        model.load_state_dict(weights)
        return model.eval()
