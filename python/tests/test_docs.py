"""Runs the examples of docs/python.md and compares what they print."""

from __future__ import annotations

import doctest
import importlib.util
import os
import re
import sysconfig
from pathlib import Path

import pytest
from support import ROOT

#: Packages that an example may need; it is skipped without them.
OPTIONAL = ("pandas", "pyarrow", "xarray", "polars", "duckdb", "seaborn", "torch")


def test_examples_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setenv("PATH", sysconfig.get_path("scripts"), prepend=os.pathsep)
    os.symlink(ROOT / "data", tmp_path / "data")
    text = (ROOT / "docs/python.md").read_text(encoding="utf-8")
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    shared: dict[str, object] = {}
    examples = 0
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        code = block.group(1)
        assert ">>> " in code, f"a block of the page is not an example:\n{code}"
        missing = [name for name in OPTIONAL if name in code and importlib.util.find_spec(name) is None]
        if missing:
            continue
        line = text.count("\n", 0, block.start()) + 1
        test = doctest.DocTestParser().get_doctest(code, shared, "docs/python.md", "docs/python.md", line)
        test.globs = shared
        examples += len(test.examples)
        runner.run(test, clear_globs=False)
    assert runner.summarize(verbose=False).failed == 0
    assert examples >= 20


def test_example_of_the_package() -> None:
    import attnctl

    assert doctest.testmod(attnctl).failed == 0
    assert doctest.testmod(attnctl).attempted >= 3
