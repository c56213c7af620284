"""A case made by transformers: a tiny random model with awkward sizes."""
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
    edit_read_config: Callable | None = None  # edit after the reference, for a family that transformers does not have
    edit_tensors: list = field(default_factory=list)
    prepare: list = field(default_factory=list)  # edit of the model with its random weights, before it is saved
    read_as: str | None = None  # class with which the reference reads it; None: the saved class
    pad_tokens: tuple = ()  # positions of the padded input that hold the padding id
    padded: bool = False  # another input with hidden keys (and token types if the family has them)
    targets: tuple = ()  # lengths of the decoder's inputs, one for each of `lengths`
    images: int = 0  # number of images, for a model that reads images instead of ids
    vocabulary: int = 0  # ids are below it (0: below vocab_size)

    def make_config(self):
        return transformers.AutoConfig.for_model(self.model_type, **self.config)

    @property
    def model_type(self) -> str:
        return getattr(transformers, self.model).config_class.model_type
