"""Models, their inputs, and the calls that compute."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from . import _attnctl
from ._errors import InputError, UsageError
from ._progress import ProgressFunction, Shown
from ._results import COMPONENTS, InputTokens, Results, make_results, parse_head

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    IntegerArray: TypeAlias = NDArray[np.integer[Any]]
else:
    IntegerArray = Any  # numpy is imported when it is needed

PathLike: TypeAlias = str | os.PathLike[str]


class LayerInfo(NamedTuple):
    """The properties of one attention layer."""

    component: str | None  #: "enc", "dec" or "cross" in an encoder-decoder model, otherwise None
    number: int  #: from 0, within the component
    heads: int
    kv_heads: int  #: key/value heads; several heads may share one
    d_head: int  #: width of a query and of a key
    d_value: int  #: width of a value; 0: unknown
    causal: bool  #: queries attend only to keys at the same or earlier positions
    kind: str  #: "full", "window:64", "block:16", "strided:8" or "linear"


class ModelInfo(NamedTuple):
    """The name, sizes and layers of a model."""

    name: str
    family: str
    d_model: int
    vocabulary: int  #: number of token ids; 0 if the inputs are not token ids
    max_positions: int | None  #: longest input in tokens; None: no limit
    parameters: int
    layers: tuple[LayerInfo, ...]


class Warning(NamedTuple):
    """A problem that did not stop the work but may affect the results."""

    code: str  #: identifier for programs, such as "non_finite_weight"
    message: str  #: that of the first occurrence
    times: int  #: number of occurrences


class Token(NamedTuple):
    """One token of a text."""

    id: int
    piece: str  #: string in the vocabulary, such as "##ing"
    begin: int  #: the token covers text[begin:end]; both are 0 if the tokenizer added the token
    end: int
    type: int  #: token type
    is_special: bool  #: the tokenizer added the token


class Input(NamedTuple):
    """One input of a model: a text, or token ids.

    ``mask`` has one number per token: 1 if queries may attend to it, 0 if it is hidden. ``target_text`` or
    ``target_ids`` is the decoder's input in an encoder-decoder model. ``id`` must be unique in a batch; the default
    is the number of the input.
    """

    text: str | None = None
    text_pair: str | None = None
    ids: Sequence[int] = ()
    type_ids: Sequence[int] = ()
    mask: Sequence[int] = ()
    target_text: str = ""
    target_ids: Sequence[int] = ()
    id: str = ""


class Panel(NamedTuple):
    """Some consecutive rows of the attention pattern of one head on one input.

    ``weights`` is a read-only view [rows, keys] of float32. Row r belongs to the query ``first_row + r``. The view is
    valid only during the call: an observer that keeps it, or a slice of it, ends the run with a UsageError. Numbers
    computed from it, and ``weights.copy()``, may be kept.
    """

    input: int  #: number of the input
    component: str | None
    layer: int
    head: int
    first_row: int
    weights: NDArray[np.float32]


@runtime_checkable
class Observer(Protocol):
    """An object that receives the patterns of a run. It may also have a method ``begin(inputs)``."""

    def panel(self, panel: Panel) -> object:
        """Receive one panel."""


InputLike: TypeAlias = str | Input | Sequence[int] | IntegerArray
Inputs: TypeAlias = InputLike | Sequence[InputLike] | IntegerArray
HeadLike: TypeAlias = str | tuple[int, int]
ObserverLike: TypeAlias = Observer | Callable[[Panel], object]
Corpus: TypeAlias = PathLike | Sequence[InputLike | os.PathLike[str]]

_InputTuple: TypeAlias = tuple[str, str | None, list[int], list[int], list[int], str, list[int], str]


def _is_ids(value: object) -> bool:
    if isinstance(value, (str, Input)) or not isinstance(value, Iterable):
        return False
    if hasattr(value, "ndim"):
        return bool(value.ndim == 1)
    items = list(value)
    return bool(items) and all(hasattr(item, "__index__") and not hasattr(item, "__len__") for item in items)


def _integers(values: Iterable[Any], what: str) -> list[int]:
    try:
        made = [int(value.__index__()) for value in values]
    except AttributeError as error:
        raise UsageError(f"{what}: got {values!r}, need integers") from error
    for value in made:
        if not -(2**63) <= value < 2**63:
            raise UsageError(f"{what}: got {value}, need integers of 64 bits")
    return made


def _text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"a text is not valid Unicode: {error.reason} at position {error.start}") from error
    return text


def _threads(threads: int | None) -> int:
    if threads is not None and not 1 <= threads < 2**31:
        raise UsageError(f"threads: got {threads}, need at least 1, or None for all cores")
    return threads or 0


def _make_input(value: Any) -> _InputTuple:
    if isinstance(value, str):
        value = Input(text=value)
    elif not isinstance(value, Input):
        if not _is_ids(value):
            raise UsageError(f"an input is {type(value).__name__}; give a text, token ids or an attnctl.Input")
        value = Input(ids=_integers(value, "ids"))
    if (value.text is None) == (len(value.ids) == 0):
        raise UsageError("an input has neither or both of text and ids; give one of them")
    return (
        _text(value.text or ""),
        None if value.text_pair is None else _text(value.text_pair),
        _integers(value.ids, "ids"),
        _integers(value.type_ids, "type_ids"),
        [int(bool(visible)) for visible in value.mask],
        _text(value.target_text),
        _integers(value.target_ids, "target_ids"),
        _text(value.id),
    )


def _make_inputs(inputs: Any) -> list[_InputTuple]:
    if isinstance(inputs, (str, Input)) or _is_ids(inputs):
        inputs = [inputs]
    if not isinstance(inputs, Iterable):
        raise UsageError(
            f"the inputs are {type(inputs).__name__}; give a text, token ids, an attnctl.Input or a list of them"
        )
    return [_make_input(each) for each in inputs]


def _make_heads(heads: Iterable[HeadLike] | None) -> list[tuple[int, int, int]]:
    if isinstance(heads, str):
        heads = heads.split(",")
    made = []
    for head in heads or ():
        if isinstance(head, str):
            made.append(parse_head(head))
        else:
            layer_number, head_number = head
            made.append((0, layer_number, head_number))
    return made


def _make_corpus(corpus: Any) -> tuple[list[str], list[_InputTuple]]:
    """Return the files and the inputs of a corpus, of which one is empty."""
    if isinstance(corpus, (str, os.PathLike)):
        return [os.fspath(corpus)], []
    if not isinstance(corpus, Iterable):
        raise UsageError(
            f"the corpus is {type(corpus).__name__}; give the path of a file, or a list of paths, texts or inputs"
        )
    if not isinstance(corpus, Input) and not hasattr(corpus, "ndim"):
        corpus = list(corpus)
        if corpus and all(isinstance(item, os.PathLike) for item in corpus):
            return [os.fspath(item) for item in corpus], []
    return [], _make_inputs(corpus)


def _study_options(**given: Any) -> SimpleNamespace:
    """Return the options of a study, under the names that the extension module reads."""
    options = {
        "measures": [],
        "causal": False,
        "max_length": None,
        "stride": None,
        "batch_tokens": None,
        "skip_bad": False,
        "seed": 0,
        "fold_subtypes": False,
        "null_models": 0,
        "null_shuffles": 0,
        "frequencies": "",
        "state": "",
        "checkpoint": "",
    }
    return SimpleNamespace(**(options | given))


def _names(names: str | Iterable[str] | None) -> list[str]:
    if names is None:
        return []
    return names.split(",") if isinstance(names, str) else list(names)


def _path(path: PathLike | None) -> str:
    return "" if path is None else os.fspath(path)


def _panel_function(observer: Any) -> Callable[[int, int, int, int, int, Any], object]:
    receive = observer.panel if isinstance(observer, Observer) else observer
    if not callable(receive):
        raise UsageError(
            f"an observer is {type(observer).__name__}; give a function of one panel, or an object with a method panel"
        )

    def panel(number: int, component: int, layer: int, head: int, first_row: int, weights: Any) -> None:
        receive(Panel(number, COMPONENTS[component], layer, head, first_row, weights))

    return panel


class Tokenizer:
    """The tokenizer of a model. Several threads may use it at once."""

    def __init__(self, model: PathLike) -> None:
        """Open the tokenizer of a model, without its weights. ``model`` is as in :func:`load`."""
        self._own = _attnctl.Tokenizer.open(os.fspath(model))

    def encode(self, text: str, pair: str | None = None) -> list[Token]:
        """Return the tokens of a text, or of a pair of texts, with the special tokens that the tokenizer adds."""
        return [Token(*token) for token in self._own.encode(text, pair)]

    def __len__(self) -> int:
        """Return the number of token ids, including unused ids."""
        return self._own.size()

    def id(self, piece: str) -> int | None:
        """Return the lowest id of a string of the vocabulary; None if there is none."""
        return self._own.id(piece)

    def piece(self, id: int) -> str | None:
        """Return the string of an id; None if no token has this id."""
        return self._own.piece(id)


class Model:
    """A model. Its weights are read from disk when they are needed. Several threads may use one model at once.

    In all functions, ``heads`` selects heads by names such as "0.1" (layer 0, head 1) or "enc.0.1", or by tuples
    (layer, head); None means all heads. ``threads`` is the number of threads; None means all cores. ``progress`` is a
    function of (step, done, total, unit), True or False; None shows a line in notebooks and terminals if the work
    takes more than a second. Ctrl-C ends a run with KeyboardInterrupt; the model can be used afterwards.
    """

    def __init__(self, model: PathLike, config: PathLike | None = None) -> None:
        """Open a model, see :func:`load`."""
        self._path = os.fspath(model)
        self._config = None if config is None else os.fspath(config)
        self._own = _attnctl.Model.open(self._path, self._config)

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[str, str | None]]:
        """Pickle the path, so that another process can open the model."""
        return load, (self._path, self._config)

    def __repr__(self) -> str:
        info = self.info
        return f"<attnctl.Model {info.name!r}: {info.family}, {len(info.layers)} layers, {info.parameters} parameters>"

    @cached_property
    def info(self) -> ModelInfo:
        """The name, sizes and layers."""
        name, family, d_model, vocabulary, max_positions, parameters, layers = self._own.info()
        made = tuple(LayerInfo(COMPONENTS[layer[0]], *layer[1:]) for layer in layers)
        return ModelInfo(name, family, d_model, vocabulary, max_positions, parameters, made)

    @property
    def layers(self) -> tuple[LayerInfo, ...]:
        """The attention layers."""
        return self.info.layers

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises InputError if the model has none."""
        return Tokenizer(self._path)

    @property
    def warnings(self) -> list[Warning]:
        """All warnings so far, from opening the model and from every run that used it."""
        return [Warning(*warning) for warning in self._own.warnings()]

    def _batch(self, inputs: Inputs) -> tuple[_attnctl.Batch, tuple[InputTokens, ...]]:
        batch = _attnctl.Batch.make(self._own, _make_inputs(inputs))
        return batch, tuple(InputTokens(*sequence) for sequence in batch.sequences())

    def tokens(self, inputs: Inputs) -> tuple[InputTokens, ...]:
        """Return the tokens of inputs, as the model reads them."""
        return self._batch(inputs)[1]

    def analyze(
        self,
        inputs: Inputs,
        include: str | Iterable[str] = ("metrics",),
        heads: Iterable[HeadLike] | None = None,
        threads: int | None = None,
        progress: bool | ProgressFunction | None = None,
    ) -> Results:
        """Compute analyses of inputs.

        ``inputs`` is a text, token ids (no special tokens are added), an :class:`Input`, or a list of these.
        ``include`` has the words of ``attnctl analyze --include``: "metrics" gives the table "heads" with the metrics
        of each head over all inputs (docs/metrics.md); "patterns" gives a tensor "pattern_I" [layers, heads, queries,
        keys] for each input number I; "scores", "queries", "keys", "values", "z", "output" and "logits" give other
        tensors; "weights", "rollout", "contributions" and others one analysis each (docs/cli.md). All tensors are
        float32, except indices, which are int64.
        """
        batch, tokens = self._batch(inputs)
        with Shown(progress) as shown:
            made = _attnctl.analyze(batch, _names(include), _make_heads(heads), _threads(threads), shown.function)
        return make_results(*made, inputs=tokens)

    def run(
        self,
        inputs: Inputs,
        *observers: ObserverLike,
        heads: Iterable[HeadLike] | None = None,
        threads: int | None = None,
        progress: bool | ProgressFunction | None = None,
    ) -> None:
        """Run the model and pass the attention patterns of each selected head to observers.

        An observer is a function of one :class:`Panel`, or an object with a method ``panel(panel)`` and perhaps a
        method ``begin(inputs)``, which receives the tokens first. Whole patterns are never in memory. The panels of
        one head arrive one at a time, ordered by input and then by row; panels of different heads arrive in any
        order. An exception of an observer ends the run.
        """
        batch, tokens = self._batch(inputs)
        functions = [_panel_function(observer) for observer in observers]
        for observer in observers:
            begin = getattr(observer, "begin", None)
            if callable(begin):
                begin(tokens)
        with Shown(progress) as shown:
            _attnctl.run(batch, functions, _make_heads(heads), _threads(threads), shown.function)

    def study(
        self,
        corpus: Corpus,
        measures: str | Iterable[str] | None = None,
        *,
        causal: bool = False,
        max_length: int | None = None,
        stride: int | None = None,
        batch_tokens: int | None = None,
        skip_bad: bool = False,
        seed: int = 0,
        fold_subtypes: bool = False,
        null_models: int = 0,
        null_shuffles: int = 0,
        frequencies: PathLike | None = None,
        state: PathLike | None = None,
        checkpoint: PathLike | None = None,
        heads: Iterable[HeadLike] | None = None,
        threads: int | None = None,
        progress: bool | ProgressFunction | None = None,
    ) -> Results:
        """Measure every selected head over a corpus, as ``attnctl study`` does (docs/study.md).

        ``corpus`` is the path of a file (.txt, .jsonl, .json, .conllu, each also with .gz or .zst), a list of
        ``pathlib.Path``, or a list of texts, token ids and :class:`Input`. ``measures`` are names of measures;
        None means all that fit the corpus. The results have the tables that the command writes as CSV, for example
        "heads", with one row per head. The number of threads does not change them. ``state`` is a file for
        ``attnctl merge`` and ``attnctl compare``. With ``checkpoint``, the state is saved each minute and at Ctrl-C;
        the same call then continues from it. The other options have the names and defaults of the command.
        """
        files, inputs = _make_corpus(corpus)
        options = _study_options(
            measures=_names(measures),
            causal=causal,
            max_length=max_length,
            stride=stride,
            batch_tokens=batch_tokens,
            skip_bad=skip_bad,
            seed=seed,
            fold_subtypes=fold_subtypes,
            null_models=null_models,
            null_shuffles=null_shuffles,
            frequencies=_path(frequencies),
            state=_path(state),
            checkpoint=_path(checkpoint),
        )
        with Shown(progress) as shown:
            made = _attnctl.study(
                self._own, files, inputs, options, _make_heads(heads), _threads(threads), shown.function
            )
        return make_results(*made)


