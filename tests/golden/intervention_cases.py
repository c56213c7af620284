"""Checkpoints and inputs of make_interventions.py."""
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import model_cases

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SHARED = ROOT.parent / "shared/models"  # models that are too large for the repository
STORED_NAMES = {"input_ids": "ids", "decoder_input_ids": "target_ids"}


@dataclass
class Checkpoint:
    """inputs and other_inputs: of model_reference.run, of the same lengths."""

    name: str
    directory: Path
    model_class: str
    inputs: dict
    other_inputs: dict


def random_ids(name: str, vocabulary: int, lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(zlib.crc32(f"interventions {name}".encode()))
    return [rng.integers(0, vocabulary, n) for n in lengths]


def pair_of_inputs(name: str, golden, vocabulary: int) -> tuple[dict, dict]:
    """Returns input 1 of a golden and the start of its input 2. A golden with one input: that one, and random ids; if
    input 2 is missing, random ids."""
    index = 1 if "ids_1" in golden else 0
    inputs, others = {}, {}
    for key, stored in STORED_NAMES.items():
        if f"{stored}_{index}" not in golden:
            continue
        ids = golden[f"{stored}_{index}"]
        other = golden[f"{stored}_2"] if "ids_2" in golden else random_ids(f"{name} {key}", vocabulary, [len(ids)])[0]
        n = min(len(ids), len(other))
        inputs[key], others[key] = ids[:n], other[:n]
    return inputs, others


def model_checkpoint(case: model_cases.ModelCase) -> Checkpoint:
    directory = HERE / case.name
    config = json.loads((directory / "config.json").read_text())
    vocabulary = case.vocabulary or config["vocab_size"]
    with np.load(directory / "golden.npz") as golden:
        inputs = pair_of_inputs(case.name, golden, vocabulary)
    return Checkpoint(case.name, directory, case.read_as or case.model, *inputs)


def trained_checkpoint(directory: Path) -> Checkpoint:
    """A trained model: the inputs of 17 and 64 tokens of its golden, or 12 random tokens."""
    config = json.loads((directory / "config.json").read_text())
    golden = HERE / "bundled" / f"{directory.name}.npz"
    if golden.exists():
        with np.load(golden) as arrays:
            inputs = pair_of_inputs(directory.name, arrays, config["vocab_size"])
    else:
        inputs = [{"input_ids": ids} for ids in random_ids(directory.name, config["vocab_size"], [12, 12])]
    return Checkpoint(directory.name, directory, config["architectures"][0], *inputs)


def has_logits(name: str) -> bool:
    file = HERE / name / "golden.npz"
    if not file.exists():
        return False
    with np.load(file) as golden:
        return any(array.startswith("logits") for array in golden)


def find_checkpoints() -> dict:
    """Returns name -> function that returns the checkpoint. Cases NAME-old only have other names and keys."""
    cases = [c for c in model_cases.CASES if not c.name.endswith("-old") and has_logits(c.name)]
    found = {case.name: lambda case=case: model_checkpoint(case) for case in cases}
    trained = [ROOT / "data/tiny-llama", ROOT / "data/tiny-bert", SHARED / "stories15M"]
    return found | {d.name: lambda d=d: trained_checkpoint(d) for d in trained if d.exists()}
