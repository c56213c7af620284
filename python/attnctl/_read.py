"""Reads the files that attnctl writes, and writes patterns for ``attnctl view``."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ._errors import FileError, InputError, UsageError
from ._results import InputTokens, Results, Table

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[Any]


def read(path: str | os.PathLike[str]) -> Results:
    """Read the results that attnctl wrote: a JSON document, an NPZ file, a CSV or TSV table, or a folder of tables.

    Columns get the types of their values: a column of numbers is float32 if each number is the shortest text of a
    float32, as attnctl writes it. The patterns of a JSON document or of patterns.csv become tensors "pattern_I". An
    NPZ file has tensors, and no tables. Raises FileError if the file cannot be read, and InputError if it is damaged.
    """
    from pathlib import Path

    place = Path(path)
    try:
        if place.is_dir():
            return _read_folder(place)
        if place.suffix == ".npz":
            return _read_npz(place)
        if place.suffix == ".json":
            return _read_json(place)
        if place.suffix in (".csv", ".tsv"):
            return _with_patterns([_read_table(place)], {})
    except OSError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{place}: cannot read the file: {error.strerror or error}") from error
    raise UsageError(f'{place}: unsupported extension "{place.suffix}"; need .json, .npz, .csv, .tsv or a folder')


# --- Columns


def _column(values: list[Any]) -> Any:
    """Return a column of Python values with the narrowest type that holds them; see Table."""
    import numpy as np

    known = [value for value in values if value is not None]
    if known and all(isinstance(value, bool) for value in known):
        return np.array(values) if len(known) == len(values) else values
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in known):
        return [np.array(value) if _is_numeric(value) else value for value in values]
    if known and len(known) == len(values) and all(isinstance(value, int) for value in known):
        return np.array(values, dtype=np.int64)
    wide = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    if any(isinstance(value, float) for value in known):
        with np.errstate(over="ignore"):
            narrow = wide.astype(np.float32)
        if all(value != value or float(str(short)) == value for value, short in zip(wide.tolist(), narrow)):
            return narrow
    return wide


def _is_numeric(value: Any) -> bool:
    """Return whether a value is a list of numbers, or of such lists."""
    if not isinstance(value, list) or not value:
        return False
    if isinstance(value[0], list):
        return all(isinstance(row, list) and len(row) == len(value[0]) and _is_numeric(row) for row in value)
    return all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in value)


# --- CSV


def _parse_cell(text: str) -> Any:
    if text == "":
        return None
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        pass
    # attnctl puts an apostrophe before texts that a spreadsheet would run.
    return text[1:] if len(text) > 2 and text[0] == "'" and text[1] in "=+-@\t\r\n'＝＋－＠" else text


#: Columns of texts, which may look like numbers.
_TEXTS = (
    *("name", "name_a", "name_b", "component", "input", "sequence_id", "text", "token", "query_token", "key_token"),
    *("from", "to", "role", "detail", "kind", "circuit", "measure", "metric", "key", "relation"),
)


def _read_table(path: Path) -> Table:
    import csv

    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
    if not rows:
        raise InputError(f"{path}: the table is empty; need a line with the names of columns")
    names, cells = rows[0], rows[1:]
    for number, row in enumerate(cells, 2):
        if len(row) != len(names):
            raise InputError(f"{path}: row {number} has {len(row)} cells, need {len(names)}, one per column")
    columns = {}
    for index, name in enumerate(names):
        texts = [row[index] for row in cells]
        if name in _TEXTS and not (name == "key" and "query" in names):
            columns[name] = [None if text == "" else _text_cell(text) for text in texts]
        else:
            columns[name] = _column([_parse_cell(text) for text in texts])
    return Table(path.stem, columns)


def _text_cell(text: str) -> str:
    return text[1:] if len(text) > 2 and text[0] == "'" and text[1] in "=+-@\t\r\n'＝＋－＠" else text


def _read_folder(folder: Path) -> Results:
    files = sorted(file for file in folder.iterdir() if file.suffix in (".csv", ".tsv"))
    if not files:
        raise FileError(f"{folder}: the folder has no .csv and no .tsv files; need a folder that attnctl wrote")
    return _with_patterns([_read_table(file) for file in files], {})


def _with_patterns(tables: list[Table], info: Mapping[str, Any]) -> Results:
    """Return results in which a table of patterns, with a row per weight, is also tensors."""
    import numpy as np

    named = {table.name: table for table in tables}
    inputs = _tokens_of_table(named["inputs"]) if "inputs" in named else []
    tensors: dict[str, Array] = {}
    table = named.get("patterns")
    if table is not None and "weight" in table.columns and table["weight"].dtype != object:
        order = [sequence.id for sequence in inputs] or list(dict.fromkeys(table["input"].tolist()))
        records = []
        starts = [0]
        key = list(zip(*(table[name].tolist() for name in ("input", "component", "layer", "head"))))
        starts += [row for row in range(1, len(key)) if key[row] != key[row - 1]]
        for begin, end in zip(starts, [*starts[1:], len(key)]):
            shape = int(table["query"][end - 1]) + 1, int(table["key"][end - 1]) + 1
            if shape[0] * shape[1] != end - begin:
                raise InputError(f"patterns: the pattern of head {key[begin][2:]} is not complete; write it again")
            weights = np.asarray(table["weight"][begin:end], dtype=np.float32).reshape(shape)
            records.append((*key[begin], weights))
        tensors = _pattern_tensors(records, order)
    return Results(tables, tensors, inputs, info)


def _tokens_of_table(table: Table) -> list[InputTokens]:
    inputs: dict[str, InputTokens] = {}
    columns = table.to_dict()
    sides = columns.get("side", [None] * len(table))
    for name, token, number, side in zip(columns["input"], columns["token"], columns["id"].tolist(), sides):
        tokens = inputs.setdefault(str(name), InputTokens(str(name), [], [], [], []))
        target = side == "target"
        (tokens.target_tokens if target else tokens.tokens).append("" if token is None else str(token))
        if number is not None and number == number:
            (tokens.target_ids if target else tokens.ids).append(int(number))
    for tokens in inputs.values():  # a model without vocabulary has ids only
        for strings in (tokens.tokens, tokens.target_tokens):
            if not any(strings):
                strings.clear()
    return list(inputs.values())


# --- JSON


def _pattern_tensors(records: Sequence[tuple[Any, ...]], order: Sequence[str]) -> dict[str, Array]:
    """Return the tensors of patterns (input, component, layer, head, weights), as attnctl names them in NPZ."""
    import numpy as np

    tensors: dict[str, Array] = {}
    for component in dict.fromkeys(record[1] for record in records):
        prefix = f"{component}_" if component else ""
        own = [record for record in records if record[1] == component]
        pairs = sorted({(int(layer), int(head)) for _, _, layer, head, _ in own})
        layers = sorted({layer for layer, _ in pairs})
        heads = sorted({head for _, head in pairs})
        regular = len(pairs) == len(layers) * len(heads)
        tensors[f"{prefix}layers"] = np.array(layers, dtype=np.int64)
        tensors[f"{prefix}heads"] = np.array(heads if regular else pairs, dtype=np.int64)
        for name in dict.fromkeys(record[0] for record in own):
            found = {(int(layer), int(head)): weights for i, _, layer, head, weights in own if i == name}
            if sorted(found) != pairs:
                raise InputError(f'patterns: input "{name}" lacks patterns of some heads; write the file again')
            array = np.stack([found[pair] for pair in pairs])
            if regular:
                array = array.reshape(len(layers), len(heads), *array.shape[1:])
            tensors[f"{prefix}pattern_{order.index(name)}"] = array
    return tensors


def _read_json(path: Path) -> Results:
    import json

    import numpy as np

    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("attnctl."):
        raise InputError(f'{path}: need a document of attnctl with the key "schema", such as that of attnctl analyze')
    tables, info, inputs = [], {}, []
    tensors: dict[str, Array] = {}
    for name, value in document.items():
        records = value if isinstance(value, list) else []
        if not records or not all(isinstance(record, dict) for record in records):
            info[name] = value
        elif name == "inputs":
            inputs = [_tokens_of_record(record) for record in records]
        elif name == "patterns":
            order = [each.id for each in inputs] or list(dict.fromkeys(record["input"] for record in records))
            found = []
            for record in records:
                weights = np.array(record["weight"], dtype=np.float32)  # null becomes NaN
                found.append((record["input"], record["component"], record["layer"], record["head"], weights))
            tensors.update(_pattern_tensors(found, order))
        else:
            names = list(dict.fromkeys(key for record in records for key in record))
            columns = {key: [record.get(key) for record in records] for key in names}
            undefined = {key for key in names if key in _TEXTS and not any(columns[key])}
            made = {key: values if key in undefined else _column(values) for key, values in columns.items()}
            tables.append(Table(name, made))
    return Results(tables, tensors, inputs, info)


def _tokens_of_record(record: Mapping[str, Any]) -> InputTokens:
    target = record.get("target") or {}
    target = target if isinstance(target, dict) else {}
    return InputTokens(
        str(record.get("id", "")),
        list(record.get("ids") or []),
        list(record.get("tokens") or []),
        list(target.get("ids") or record.get("target_ids") or []),
        list(target.get("tokens") or record.get("target_tokens") or []),
    )


# --- NPZ


def _read_npz(path: Path) -> Results:
    import zipfile

    import numpy as np

    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not an NPZ file of numbers and texts: {error}") from error
    inputs: list[InputTokens] = []
    while any(f"{name}_{len(inputs)}" in arrays for name in ("ids", "tokens", "target_ids")):
        number = len(inputs)
        tokens = arrays.pop(f"tokens_{number}", np.array([], dtype=str)).tolist()
        ids = arrays.get(f"ids_{number}", np.array([], dtype=np.int64)).tolist()
        target_ids = arrays.get(f"target_ids_{number}", np.array([], dtype=np.int64)).tolist()
        inputs.append(InputTokens(str(number), ids, [str(token) for token in tokens], target_ids, []))
    return Results([], arrays, inputs)


def save_patterns(
    path: str | os.PathLike[str],
    patterns: Any,
    tokens: Sequence[str] | Sequence[Sequence[str]] = (),
    special_tokens_mask: Any = None,
) -> None:
    """Write attention patterns of any origin to an NPZ file that ``attnctl view`` and :func:`read` read.

    ``patterns`` is an array [layers, heads, queries, keys], [heads, queries, keys] or [queries, keys] of one input, or
    a list of such arrays, one per input: anything that ``numpy.asarray`` takes, also tensors of torch and JAX. A list
    of arrays [1, heads, queries, keys], as Hugging Face returns, is a list of layers of one input. ``tokens`` are the
    strings of one input, or a list of them per input, and ``special_tokens_mask`` 1 where a token is special. Weights
    must be at least 0.
    """
    import numpy as np

    arrays = _pattern_arrays(patterns)
    lists: list[Sequence[str]] = []
    if len(tokens) > 0:
        lists = [tokens] if isinstance(tokens[0], str) else list(tokens)  # type: ignore[list-item]
        if len(lists) != len(arrays):
            raise UsageError(f"tokens: got those of {len(lists)} inputs, need {len(arrays)}, one list per input")
    content: dict[str, Array] = {}
    layers, heads = arrays[0].shape[:2]
    content["layers"] = np.arange(layers, dtype=np.int64)
    content["heads"] = np.arange(heads, dtype=np.int64)
    for number, array in enumerate(arrays):
        if array.shape[:2] != (layers, heads):
            raise UsageError(
                f"patterns: input {number} has {array.shape[0]} layers x {array.shape[1]} heads, need "
                f"{layers} x {heads} as in input 0"
            )
        if np.nanmin(array, initial=0.0) < 0:
            raise UsageError(f"patterns: input {number} has a negative weight; need weights after the softmax")
        content[f"pattern_{number}"] = array
        if lists:
            if len(lists[number]) != array.shape[-2]:
                raise UsageError(
                    f"tokens: input {number} has {len(lists[number])} tokens, need {array.shape[-2]}, one per query"
                )
            content[f"tokens_{number}"] = np.array([str(token) for token in lists[number]])
    if special_tokens_mask is not None:
        masks: Iterable[Any] = [special_tokens_mask] if np.ndim(special_tokens_mask) == 1 else special_tokens_mask
        for number, mask in enumerate(masks):
            content[f"special_tokens_mask_{number}"] = np.asarray(mask, dtype=np.int8)
    with open(path, "wb") as file:
        np.savez(file, **content)  # type: ignore[arg-type]


def _pattern_arrays(patterns: Any) -> list[Array]:
    """Return float32 arrays [layers, heads, queries, keys], one per input."""
    import numpy as np

    def as_array(value: Any) -> Array:
        value = value.detach() if hasattr(value, "detach") else value
        return np.asarray(value, dtype=np.float32)

    if isinstance(patterns, (list, tuple)):
        items = [as_array(each) for each in patterns]
        if items and all(item.ndim == 4 and item.shape[0] == 1 for item in items) and len(items) > 1:
            items = [np.concatenate(items)]
    else:
        items = [as_array(patterns)]
    if not items:
        raise UsageError("patterns: the list is empty; give at least one array")
    made = []
    for item in items:
        if item.ndim not in (2, 3, 4):
            raise UsageError(
                f"patterns: got an array of {item.ndim} axes, need [layers, heads, queries, keys] of one input"
            )
        made.append(item.reshape((1,) * (4 - item.ndim) + item.shape))
    return made
