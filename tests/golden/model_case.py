"""What a case made by transformers is: a tiny random model with awkward sizes."""
from dataclasses import dataclass, field
from typing import Callable

import transformers


@dataclass
class ModelCase:
    name: str
    model: str  # class in transformers
    config: dict
    lengths: tuple = (1, 6, 11)
    dtype: str = "float32"  # of the stored tensors
    shard: str = "1GB"  # max_shard_size
    edit_config: Callable | None = None
    edit_tensors: list = field(default_factory=list)
    prepare: list = field(default_factory=list)  # of the model with its random weights, before it is saved
    read_as: str | None = None  # class that the reference reads it with; None: the one that was saved
    pad_tokens: tuple = ()  # places of the padded input that hold the padding's id
    padded: bool = False  # one more input with hidden keys (and token types where the family has them)
    targets: tuple = ()  # lengths of what the decoder of an encoder-decoder reads, one for each of lengths
    images: int = 0  # for a model of images: how many, in place of the inputs of ids
    vocabulary: int = 0  # ids are below it (0: below vocab_size)

    def make_config(self):
        return transformers.AutoConfig.for_model(self.model_type, **self.config)

    @property
    def model_type(self) -> str:
        return getattr(transformers, self.model).config_class.model_type