def load(model: PathLike, config: PathLike | None = None) -> Model:
    """Open a model.

    ``model`` is a directory in Hugging Face layout, a weights file (safetensors, PyTorch, GGUF, NPZ, JSON), or the
    name of a model in the local Hugging Face cache. Nothing is downloaded. ``config`` is a file that is used instead
    of the model's config.json. Raises FileError if the model cannot be found, and InputError if it is damaged or not
    supported.
    """
    return Model(model, config)


def compare(
    a: Model | PathLike,
    b: Model | PathLike,
    corpus: Corpus | None = None,
    *,
    match: bool = False,
    measures: str | Iterable[str] | None = None,
    max_length: int | None = None,
    skip_bad: bool = False,
    seed: int = 0,
    heads: Iterable[HeadLike] | None = None,
    threads: int | None = None,
    progress: bool | ProgressFunction | None = None,
) -> Results:
    """Compare two models, as ``attnctl compare`` does (docs/compare.md). Differences are b - a.

    Without ``corpus``, compares the weights of two models of the same shape: the tables "heads", "projections",
    "weights" and "config". With a corpus, as in :meth:`Model.study`, also compares what their heads do: the tables
    "differences", "behaviour", "metric_changes" and others. With ``match``, each head is compared with its best match
    in b, not with the head of the same name.
    """
    first = a if isinstance(a, Model) else load(a)
    second = b if isinstance(b, Model) else load(b)
    files, inputs = ([], []) if corpus is None else _make_corpus(corpus)
    if corpus is not None and not files and not inputs:
        raise UsageError("the corpus is empty; give a path, or a list of at least one input")
    options = _study_options(measures=_names(measures), max_length=max_length, skip_bad=skip_bad, seed=seed)
    with Shown(progress) as shown:
        made = _attnctl.compare(
            first._own,
            second._own,
            files,
            inputs,
            match,
            options,
            _make_heads(heads),
            _threads(threads),
            shown.function,
        )
    return make_results(*made)
