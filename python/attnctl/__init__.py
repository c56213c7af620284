"""attnctl shows what the attention heads of a transformer do.

>>> import attnctl
>>> model = attnctl.load("data/tiny-bert")
>>> results = model.analyze("The cat sat on the mat.", include=["metrics", "patterns"])
>>> results.tables["heads"]["entropy"].shape     # one value per head, in nats
(12,)
>>> results.tensors["pattern_0"].shape           # [layers, heads, queries, keys]
(3, 4, 9, 9)

docs/python.md describes the package.
"""

from __future__ import annotations

from ._attnctl import version as _version
from ._errors import Error, FileError, InputError, LimitError, UsageError
from ._model import (
    Input,
    LayerInfo,
    Model,
    ModelInfo,
    Panel,
    Token,
    Tokenizer,
    Warning,
    compare,
    load,
)
from ._read import read, save_patterns
from ._results import InputTokens, Pattern, Results, Table

__version__ = _version()
__all__ = [
    "Error",
    "FileError",
    "Input",
    "InputError",
    "InputTokens",
    "LayerInfo",
    "LimitError",
    "Model",
    "ModelInfo",
    "Panel",
    "Pattern",
    "Results",
    "Table",
    "Token",
    "Tokenizer",
    "UsageError",
    "Warning",
    "compare",
    "load",
    "read",
    "save_patterns",
]
