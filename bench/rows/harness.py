"""Common parts of all tables: peers and attnctl as processes, alternating rounds, and the table."""
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

BENCH = Path(__file__).resolve().parents[1]
DATA = BENCH.parent / "data"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.txt", "special_tokens_map.json")


@dataclass
class Measure:
    ms: float
    mib: float | None = None


@dataclass
class Row:
    """A line of a table. The goal is a ratio to reach (`at least`)."""
    work: str
    peer: str
    theirs: str
    ours: str
    ratio: float | None = None
    goal: float | None = None
    their_mib: float | None = None
    our_mib: float | None = None
    verdict: str | None = None  # for goals that are not ratios
    wanted: str | None = None

    def cells(self) -> list[str]:
        ratio = f"{self.ratio:.2f}" if self.ratio is not None and self.ratio < 20 else shown(self.ratio)
        goal = self.wanted or (f">= {self.goal:g}" if self.goal is not None else "")
        return [self.work, self.peer, self.theirs, self.ours, ratio, goal, self.verdict or self.met(),
                shown(self.their_mib), shown(self.our_mib)]

    def met(self) -> str:
        if self.goal is None or self.ratio is None:
            return ""
        return "met" if self.ratio >= self.goal else f"{self.ratio / self.goal:.2f} of it"


HEADER = ["work", "peer", "peer's", "attnctl's", "ratio", "goal", "", "peer's MiB", "attnctl's MiB"]


def shown(number: float | None) -> str:
    return "" if number is None else f"{number:.0f}"


def in_ms(ms: float) -> str:
    return f"{ms:.1f} ms" if ms < 1000 else f"{ms:.0f} ms" if ms < 10000 else f"{ms / 1e3:.1f} s"


def table_of(rows: list[Row]) -> str:
    lines = [HEADER, ["---"] * len(HEADER), *(row.cells() for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def median_ms(measures: list[Measure]) -> float:
    return statistics.median(m.ms for m in measures)


def peak_mib(measures: list[Measure]) -> float | None:
    known = [m.mib for m in measures if m.mib is not None]
    return max(known) if known else None


def time_row(work: str, peer: str, theirs: list[Measure], ours: list[Measure], goal: float | None = None,
             show=in_ms) -> Row:
    """The ratio is the median over the rounds. Both times of a round come from the same state of the machine."""
    ratio = statistics.median(a.ms / b.ms for a, b in zip(theirs, ours))
    return Row(work, peer, show(median_ms(theirs)), show(median_ms(ours)), ratio, goal, peak_mib(theirs),
               peak_mib(ours))


def alternate(rounds: int, contenders: dict) -> dict[str, list[Measure]]:
    """Runs all tasks in each round, in alternating order, so that none is always first."""
    measures = {name: [] for name in contenders}
    for number in range(rounds):
        for name in list(contenders)[:: -1 if number % 2 else 1]:
            measures[name].append(contenders[name]())
    return measures


@dataclass
class Run:
    """Result of a child process: standard output, wall time and largest resident memory."""
    out: str
    ms: float
    mib: float


def run_measured(command: list, **options) -> Run:
    """Runs a command; raises if it fails."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        begin = time.perf_counter()
        child = subprocess.Popen([str(c) for c in command], stdout=out, stderr=errors, **options)
        _, status, usage = os.wait4(child.pid, 0)
        ms = (time.perf_counter() - begin) * 1e3
        child.returncode = os.waitstatus_to_exitcode(status)
        errors.seek(0)
        if child.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, command))}: {errors.read().decode(errors='replace')[-2000:]}")
        out.seek(0)
        return Run(out.read().decode(), ms, usage.ru_maxrss / 1024)


def process(command: list) -> Measure:
    """Measures a whole process from start to end."""
    run = run_measured(command)
    return Measure(run.ms, run.mib)


class Peer:
    """A program of bench/peers/ that answers requests (serve.py). `missing` names a missing Python module."""

    def __init__(self, python: str, script: str, *arguments):
        self.errors = tempfile.TemporaryFile()
        self.child = subprocess.Popen([python, BENCH / "peers" / script, *map(str, arguments)], text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors)
        first = self._read()
        self.missing: str | None = first.get("missing")
        self.name: str = first.get("name", "")

    def _read(self) -> dict:
        line = self.child.stdout.readline()
        if not line:
            self.errors.seek(0)
            raise SystemExit(f"{' '.join(map(str, self.child.args))}: "
                             f"{self.errors.read().decode(errors='replace')[-2000:]}")
        return json.loads(line)

    def ask(self, **request) -> dict:
        print(json.dumps(request), file=self.child.stdin, flush=True)
        return self._read()

    def measure(self, **request) -> Measure:
        return Measure(**self.ask(**request))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.stdin.close()
        self.child.wait()
        self.child.stdout.close()
        self.errors.close()


@dataclass
class Context:
    """The options of the run, and the models made so far."""
    attnctl: Path
    threads: int
    rounds: int
    quick: bool
    long: bool
    work: Path
    python: str
    lens_python: str
    tokenizer: Path
    study_model: Path | None = None
    treebank: Path | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def model(self, name: str) -> Path:
        """Makes the model when it is first requested."""
        path = self.work / name
        if not path.exists():
            run_measured([self.python, BENCH / "peers" / "make_models.py", self.work, name])
        return path

    def with_tokenizer(self, name: str) -> Path:
        model = self.model(name)
        for file in TOKENIZER_FILES:
            if (self.tokenizer / file).exists():
                shutil.copy(self.tokenizer / file, model / file)
        return model

    def peer(self, script: str, *arguments, python: str | None = None) -> Peer:
        return Peer(python or self.python, script, *arguments)

    def bench(self, model: Path, stage: str, *options, threads: int | None = None) -> Measure:
        """Runs one stage of `attnctl bench`. Returns the peak memory of the stage if bench reports it, otherwise that
        of the process."""
        command = [self.attnctl, "bench", model, "--stages", stage, "--threads", threads or self.threads,
                   "--quiet", "--format", "json", *options]
        row = next(row for row in json.loads(run_measured(command).out)["rows"] if row["stage"] == stage)
        return Measure(row["ms_median"], row.get("peak_mib"))
