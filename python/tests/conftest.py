"""Paths and models for the tests. The package must be installed, with its command."""

from __future__ import annotations

import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support import ROOT

import attnctl


@pytest.fixture(autouse=True)
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run every test in the root of the project, so that models have the names of the documents."""
    monkeypatch.chdir(ROOT)


@pytest.fixture(params=["data/tiny-bert", "data/tiny-llama"])
def model(request: pytest.FixtureRequest) -> Iterator[attnctl.Model]:
    """Open each of the bundled models."""
    yield attnctl.load(ROOT / request.param)


@pytest.fixture(scope="session")
def bert() -> attnctl.Model:
    """Open a bundled model."""
    return attnctl.load(ROOT / "data/tiny-bert")


@pytest.fixture(scope="session")
def command() -> Callable[..., str]:
    """Run the command attnctl of this environment and return its output."""
    path = shutil.which("attnctl", path=sysconfig.get_path("scripts"))
    assert path is not None, "the wheel did not install the command attnctl"

    def run(*words: str | Path) -> str:
        done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
