"""Results: tables, tensors, other packages, notebooks and files of patterns."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
from support import ROOT, SENTENCE

import attnctl


@pytest.fixture(scope="module")
def results(bert: attnctl.Model) -> attnctl.Results:
    return bert.analyze([SENTENCE, "A cat."], ["metrics", "patterns", "weights", "z", "sinks"])


def test_columns_have_types(results: attnctl.Results) -> None:
    heads = results.tables["heads"]
    assert heads["layer"].dtype == np.int64
    assert heads["entropy"].dtype == np.float32
    assert heads["name"].dtype == object
    assert heads["name"][5] == "1.1"
    assert heads["component"].tolist() == [None] * 12 or np.isnan(heads["component"]).all()
    assert results.tables["sinks"]["sink"].dtype == bool
    assert len(heads) == 12
    assert heads.rows()[0]["head"] == 0


def test_pandas(results: attnctl.Results) -> None:
    pandas = pytest.importorskip("pandas")
    frame = results.tables["heads"].to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.groupby("layer")["entropy"].mean().shape == (3,)


def test_arrow(results: attnctl.Results) -> None:
    pytest.importorskip("pyarrow")
    table = results.tables["heads"].to_arrow()
    assert table.num_rows == 12
    assert str(table.schema.field("entropy").type) == "float"
    assert table["component"].null_count == 12


def test_xarray(results: attnctl.Results) -> None:
    pytest.importorskip("xarray")
    pattern = results.to_xarray("pattern_0")
    assert pattern.dims == ("layer", "head", "query", "key")
    assert pattern.coords["key_token"].values[0] == "[CLS]"
    assert np.shares_memory(pattern.values, results.tensors["pattern_0"])
    assert results.to_xarray("entropy").sel(layer=2, head=1) == results.tensors["entropy"][2, 1]
    assert results.dims("qk_similarity") == ("layer", "head", "head_b")


def test_selected_heads_have_an_axis(bert: attnctl.Model) -> None:
    pytest.importorskip("xarray")
    results = bert.analyze(SENTENCE, ["patterns", "z"], heads=["0.1", "1.0", (2, 3)])
    array = results.to_xarray("pattern_0")
    assert array.dims == ("selected", "query", "key")
    assert array.coords["selected"].values.tolist() == ["0.1", "1.0", "2.3"]
    assert results.pattern(2, 3).name == "2.3"
    assert np.array_equal(results.pattern(2, 3), results.tensors["pattern_0"][2])


def test_pictures(results: attnctl.Results, bert: attnctl.Model) -> None:
    assert results.pattern("2.3").name == "2.3"
    assert np.array_equal(results.pattern("2.3").weights, results.pattern(2, 3).weights)
    with pytest.raises(attnctl.UsageError, match="head is missing"):
        results.pattern(2)
    with pytest.raises(attnctl.UsageError, match='got "2"'):
        results.pattern("2")
    pattern = results.pattern(0, 3, input=1)
    assert pattern.weights.shape == (5, 5)
    assert pattern.query_tokens == ["[CLS]", "a", "cat", ".", "[SEP]"]
    root = ElementTree.fromstring(pattern.to_svg())
    texts = [element.text for element in root.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("cat") == 2
    large = bert.analyze([list(range(5, 105))], "patterns").pattern(0, 0)
    ElementTree.fromstring(large.to_svg())
    page = results._repr_html_()
    assert "<caption>heads</caption>" in page
    assert page.count("<svg") == 2
    ElementTree.fromstring(f"<div>{page}</div>")


def test_html_escapes() -> None:
    bad = "<script>&\"'"
    table = attnctl.Table(bad, {bad: [bad, None], "number": np.array([1.5, np.nan])})
    pattern = attnctl.Pattern(bad, np.eye(2, dtype=np.float32), [bad, "b"], ["a", bad])
    tensors = {bad: np.zeros((2, 2), dtype=np.float32)}
    for page in (table._repr_html_(), pattern._repr_html_(), attnctl.Results([table], tensors)._repr_html_()):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        ElementTree.fromstring(f"<div>{page}</div>")


def test_circuitsvis_and_bertviz(results: attnctl.Results) -> None:
    arguments = results.to_circuitsvis(layer=1, input=1)
    assert arguments["tokens"] == ["[CLS]", "a", "cat", ".", "[SEP]"]
    assert np.array_equal(arguments["attention"], results.tensors["pattern_1"][1])
    layers = results.to_bertviz(input=1)
    assert [layer.shape for layer in layers["attention"]] == [(1, 4, 5, 5)] * 3
    assert np.array_equal(layers["attention"][2][0], results.tensors["pattern_1"][2])
    with pytest.raises(attnctl.UsageError, match="layer 7"):
        results.to_circuitsvis(layer=7)


def test_saved_patterns_can_be_read(results: attnctl.Results, tmp_path: Path) -> None:
    patterns = [results.tensors["pattern_0"], results.tensors["pattern_1"]]
    tokens = [each.tokens for each in results.inputs]
    attnctl.save_patterns(tmp_path / "x.npz", patterns, tokens)
    read = attnctl.read(tmp_path / "x.npz")
    assert np.array_equal(read.tensors["pattern_1"], patterns[1])
    assert [each.tokens for each in read.inputs] == tokens
    assert read.pattern(1, 2).key_tokens == tokens[0]
    # As Hugging Face returns them: one array [1, heads, queries, keys] per layer.
    attnctl.save_patterns(tmp_path / "y.npz", [layer[None] for layer in patterns[1]], tokens[1])
    again = attnctl.read(tmp_path / "y.npz")
    assert np.array_equal(again.tensors["pattern_0"], patterns[1])
    assert again.inputs[0].tokens == tokens[1]
    for wrong, words in [
        ((patterns, tokens[:1]), "need 2"),
        ((patterns[0], ["a"]), "1 tokens, need 16"),
        ((-patterns[0],), "negative"),
        ((patterns[0][0, 0, 0],), "1 axes"),
        (([],), "empty"),
    ]:
        with pytest.raises(attnctl.UsageError, match=words):
            attnctl.save_patterns(tmp_path / "z.npz", *wrong)


def test_readme_names_the_page() -> None:
    assert "docs/python.md" in (ROOT / "README.md").read_text(encoding="utf-8")
