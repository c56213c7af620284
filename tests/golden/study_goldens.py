"""Common parts of the scripts that make goldens of studies: the bundled models, the keys of a head, and the writer."""
import json
from pathlib import Path

import torch
import transformers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MODELS = {"tiny-bert": transformers.BertModel, "tiny-llama": transformers.LlamaModel}


def head_keys(layer, head):
    return {"layer": layer, "head": head, "name": f"{layer}.{head}"}


def write_goldens(prefix, make):
    """Writes study/PREFIXNAME.json with the result of make(NAME, lines) for every model over the corpus of
    make_study.py."""
    torch.set_num_threads(1)
    lines = (HERE / "study" / "corpus.txt").read_text().splitlines()
    for name in MODELS:
        write_golden(prefix + name, make(name, lines))


def write_golden(name, made):
    """Writes study/NAME.json: nine digits, one line per record of a head."""
    document = json.loads(json.dumps(made, default=float), parse_float=lambda number: float(f"{float(number):.9g}"))
    parts = [f'"{key}": ' + json.dumps(value).replace('}, {"layer"', '},\n{"layer"') for key, value in document.items()]
    (HERE / "study" / f"{name}.json").write_text("{" + ",\n".join(parts) + "}\n")
