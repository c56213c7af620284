"""The module computes what the command computes, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from support import SENTENCE

import attnctl

Command = Callable[..., str]


def same(a: np.ndarray, b: np.ndarray) -> bool:
    """Return whether two arrays have the same type, shape and bits."""
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


def check_tables(own: attnctl.Results, read: attnctl.Results) -> None:
    assert set(read.tables) >= set(own.tables)
    for name, table in own.tables.items():
        other = read.tables[name]
        assert table.columns == other.columns
        assert len(table) == len(other)
        for column in table.columns:
            a, b = table[column], other[column]
            if a.dtype == object:
                assert [x for x in a] == [x for x in b], (name, column)
            else:
                # A file does not tell 1 from 1.0, and CSV has no infinity.
                finite = np.isfinite(a)
                assert np.array_equal(a[finite].astype(np.float64), b[finite].astype(np.float64)), (name, column)


@pytest.mark.parametrize("heads", [None, ["0.1", "1.0", "1.2"]])
def test_analyze_equals_npz(model: attnctl.Model, command: Command, tmp_path: Path, heads: list[str] | None) -> None:
    include = ["patterns", "z", "metrics", "weights", "scores", "logits", "rollout", "map"]
    results = model.analyze([SENTENCE, "A second text."], include, heads=heads)
    words = ["--heads", ",".join(heads)] if heads else []
    command(
        "analyze",
        model.info.name,
        "--text",
        SENTENCE,
        "--text",
        "A second text.",
        "--include",
        ",".join(include),
        *words,
        "-o",
        tmp_path / "x.npz",
    )
    with np.load(tmp_path / "x.npz") as file:
        assert list(results.tensors) == file.files
        for name in file.files:
            assert same(results.tensors[name], file[name]), name
    assert results.tensors["pattern_1"].ndim == (3 if heads else 4)


def test_analyze_equals_csv_and_json(bert: attnctl.Model, command: Command, tmp_path: Path) -> None:
    include = ["metrics", "weights", "sinks", "contributions"]
    results = bert.analyze(SENTENCE, include)
    base = ["analyze", bert.info.name, "--text", SENTENCE, "--include", ",".join(include)]
    command(*base, "--format", "csv", "-o", tmp_path / "tables")
    check_tables(results, attnctl.read(tmp_path / "tables"))
    command(*base, "-o", tmp_path / "x.json")
    document = attnctl.read(tmp_path / "x.json")
    assert same(document.tables["heads"]["entropy"], results.tables["heads"]["entropy"])
    assert document.info["schema"] == "attnctl.analysis/2"
    assert document.inputs == results.inputs


def test_study_equals_command(model: attnctl.Model, command: Command, tmp_path: Path) -> None:
    corpus = Path("data/sentences.txt")
    results = model.study(corpus, seed=4)
    command("study", model.info.name, "--input", corpus, "--seed", "4", "--format", "csv", "-o", tmp_path / "tables")
    check_tables(results, attnctl.read(tmp_path / "tables"))
    texts = [line for line in corpus.read_text().splitlines() if line]
    same_texts = model.study(texts, batch_tokens=16, threads=1)
    command(
        "study", model.info.name, "--input", corpus, "--batch-tokens", "16", "--format", "csv", "-o", tmp_path / "texts"
    )
    check_tables(same_texts, attnctl.read(tmp_path / "texts"))


def check_each_table(own: attnctl.Results, command: Command, folder: Path, *words: str) -> None:
    for name in own.tables:
        command("compare", *words, "--table", name, "-o", folder / f"{name}.csv")
    check_tables(own, attnctl.read(folder))


def test_compare_equals_command(command: Command, tmp_path: Path) -> None:
    bert, llama = "data/tiny-bert", "data/tiny-llama"
    corpus = "data/sentences.txt"
    folders = [tmp_path / "weights", tmp_path / "both"]
    for folder in folders:
        folder.mkdir()
    check_each_table(attnctl.compare(bert, bert), command, folders[0], bert, bert)
    both = attnctl.compare(bert, llama, corpus, measures="metrics")
    check_each_table(both, command, folders[1], bert, llama, "--input", corpus, "--measures", "metrics")
    assert len(both.tables["differences"]) > 0


def test_patterns_of_files_are_tensors(bert: attnctl.Model, command: Command, tmp_path: Path) -> None:
    for heads in (["0.1", "0.3", "2.1", "2.3"], ["0.1", "2.0", "2.3"]):
        base = [
            "analyze",
            bert.info.name,
            "--text",
            SENTENCE,
            "--text",
            "A cat.",
            "--include",
            "patterns",
            "--heads",
            ",".join(heads),
        ]
        results = bert.analyze([SENTENCE, "A cat."], "patterns", heads=heads)
        command(*base, "--format", "csv", "-o", tmp_path / "tables")
        command(*base, "-o", tmp_path / "x.json")
        command(*base, "-o", tmp_path / "x.npz")
        for path in ("tables", "x.json", "x.npz"):
            read = attnctl.read(tmp_path / path)
            for name in ("pattern_0", "pattern_1", "layers", "heads"):
                assert same(read.tensors[name], results.tensors[name]), (path, name)
            assert [each.ids for each in read.inputs] == [each.ids for each in results.inputs]


def test_observer_equals_metric(model: attnctl.Model) -> None:
    inputs = [SENTENCE, "A second text."]
    sums: dict[tuple[int, int], float] = {}
    rows: dict[tuple[int, int], int] = {}

    def distance(panel: attnctl.Panel) -> None:
        queries = panel.first_row + np.arange(panel.weights.shape[0])
        keys = np.arange(panel.weights.shape[1])
        head = panel.layer, panel.head
        far = np.abs(queries[:, None] - keys)
        sums[head] = sums.get(head, 0.0) + float((panel.weights.astype(np.float64) * far).sum())
        rows[head] = rows.get(head, 0) + len(queries)

    model.run(inputs, distance)
    heads = model.analyze(inputs).tables["heads"]
    found = [sums[key] / rows[key] for key in zip(heads["layer"].tolist(), heads["head"].tolist())]
    assert np.abs(np.array(found) - heads["distance"]).max() < 1e-6
    assert rows == dict(zip(rows, heads["rows"].tolist()))
