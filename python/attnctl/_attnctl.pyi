from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

_Progress: TypeAlias = Callable[[str, int, int, str], object] | None
_Head: TypeAlias = tuple[int, int, int]
_Input: TypeAlias = tuple[str, str | None, Sequence[int], Sequence[int], Sequence[int], str, Sequence[int], str]
_Results: TypeAlias = tuple[list[tuple[str, list[tuple[str, Any]]]], list[tuple[str, Any]]]
_Layer: TypeAlias = tuple[int, int, int, int, int, int, bool, str]

def version() -> str: ...

class Model:
    @staticmethod
    def open(model: str, config: str | None) -> Model: ...
    def info(self) -> tuple[str, str, int, int, int | None, int, list[_Layer]]: ...
    def warnings(self) -> list[tuple[str, str, int]]: ...

class Tokenizer:
    @staticmethod
    def open(model: str) -> Tokenizer: ...
    def encode(self, text: str, pair: str | None) -> list[tuple[int, str, int, int, int, bool]]: ...
    def size(self) -> int: ...
    def id(self, piece: str) -> int | None: ...
    def piece(self, id: int) -> str | None: ...

class Batch:
    @staticmethod
    def make(model: Model, inputs: Sequence[_Input]) -> Batch: ...
    def sequences(self) -> list[tuple[str, list[int], list[str], list[int], list[str]]]: ...

def analyze(
    batch: Batch, include: Sequence[str], heads: Sequence[_Head], threads: int, progress: _Progress
) -> _Results: ...
def run(
    batch: Batch,
    observers: Sequence[Callable[[int, int, int, int, int, Any], object]],
    heads: Sequence[_Head],
    threads: int,
    progress: _Progress,
) -> None: ...
def study(
    model: Model,
    files: Sequence[str],
    inputs: Sequence[_Input],
    options: object,
    heads: Sequence[_Head],
    threads: int,
    progress: _Progress,
) -> _Results: ...
def compare(
    a: Model,
    b: Model,
    files: Sequence[str],
    inputs: Sequence[_Input],
    match: bool,
    options: object,
    heads: Sequence[_Head],
    threads: int,
    progress: _Progress,
) -> _Results: ...
