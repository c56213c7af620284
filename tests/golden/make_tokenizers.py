"""Writes the results of the `tokenizers` library for texts: tests/golden/tokenizers/NAME/golden.json.

venv/bin/python tests/golden/make_tokenizers.py [--build] [--minilm DIR] [NAME ...]

--build trains the small tokenizers again (NAME/tokenizer.json). Training differs between runs if counts tie, so the
goldens are made again as well. Models outside the repository are read from ../shared/models, and MiniLM from the
given directory; if they are missing, their goldens stay. Texts: strings.json, random texts (tokenizer_text.py), and
every `# text =` of the treebanks in ../shared/corpora.
"""
import argparse
import json
from pathlib import Path

from tokenizer_cases import BUILT
from tokenizer_text import HERE, block_hashes, line, random_text, shortened, treebank_texts
from tokenizers import Tokenizer

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"
RANDOM = {"seed": 20240229, "count": 20000}
TREEBANKS = ["en_ewt-ud-dev", "en_ewt-ud-test"]
BUNDLED = ["tiny-bert", "tiny-llama"]
SHARED_MODELS = ["stories15M", "stories260K", "rxnmapper-albert"]


def open_tokenizer(directory: Path) -> Tokenizer:
    if (directory / "tokenizer.json").exists():
        result = Tokenizer.from_file(str(directory / "tokenizer.json"))
    else:  # only vocab.txt
        from transformers import BertTokenizerFast

        result = BertTokenizerFast.from_pretrained(str(directory)).backend_tokenizer
    result.no_truncation()
    result.no_padding()
    return result


def lines(tokenizer: Tokenizer, texts: list) -> list[str]:
    return [line(x) for x in tokenizer.encode_batch(texts)]


def golden(directory: Path, where: str | None) -> str:
    tokenizer = open_tokenizer(directory)
    given = json.loads((HERE / "strings.json").read_text())
    texts = [random_text(RANDOM["seed"], i) for i in range(RANDOM["count"])]
    fields = {
        "model": where,
        "strings": [shortened(x) for x in lines(tokenizer, [s["text"] for s in given["strings"]])],
        "pairs": [shortened(x) for x in lines(tokenizer, [tuple(p) for p in given["pairs"]])],
        "random": RANDOM | {"hashes": block_hashes(lines(tokenizer, texts))},
        "treebanks": {},
    }
    for name in TREEBANKS:
        path = SHARED / "corpora" / f"{name}.conllu"
        if not path.exists():
            raise SystemExit(f"{path} is missing")
        fields["treebanks"][name] = block_hashes(lines(tokenizer, treebank_texts(path)))
    return readable(fields)


def readable(fields: dict) -> str:
    """Formats JSON with one array per line; texts get one line each."""

    def rows(values):
        return "[\n" + ",\n".join(json.dumps(v) for v in values) + "\n]"

    parts = [f'"{k}": ' + (rows(v) if k in ("strings", "pairs") else json.dumps(v)) for k, v in fields.items()]
    return "{\n" + ",\n".join(parts) + "\n}\n"


def build(name: str) -> None:
    tokenizer = BUILT[name]()
    (HERE / name).mkdir(exist_ok=True)
    path = HERE / name / "tokenizer.json"
    tokenizer.save(str(path), pretty=False)
    with path.open("a") as file:
        file.write("\n")


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--build", action="store_true")
    options.add_argument("--minilm", type=Path)
    options.add_argument("names", nargs="*")
    arguments = options.parse_args()
    models = {name: (HERE / name, None) for name in BUILT}
    models |= {name: (ROOT / "data" / name, f"data/{name}") for name in BUNDLED}
    models |= {name: (SHARED / "models" / name, f"shared/models/{name}") for name in SHARED_MODELS}
    if arguments.minilm:
        models["minilm"] = (arguments.minilm, "MiniLM")
    for name in arguments.names or models:
        directory, where = models[name]
        if arguments.build and where is None:
            build(name)
        if not directory.exists():
            print(f"{name}: {directory} is not there, left as it is")
            continue
        (HERE / name).mkdir(exist_ok=True)
        (HERE / name / "golden.json").write_text(golden(directory, where))
        print(name, (HERE / name / "golden.json").stat().st_size)


if __name__ == "__main__":
    main()
