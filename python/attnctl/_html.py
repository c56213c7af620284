"""HTML and SVG for notebooks. All texts are escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._results import Pattern, Results, Table

_MOST_ROWS = 20
_MOST_TOKENS = 64  # a larger pattern is drawn without labels
_MOST_CELLS = 128  # per side; a larger pattern is shown by the mean of blocks
_MOST_PATTERNS = 24
_MOST_WEIGHTS = 50_000  # of the patterns of one input


def _cell(value: Any) -> str:
    if value is None or (isinstance(value, float) and value != value):
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    return escape(str(value))


def table_html(table: Table) -> str:
    """Return the first rows of a table."""
    shown = {name: table[name][:_MOST_ROWS].tolist() for name in table.columns}
    used = {name: values for name, values in shown.items() if any(_cell(value) != "-" for value in values)}
    head = "".join(f"<th>{escape(name)}</th>" for name in used)
    rows = "".join(
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row) + "</tr>" for row in zip(*used.values())
    )
    rest = f"<p>{len(table) - _MOST_ROWS} more rows</p>" if len(table) > _MOST_ROWS else ""
    return (
        f"<table><caption>{escape(table.name)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table>{rest}"
    )


def _reduced(weights: Any) -> Any:
    """Return a matrix of at most _MOST_CELLS rows and columns: the means of blocks."""
    import numpy as np

    for axis in (0, 1):
        size = -(-weights.shape[axis] // _MOST_CELLS)
        if size > 1:
            starts = np.arange(0, weights.shape[axis], size)
            counts = np.diff(np.append(starts, weights.shape[axis]))
            sums = np.add.reduceat(weights, starts, axis=axis)
            weights = sums / (counts[:, None] if axis == 0 else counts)
    return weights


def _color(weight: float) -> str:
    """Return the colour of a weight from 0 (white) to 1 (dark blue); grey if it is undefined."""
    if weight != weight:
        return "#bbb"
    share = min(max(weight, 0.0), 1.0)
    low, high = (255, 255, 255), (8, 48, 107)
    return "#" + "".join(f"{round(a + (b - a) * share):02x}" for a, b in zip(low, high))


def _cells(weights: Any, size: float, left: float, top: float) -> str:
    parts = []
    for y, row in enumerate(weights.tolist()):
        for x, weight in enumerate(row):
            color = _color(weight)
            if color != "#ffffff":
                parts.append(
                    f'<rect x="{left + x * size:g}" y="{top + y * size:g}" width="{size:g}" height="{size:g}" '
                    f'fill="{color}"><title>{weight:.3f}</title></rect>'
                )
    return "".join(parts)


def pattern_svg(pattern: Pattern) -> str:
    """Return a heat map with the tokens of queries at the left and of keys at the top."""
    weights = _reduced(pattern.weights)
    rows, columns = weights.shape
    labelled = (
        max(rows, columns) <= _MOST_TOKENS and len(pattern.query_tokens) == rows and len(pattern.key_tokens) == columns
    )
    size = 14.0 if labelled else max(2.0, 320 / max(rows, columns))
    longest = max((len(token) for token in (*pattern.query_tokens, *pattern.key_tokens)), default=0)
    margin = 8 + 7.0 * min(longest, 20) if labelled else 8.0
    left, top = margin, margin + 20
    width, height = left + columns * size + 8, top + rows * size + 8
    texts = [f'<text x="{left:g}" y="14" font-weight="bold">Head {escape(pattern.name)}</text>']
    if labelled:
        for y, token in enumerate(pattern.query_tokens):
            place = top + (y + 0.75) * size
            texts.append(f'<text x="{left - 4:g}" y="{place:g}" text-anchor="end">{escape(token[:20])}</text>')
        for x, token in enumerate(pattern.key_tokens):
            at = f"{left + (x + 0.75) * size:g} {top - 4:g}"
            texts.append(f'<text transform="translate({at}) rotate(-90)">{escape(token[:20])}</text>')
    frame = (
        f'<rect x="{left:g}" y="{top:g}" width="{columns * size:g}" height="{rows * size:g}" fill="none" '
        'stroke="#888"/>'
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        'font-family="sans-serif" font-size="11" role="img" '
        f'aria-label="attention pattern of head {escape(pattern.name)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{_cells(weights, size, left, top)}{frame}'
        f"{''.join(texts)}</svg>"
    )


def _grid_svg(name: str, array: Any, names: list[str]) -> str:
    """Return small heat maps of the heads of a tensor of patterns, a row per layer."""
    size, title = 72.0, 14.0
    layers = array if array.ndim == 4 else array[None]
    shown = iter(names)
    parts = []
    for y, heads in enumerate(layers):
        for x, weights in enumerate(heads):
            small = _reduced(weights)
            cell = size / max(small.shape)
            left, top = x * (size + 6), y * (size + 6 + title) + title
            parts.append(f'<text x="{left:g}" y="{top - 3:g}">{escape(next(shown))}</text>')
            parts.append(_cells(small, cell, left, top))
            parts.append(
                f'<rect x="{left:g}" y="{top:g}" width="{small.shape[1] * cell:g}" '
                f'height="{small.shape[0] * cell:g}" fill="none" stroke="#888"/>'
            )
    width, height = layers.shape[1] * (size + 6), layers.shape[0] * (size + 6 + title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" role="img" '
        f'font-family="sans-serif" font-size="10" aria-label="{escape(name)}">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>'
    )


def results_html(results: Results) -> str:
    """Return the patterns, if there are only a few and they are small, the names of the tensors, and the tables."""
    parts = []
    for name, array in results.tensors.items():
        drawn = "pattern_" in name and array.ndim in (3, 4) and 0 < array.size <= _MOST_WEIGHTS
        if drawn and array[..., 0, 0].size <= _MOST_PATTERNS:
            picture = _grid_svg(name, array, results._names(name))
            parts.append(f"<figure>{picture}<figcaption>{escape(name)}</figcaption></figure>")
    if results.tensors:
        rows = "".join(
            f"<tr><td>{escape(name)}</td><td>{escape(str(list(array.shape)))}</td>"
            f"<td>{escape(', '.join(results.dims(name)))}</td><td>{escape(str(array.dtype))}</td></tr>"
            for name, array in results.tensors.items()
        )
        parts.append(f"<table><caption>tensors</caption><tbody>{rows}</tbody></table>")
    parts.extend(table_html(table) for table in results.tables.values())
    return "".join(parts)
