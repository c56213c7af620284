"""Arguments, errors, threads, processes and interrupts."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import typing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import ROOT, SENTENCE

import attnctl


def test_inputs(bert: attnctl.Model) -> None:
    ids = bert.tokens("A cat.")[0].ids
    forms: list[Any] = [
        ids,
        np.array(ids),
        tuple(ids),
        attnctl.Input(ids=ids),
        [ids],
        np.array([ids]),
        attnctl.Input(text="A cat."),
        "A cat.",
        ["A cat."],
    ]
    for form in forms:
        assert [each.ids for each in bert.tokens(form)] == [ids]
    assert [len(each.ids) for each in bert.tokens(["A cat.", ids, attnctl.Input(ids=[5, 6], id="x")])] == [5, 5, 2]
    pair = bert.tokens(attnctl.Input("A cat.", "A dog."))[0]
    assert pair.tokens.count("[SEP]") == 2
    masked = bert.analyze(attnctl.Input(ids=ids, mask=[1, 1, 0, 1, 1]), "patterns").tensors["pattern_0"]
    assert (masked[..., 2] == 0).all()


def test_model(bert: attnctl.Model) -> None:
    assert bert.info.family == "bert"
    assert bert.info.parameters == 1024768
    assert [layer.heads for layer in bert.layers] == [4, 4, 4]
    assert bert.layers[0].component is None
    assert bert.warnings == []
    tokens = bert.tokenizer.encode("The animal", "didn't")
    assert [token.piece for token in tokens][:3] == ["[CLS]", "the", "animal"]
    assert (tokens[2].begin, tokens[2].end, tokens[4].type) == (4, 10, 1)
    assert len(bert.tokenizer) == 3072
    assert bert.tokenizer.piece(bert.tokenizer.id("animal") or 0) == "animal"
    assert bert.tokenizer.id("no such piece") is None


def test_encoder_decoder() -> None:
    model = attnctl.load(ROOT / "tests/golden/t5")
    given = attnctl.Input(ids=[1, 2, 3], target_ids=[0, 4])
    results = model.analyze(given, "patterns", heads=["enc.1.2", "cross.0.1"])
    assert results.tensors["cross_pattern_0"].shape == (1, 1, 2, 3)
    assert model.layers[0].component == "enc"
    seen = set()
    model.run(given, lambda panel: seen.add((panel.component, panel.layer, panel.head)), heads=["cross.0.1"])
    assert seen == {("cross", 0, 1)}


@pytest.mark.parametrize(
    ("call", "error", "status", "words"),
    [
        (lambda model: attnctl.load("no-such-model"), attnctl.FileError, 4, "no-such-model"),
        (lambda model: attnctl.load("no-such-model"), OSError, 4, "no-such-model"),
        (lambda model: model.analyze([1, 99999]), attnctl.InputError, 3, "99999"),
        (lambda model: model.analyze("A cat.", "entropy"), attnctl.UsageError, 2, '"entropy"'),
        (lambda model: model.analyze("A cat.", "entropy"), ValueError, 2, '"entropy"'),
        (lambda model: model.analyze("A cat.", heads=["9.0"]), attnctl.UsageError, 2, "9.0"),
        (lambda model: model.analyze("A cat.", heads=["x"]), attnctl.UsageError, 2, '"x"'),
        (lambda model: model.analyze([]), attnctl.UsageError, 2, "empty"),
        (lambda model: model.analyze(3.5), attnctl.UsageError, 2, "float"),
        (lambda model: model.analyze(attnctl.Input()), attnctl.UsageError, 2, "text and ids"),
        (lambda model: model.analyze([2**70]), attnctl.UsageError, 2, "64 bits"),
        (lambda model: model.analyze("\ud800"), attnctl.InputError, 3, "Unicode"),
        (lambda model: model.analyze("A cat.", threads=0), attnctl.UsageError, 2, "threads: got 0"),
        (lambda model: model.study(["A cat."], max_length=-1), attnctl.UsageError, 2, "max_length: got -1"),
        (lambda model: model.study(["A cat."], stride=0), attnctl.UsageError, 2, "stride: got 0"),
        (lambda model: model.study(3), attnctl.UsageError, 2, "corpus is int"),
        (lambda model: model.study([]), attnctl.UsageError, 2, "no inputs"),
        (lambda model: model.analyze("A cat.").tables["tails"], KeyError, 2, "heads"),
        (lambda model: model.analyze("A cat.").tables["heads"]["colour"], KeyError, 2, "entropy"),
        (lambda model: model.analyze("A cat.").pattern(0, 1), attnctl.UsageError, 2, "pattern_0"),
        (lambda model: model.run("A cat.", 3), attnctl.UsageError, 2, "observer"),
        (lambda model: model.study("no-such.txt"), attnctl.FileError, 4, "no-such.txt"),
        (lambda model: model.study(["A cat.", [1, 99999]]), attnctl.InputError, 3, "inputs: line 2"),
        (lambda model: model.study(["A cat."], "entropy"), attnctl.UsageError, 2, "entropy"),
        (lambda model: attnctl.compare(model, model, []), attnctl.UsageError, 2, "empty"),
        (lambda model: attnctl.read("README.md"), attnctl.UsageError, 2, ".json"),
        (lambda model: attnctl.read("no-such.json"), attnctl.FileError, 4, "no-such.json"),
        (lambda model: attnctl.read("pyproject.toml/x.json"), attnctl.FileError, 4, "x.json"),
    ],
)
def test_errors(bert: attnctl.Model, call: Any, error: type[Exception], status: int, words: str) -> None:
    with pytest.raises(error) as caught:
        call(bert)
    assert isinstance(caught.value, attnctl.Error)
    assert caught.value.status == status
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_errors_have_the_message_of_the_command(bert: attnctl.Model) -> None:
    done = subprocess.run(
        [Path(sys.executable).parent / "attnctl", "info", "no-such-model"], capture_output=True, text=True, check=False
    )
    with pytest.raises(attnctl.Error) as caught:
        attnctl.load("no-such-model")
    assert done.returncode == caught.value.status
    assert done.stderr == f"attnctl: {caught.value}\n"


def test_damaged_files_are_errors(tmp_path: Path) -> None:
    for name, content in [
        ("x.json", b"{"),
        ("y.json", b"[1]"),
        ("z.json", b'{"schema": "other/1"}'),
        ("x.npz", b"PK"),
        ("x.csv", b""),
        ("y.csv", b"a,b\r\n1\r\n"),
    ]:
        (tmp_path / name).write_bytes(content)
        with pytest.raises(attnctl.InputError, match=name):
            attnctl.read(tmp_path / name)


def test_observers(bert: attnctl.Model) -> None:
    class Counter:
        def __init__(self) -> None:
            self.rows = 0
            self.begun: tuple[attnctl.InputTokens, ...] = ()

        def begin(self, inputs: tuple[attnctl.InputTokens, ...]) -> None:
            self.begun = inputs

        def panel(self, panel: attnctl.Panel) -> None:
            self.rows += panel.weights.shape[0]
            assert not panel.weights.flags.writeable
            assert np.allclose(panel.weights.sum(axis=1), 1, atol=1e-5)

    counter, whole = Counter(), {}
    bert.run(SENTENCE, counter, lambda panel: whole.update({(panel.layer, panel.head): panel.weights.copy()}))
    assert counter.rows == 12 * 16
    assert counter.begun[0].tokens[0] == "[CLS]"
    pattern = bert.analyze(SENTENCE, "patterns").tensors["pattern_0"]
    assert all(np.array_equal(whole[key], pattern[key]) for key in whole)


@pytest.mark.parametrize("threads", [1, 2])
def test_an_exception_of_an_observer_ends_the_run(bert: attnctl.Model, threads: int) -> None:
    def fail(panel: attnctl.Panel) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        bert.run(SENTENCE, fail, threads=threads)


def test_keeping_a_view_is_an_error(bert: attnctl.Model) -> None:
    kept: list[Any] = []
    for keep in (lambda panel: panel, lambda panel: panel.weights, lambda panel: panel.weights[1:]):
        with pytest.raises(attnctl.UsageError, match=r"panel\.weights\.copy\(\)"):
            bert.run(SENTENCE, lambda panel, keep=keep: kept.append(keep(panel)))
        kept.clear()


def test_progress(bert: attnctl.Model, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[str, int, int | None, str]] = []
    bert.study([SENTENCE] * 2000, "metrics", progress=lambda *state: seen.append(state))
    assert seen
    assert {unit for *_, unit in seen} == {"byte"}
    assert all(total is None or 0 <= done <= total for _, done, total, _ in seen)
    bert.analyze(SENTENCE)
    assert capsys.readouterr().err == ""

    def fail(*state: object) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        bert.study([SENTENCE] * 2000, "metrics", progress=fail)


def test_progress_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from attnctl import _progress

    monkeypatch.setattr(_progress, "_DELAY", 0.0)
    with _progress.Shown(True) as shown:
        assert shown.function is not None
        shown.function("study", 10, 40, "byte")
        shown.function("match", 3, 0, "block")
    assert capsys.readouterr().err == "\rstudy  25 %  10/40 bytes\rmatch  3 blocks         \r" + " " * 24 + "\r"


def test_interrupt(bert: attnctl.Model) -> None:
    """A signal ends a long run within a moment, and the process can go on."""
    texts = [SENTENCE] * 30000
    state: dict[str, float] = {}

    def interrupt() -> None:
        time.sleep(0.5)
        state["sent"] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore SIGINT
    sender = threading.Thread(target=interrupt)
    sender.start()
    with pytest.raises(KeyboardInterrupt):
        bert.study(texts, progress=False)
    passed = time.monotonic() - state["sent"]
    sender.join()
    signal.signal(signal.SIGINT, before)
    assert passed < 5  # usually a tenth of a second
    assert len(bert.analyze(SENTENCE).tables["heads"]) == 12


def test_threads(bert: attnctl.Model) -> None:
    want = bert.analyze(SENTENCE, "patterns", threads=1).tensors["pattern_0"].tobytes()
    failures: list[str] = []

    def work() -> None:
        for _ in range(20):
            if bert.analyze(SENTENCE, "patterns", threads=1).tensors["pattern_0"].tobytes() != want:
                failures.append("another pattern")
            bert.run("A cat.", lambda panel: None, threads=2)
            bert.study(["A cat.", "A dog."], "metrics")

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert failures == []


def _entropy(model: attnctl.Model) -> bytes:
    return model.analyze(SENTENCE).tables["heads"]["entropy"].tobytes()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_fork(bert: attnctl.Model) -> None:
    want = _entropy(bert)
    child = os.fork()
    if child == 0:
        os._exit(0 if _entropy(bert) == want else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(bert: attnctl.Model, method: str) -> None:
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.map(_entropy, [bert] * 4) == [_entropy(bert)] * 4


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_fork_during_a_run_is_refused(bert: attnctl.Model) -> None:
    """In a process that was forked by an observer, calls are errors and do not hang."""
    statuses: list[int] = []

    def fork(panel: attnctl.Panel) -> None:
        if statuses:
            return
        child = os.fork()
        if child == 0:
            try:
                bert.analyze("A cat.")
            except attnctl.FileError as error:
                os._exit(0 if "forked" in str(error) and "spawn" in str(error) else 1)
            os._exit(2)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))

    bert.run(SENTENCE, fork, threads=1)
    assert statuses == [0]
    assert len(bert.analyze(SENTENCE).tables["heads"]) == 12


def test_pickle(bert: attnctl.Model) -> None:
    assert _entropy(pickle.loads(pickle.dumps(bert))) == _entropy(bert)


def test_results_outlive_their_model() -> None:
    array = attnctl.load("data/tiny-bert").analyze(SENTENCE, "patterns").tensors["pattern_0"]
    assert array.base is not None  # the values of the library, without a copy
    assert np.allclose(array.sum(axis=-1), 1, atol=1e-5)


def test_environment_is_kept() -> None:
    """Other libraries of the process, such as torch, do not become single-threaded."""
    script = (
        "import ctypes, attnctl\n"
        "attnctl.load('data/tiny-bert').analyze('A cat.', ['metrics', 'weights'])\n"
        "libc = ctypes.CDLL(None); libc.getenv.restype = ctypes.c_char_p\n"
        "print(libc.getenv(b'OMP_NUM_THREADS'), libc.getenv(b'OPENBLAS_NUM_THREADS'))"
    )
    environment = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        env={**environment, "OMP_NUM_THREADS": "7"},
    )
    assert done.stdout == "b'7' None\n"


def test_import_is_light() -> None:
    script = "import sys, attnctl; print([name for name in ('numpy', 'torch', 'pandas') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_annotations_can_be_evaluated() -> None:
    for function in (attnctl.load, attnctl.compare, attnctl.Model.analyze, attnctl.Model.study, attnctl.Model.run):
        assert "return" in typing.get_type_hints(function)
