"""Progress of long runs, as a line of text that is overwritten. Works in terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeAlias

#: Receives the name of a step, the number of units done, their total (None: unknown) and the name of a unit.
ProgressFunction: TypeAlias = Callable[[str, int, "int | None", str], object]

_DELAY = 1.0  # seconds before the line is first shown


def _in_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")


class ProgressLine:
    """Shows the progress of one run on standard error."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._width = 0

    def __call__(self, step: str, done: int, total: int | None, unit: str) -> None:
        """Show the progress, if the run takes longer than a second."""
        if time.monotonic() - self._begun < _DELAY:
            return
        share = f"{100 * done // total} %  {done}/{total}" if total else str(done)
        line = f"{step}  {share} {unit}{'' if (total or done) == 1 else 's'}"
        sys.stderr.write("\r" + line.ljust(self._width))
        sys.stderr.flush()
        self._width = max(self._width, len(line))

    def end(self) -> None:
        """Remove the line."""
        if self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()


class Shown:
    """A context in which the progress of a run is shown; ``function`` is what the extension module calls."""

    def __init__(self, progress: bool | ProgressFunction | None) -> None:
        self._line: ProgressLine | None = None
        self.function: Callable[[str, int, int, str], object] | None = None
        if callable(progress):
            report = progress
            self.function = lambda step, done, total, unit: report(step, done, total or None, unit)
        elif progress or (progress is None and (_in_notebook() or sys.stderr.isatty())):
            line = self._line = ProgressLine()
            self.function = lambda step, done, total, unit: line(step, done, total or None, unit)

    def __enter__(self) -> Shown:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._line is not None:
            self._line.end()
