"""The results of a run: tables of typed columns, and arrays of numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ._errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[Any]

COMPONENTS: tuple[str | None, ...] = (None, "enc", "dec", "cross")

_T = TypeVar("_T")

_HEADS = ("layer", "head")
#: The axes of the arrays, by name without component and number of the input (docs/cli.md).
_AXES: dict[str, tuple[str, ...]] = {
    "pattern": (*_HEADS, "query", "key"),
    "scores": (*_HEADS, "query", "key"),
    "queries": (*_HEADS, "query", "d_head"),
    "keys": ("layer", "kv_head", "key", "d_head"),
    "values": ("layer", "kv_head", "key", "d_value"),
    "z": (*_HEADS, "query", "d_value"),
    "output": ("layer", "query", "d_model"),
    "logits": ("query", "vocabulary"),
    "rollout": ("query", "key"),
    "flow": ("query", "key"),
    "ids": ("query",),
    "layers": ("layer",),
    "heads": ("head",),
    "mixing": ("layer", "query"),
    "output_rank_change": ("layer", "rank"),
    "output_removed": ("layer",),
    "qk_similarity": (*_HEADS, "head_b"),
    "ov_similarity": (*_HEADS, "head_b"),
    "qk_singular_values": (*_HEADS, "rank"),
    "ov_singular_values": (*_HEADS, "rank"),
    "qk_circuit": (*_HEADS, "from", "to"),
    "ov_circuit": (*_HEADS, "from", "to"),
    "activations_value": ("layer", "rank"),
    "activations_position": ("layer", "rank"),
    "activations_dimension": ("layer", "rank"),
    "activations_median": ("layer",),
}


def parse_head(name: str) -> tuple[int, int, int]:
    """Return component, layer and head of a name such as "0.1", "enc.0.1" or "L0H1"."""
    words = name.strip().lower().split(".")
    if len(words) == 1 and words[0].startswith("l"):
        words = words[0][1:].split("h")
    component = words.pop(0) if len(words) == 3 else None
    if component not in COMPONENTS or len(words) != 2 or not all(word.isdecimal() for word in words):
        raise UsageError(f'heads: got "{name}", need names such as "0.1" or "enc.0.1", or tuples such as (0, 1)')
    return COMPONENTS.index(component), int(words[0]), int(words[1])


def _split_name(name: str) -> tuple[str | None, str, int | None]:
    """Split "enc_pattern_0" into "enc", "pattern" and 0."""
    component, _, rest = name.partition("_")
    if component not in COMPONENTS or not rest:
        component, rest = "", name
    base, _, number = rest.rpartition("_")
    if not base or not number.isdecimal():
        return component or None, rest, None
    return component or None, base, int(number)


def _module(name: str, purpose: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UsageError(f"{purpose} needs the package {name.split('.')[0]}; install it with pip") from error


class NamedItems(Mapping[str, _T]):
    """The tables or the tensors of results, by name, in the order of the output."""

    def __init__(self, kind: str, items: Mapping[str, _T]) -> None:
        self._kind = kind
        self._items = dict(items)

    def __getitem__(self, name: str) -> _T:
        try:
            return self._items[name]
        except KeyError:
            names = ", ".join(self._items) or "none"
            raise MissingNameError(f'the results have no {self._kind} "{name}"; they have: {names}') from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __repr__(self) -> str:
        return f"<{self._kind}s: {', '.join(self._items) or 'none'}>"


class MissingNameError(UsageError, KeyError):
    """There is no table, column or tensor with this name."""


class Table:
    """A table with named columns of one length.

    ``table["entropy"]`` is a NumPy array: float32 or float64 (undefined numbers are NaN), int64, bool, or objects for
    texts and for other values (undefined ones are None). A column of integers of which some are undefined is float64.
    """

    def __init__(self, name: str, columns: Mapping[str, Any]) -> None:
        self.name = name
        self._columns = dict(columns)  # arrays; lists become arrays of objects when they are used

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._columns)

    def __getitem__(self, column: str) -> Array:
        """Return a column [rows]."""
        if column not in self._columns:
            names = ", ".join(self._columns)
            raise MissingNameError(f'the table {self.name} has no column "{column}"; it has: {names}')
        values = self._columns[column]
        if isinstance(values, list):
            values = self._columns[column] = _from_list(values)
        array: Array = values
        return array

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(next(iter(self._columns.values()), ()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def to_dict(self) -> dict[str, Array]:
        """Return the columns by name. ``polars.DataFrame(table.to_dict())`` makes a frame of Polars."""
        return {name: self[name] for name in self._columns}

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows, with plain Python values; undefined ones are None."""
        plain = {name: [_plain(value) for value in self[name].tolist()] for name in self._columns}
        return [dict(zip(plain, values)) for values in zip(*plain.values())]

    def to_pandas(self) -> Any:
        """Return a pandas.DataFrame."""
        return _module("pandas", "to_pandas()").DataFrame(self.to_dict())

    def to_arrow(self) -> Any:
        """Return a pyarrow.Table, in which undefined numbers are null. DuckDB reads it as it is."""
        arrow = _module("pyarrow", "to_arrow()")
        return arrow.table({name: arrow.array(_nested(self[name]), from_pandas=True) for name in self._columns})

    def __repr__(self) -> str:
        return f"<attnctl.Table {self.name!r}: {len(self)} rows, columns {', '.join(self._columns)}>"

    def _repr_html_(self) -> str:
        from ._html import table_html

        return table_html(self)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and value != value else value


