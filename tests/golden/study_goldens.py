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
    make_study.py: nine digits, one line per record of a head."""
    torch.set_num_threads(1)
    lines = (HERE / "study" / "corpus.txt").read_text().splitlines()
    for name in MODELS:
        text = json.dumps(make(name, lines), default=float)
        document = json.loads(text, parse_float=lambda number: float(f"{float(number):.9g}"))
        parts = [f'"{key}": ' + json.dumps(value).replace('}, {"layer"', '},\n{"layer"') for key, value in document.items()]
        (HERE / "study" / f"{prefix}{name}.json").write_text("{" + ",\n".join(parts) + "}\n")