def _nested(column: Array) -> Any:
    """Return a column of arrays as lists, which Arrow stores as nested lists."""
    if column.dtype != object:
        return column
    return [value.tolist() if hasattr(value, "tolist") else value for value in column]


def _from_list(values: list[Any]) -> Array:
    import numpy as np

    if values and all(isinstance(value, bool) for value in values):
        return np.array(values)
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


class InputTokens(NamedTuple):
    """The tokens of one input."""

    id: str
    ids: list[int]  #: [n]
    tokens: list[str]  #: [n] strings of the vocabulary; empty without vocabulary
    target_ids: list[int]  #: [t] ids of the decoder's tokens
    target_tokens: list[str]  #: [t]

    def queries(self, component: str | None = None) -> list[str]:
        """Return the tokens that are the queries of a component."""
        return self.target_tokens if component in ("dec", "cross") else self.tokens

    def keys(self, component: str | None = None) -> list[str]:
        """Return the tokens that are the keys of a component."""
        return self.target_tokens if component == "dec" else self.tokens


class Pattern:
    """The attention pattern of one head on one input. Notebooks show it as a picture.

    ``name`` is that of the head, such as "0.1". ``weights`` [queries, keys] is a view of the tensor. ``query_tokens``
    and ``key_tokens`` are empty if they are unknown.
    """

    def __init__(
        self,
        name: str,
        weights: NDArray[np.float32],
        query_tokens: Sequence[str] = (),
        key_tokens: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.weights = weights
        self.query_tokens = list(query_tokens)
        self.key_tokens = list(key_tokens)

    def __repr__(self) -> str:
        return f"<attnctl.Pattern of head {self.name}: {self.weights.shape[0]} queries x {self.weights.shape[1]} keys>"

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """Return the weights, for NumPy."""
        import numpy as np

        return np.array(self.weights, dtype=dtype) if copy else np.asarray(self.weights, dtype=dtype)

    def to_svg(self) -> str:
        """Return the pattern as an SVG heat map: rows are queries, columns are keys."""
        from ._html import pattern_svg

        return pattern_svg(self)

    def _repr_html_(self) -> str:
        return self.to_svg()


class Results:
    """The results of an analysis, a study or a comparison, or those that :func:`attnctl.read` read.

    ``tables["heads"]`` is a :class:`Table` under the name of its CSV file, and ``tensors["pattern_0"]`` a NumPy array
    under its name in an NPZ file. ``inputs`` has the tokens of the inputs, if they are known, and ``info`` the other
    values of a JSON document.
    """

    def __init__(
        self,
        tables: Iterable[Table] = (),
        tensors: Mapping[str, Array] | None = None,
        inputs: Sequence[InputTokens] = (),
        info: Mapping[str, Any] | None = None,
    ) -> None:
        self.tables: NamedItems[Table] = NamedItems("table", {table.name: table for table in tables})
        self.tensors: NamedItems[Array] = NamedItems("tensor", tensors or {})
        self.inputs = tuple(inputs)
        self.info = dict(info or {})

    def dims(self, name: str) -> tuple[str, ...]:
        """Return the names of the axes of a tensor; "axis_0" and so on where they are not known."""
        array = self.tensors[name]
        component, base, _ = _split_name(name)
        prefix = f"{component}_" if component else ""
        axes = _AXES.get(base)
        if base == "heads" and array.ndim == 2:
            axes = ("selected", "layer_and_head")
        elif axes is None and array.shape == self._heads_shape(prefix):
            axes = _HEADS  # a metric of each head
        elif axes is None and base.endswith("linkage"):
            axes = ("merge", "column")
        if axes is not None and axes[:2] == _HEADS and array.ndim == len(axes) - 1:
            axes = ("selected", *axes[2:])
        if axes is None or len(axes) != array.ndim:
            return tuple(f"axis_{i}" for i in range(array.ndim))
        return axes

    def _heads_shape(self, prefix: str) -> tuple[int, ...]:
        heads = self.tensors._items.get(f"{prefix}heads")
        layers = self.tensors._items.get(f"{prefix}layers")
        if heads is None or layers is None:
            return (-1,)
        return (len(layers), len(heads)) if heads.ndim == 1 else (len(heads),)

    def _tokens(self, number: int | None) -> InputTokens | None:
        return self.inputs[number] if number is not None and number < len(self.inputs) else None

    def to_xarray(self, name: str) -> Any:
        """Return a tensor as an xarray.DataArray with named axes; numbers and tokens are coordinates."""
        xarray = _module("xarray", "to_xarray()")
        array = self.tensors[name]
        component, _, number = _split_name(name)
        prefix = f"{component}_" if component else ""
        dims = self.dims(name)
        coords: dict[str, Any] = {}
        for dim, indices in (("layer", "layers"), ("head", "heads")):
            values = self.tensors._items.get(prefix + indices)
            if values is not None and values.ndim == 1 and dim in dims and len(values) == array.shape[dims.index(dim)]:
                coords[dim] = values
        selected = self.tensors._items.get(f"{prefix}heads")
        if "selected" in dims and selected is not None and selected.ndim == 2:
            coords["selected"] = [f"{prefix.replace('_', '.')}{layer}.{head}" for layer, head in selected.tolist()]
        tokens = self._tokens(number)
        if tokens is not None:
            for dim, strings in (("query", tokens.queries(component)), ("key", tokens.keys(component))):
                if dim in dims and len(strings) == array.shape[dims.index(dim)]:
                    coords[dim] = range(len(strings))
                    coords[f"{dim}_token"] = (dim, strings)
        return xarray.DataArray(array, dims=dims, coords=coords, name=name)

    def pattern(
        self, layer: int | str, head: int | None = None, input: int = 0, component: str | None = None
    ) -> Pattern:
        """Return the pattern of one head on one input.

        ``layer`` and ``head`` are their numbers in the model; ``layer`` can also be the name of the head, such as
        "0.3" or "enc.0.3".
        """
        if isinstance(layer, str):
            place, layer, head = parse_head(layer)
            component = COMPONENTS[place] or component
        elif head is None:
            raise UsageError('pattern: head is missing; give a layer and a head, or a name such as "0.3"')
        prefix = f"{component}_" if component else ""
        array = self.tensors[f"{prefix}pattern_{input}"]
        weights = array[self._place(prefix, array, layer, head)]
        tokens = self._tokens(input)
        queries, keys = (tokens.queries(component), tokens.keys(component)) if tokens else ([], [])
        return Pattern(f"{prefix.replace('_', '.')}{layer}.{head}", weights, queries, keys)

    def _names(self, name: str) -> list[str]:
        """Return the names of the heads of a tensor of patterns, in its order."""
        array = self.tensors[name]
        component, _, _ = _split_name(name)
        prefix = f"{component}_" if component else ""
        heads, layers = (self.tensors._items.get(prefix + each) for each in ("heads", "layers"))
        if array.ndim == 3:
            pairs = [("", number) for number in range(len(array))] if heads is None else heads.tolist()
        else:
            numbers = range(array.shape[0]) if layers is None else layers.tolist()
            members = range(array.shape[1]) if heads is None else heads.tolist()
            pairs = [(number, member) for number in numbers for member in members]
        return [f"{prefix.replace('_', '.')}{layer}.{head}" for layer, head in pairs]

    def _place(self, prefix: str, array: Array, layer: int, head: int) -> tuple[int, ...]:
        """Return the index of a head in the first axes of an array of patterns."""
        heads = self.tensors._items.get(f"{prefix}heads")
        if array.ndim == 3:
            pairs = [] if heads is None else [tuple(pair) for pair in heads.tolist()]
            if (layer, head) in pairs:
                return (pairs.index((layer, head)),)
        else:
            layers = self.tensors._items.get(f"{prefix}layers")
            numbers = list(range(array.shape[0])) if layers is None else layers.tolist()
            members = list(range(array.shape[1])) if heads is None else heads.tolist()
            if layer in numbers and head in members:
                return numbers.index(layer), members.index(head)
        raise UsageError(f"the results have no pattern of head {layer}.{head}; select this head, or another one")

    def to_circuitsvis(self, layer: int, input: int = 0, component: str | None = None) -> dict[str, Any]:
        """Return the arguments of circuitsvis.attention.attention_patterns: tokens, and attention [heads, n, n]."""
        array = self._patterns(input, component)
        layers = self.tensors._items.get(f"{component}_layers" if component else "layers")
        numbers = list(range(array.shape[0])) if layers is None else layers.tolist()
        if layer not in numbers:
            raise UsageError(f"the results have no patterns of layer {layer}; they have layers {numbers}")
        return {"tokens": self._labels(input, component, array), "attention": array[numbers.index(layer)]}

    def to_bertviz(self, input: int = 0, component: str | None = None) -> dict[str, Any]:
        """Return the arguments of bertviz.head_view and model_view: attention, a list of arrays [1, heads, n, n] with
        one per layer, and tokens. BertViz needs tensors of torch: ``[torch.from_numpy(a) for a in attention]``.
        """
        array = self._patterns(input, component)
        return {"attention": [layer[None] for layer in array], "tokens": self._labels(input, component, array)}

    def _patterns(self, number: int, component: str | None) -> Array:
        prefix = f"{component}_" if component else ""
        array = self.tensors[f"{prefix}pattern_{number}"]
        if array.ndim != 4:
            raise UsageError("the layers have different selected heads; select the same heads in each layer")
        return array

    def _labels(self, number: int, component: str | None, array: Array) -> list[str]:
        tokens = self._tokens(number)
        labels = tokens.keys(component) if tokens else []
        return list(labels) if labels else [str(position) for position in range(array.shape[-1])]

    def __repr__(self) -> str:
        return (
            f"<attnctl.Results: tables {', '.join(self.tables) or 'none'}; tensors {', '.join(self.tensors) or 'none'}>"
        )

    def _repr_html_(self) -> str:
        from ._html import results_html

        return results_html(self)


def make_results(
    tables: Iterable[tuple[str, list[tuple[str, Any]]]],
    tensors: Iterable[tuple[str, Any]],
    inputs: Sequence[InputTokens] = (),
) -> Results:
    """Return the results of the extension module as Results."""
    return Results([Table(name, dict(columns)) for name, columns in tables], dict(tensors), inputs)
