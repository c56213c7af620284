#!/usr/bin/env python3
"""Checks that bench/peers/study.py and attnctl measure the same: prints the largest deviation for each measure.

    compare_study.py MODEL TREEBANK [--attnctl build/attnctl] [--python PYTHON] [--threads 2]

Fails if a deviation exceeds its bound. Both compute in float32. Each draws its own tokens for the probe. Blocks are
short, so that `pairs` compares all rows. CKA is left out, because the peer uses all rows and attnctl a sample.
"""
import argparse
import json
import sys
import tempfile
from pathlib import Path

from rows.harness import BENCH, run_measured

BLOCK_TOKENS = 1024
MOMENTS = ("entropy", "entropy_bits", "confidence", "distance", "signed_distance", "self", "previous_token", "next_token",
           "first_token", "special_token")  # fmt: skip


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("treebank")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--attnctl", type=Path, default=BENCH.parent / "build" / "attnctl")
    parser.add_argument("--python", default=sys.executable, help="of the peer")
    return parser.parse_args()


class Table:
    def __init__(self):
        self.failed = False
        print("| measure | numbers | largest deviation | bound | |\n|---|---|---|---|---|")

    def add(self, measure: str, ours: list, theirs: list, bound: float) -> None:
        assert len(ours) == len(theirs) > 0, f"{measure}: {len(ours)} numbers of attnctl, {len(theirs)} of the peer"
        worst = max(abs(a - b) for a, b in zip(ours, theirs))
        self.failed |= not worst <= bound
        print(f"| {measure} | {len(ours)} | {worst:.2g} | {bound:g} | {'agrees' if worst <= bound else 'DIFFERS'} |")


def flat(lists: list) -> list:
    return [value for row in lists for value in row]


def by_head(study: dict, section: str, field: str) -> list:
    return flat([record[field] for record in study[section]])


def by_head_value(study: dict, section: str, field: str) -> list:
    return [record[field] for record in study[section]]


def shares(study: dict, section: str, names: dict) -> dict:
    """Returns the shares of "special" and "repeats" by name, one per head."""
    found = {}
    for record in study[section]:
        name = names[record["token"] if section == "special" else record["kind"]]
        found.setdefault(name, []).append(record["share"])
    return found


def compare_rows(table: Table, study: dict, peer: dict) -> None:
    heads = study["heads"]
    for name in MOMENTS:
        table.add(f"`{name}`, mean", [head[name] for head in heads], peer["mean"][name], 1e-4)
    table.add("`positional`, weight", by_head_value(study, "positional", "weight"), flat(peer["positional"]["weight"]), 1e-5)
    table.add("`positional`, peaks", by_head_value(study, "positional", "peaks"), flat(peer["positional"]["peaks"]), 1e-4)
    table.add("`distance`", by_head(study, "distance", "weight"), flat(peer["distance"]["weight"]), 1e-5)
    cls, sep = list(peer["shares"])[1:3]
    names = {None: "position 0", "[CLS]": cls, "[SEP]": sep, "previous": "previous", "duplicate": "duplicate",
             "induction": "induction"}  # fmt: skip
    for section in ("special", "repeats"):
        for name, share in shares(study, section, names).items():
            table.add(f"`{section}`, {name}", share, peer["shares"][name], 1e-5)


def compare_words(table: Table, study: dict, peer: dict) -> None:
    hits, theirs, baselines, their_baselines = [], [], [], []
    for row in study["relations"]:
        of = peer["relations"][f"{row['relation']} {row['direction']}"]
        hits.append(row["hits"])
        theirs.append(of["hits"][len(theirs) % len(study["heads"])])
        baselines.append(row["baseline"] * row["count"])
        their_baselines.append(of["baseline_hits"])
    table.add("`syntax`, relations, hits", hits, theirs, 3)
    table.add("`syntax`, baselines, hits", baselines, their_baselines, 1e-3)
    trees = [row["hits"] for row in study["trees"] if row["kind"] in ("head", "combined")]
    table.add("`syntax`, trees, hits", trees, peer["trees"]["hits"], 3)


def upper(matrix: list) -> list:
    return [value for i, row in enumerate(matrix) for value in row[i + 1 :]]


def compare_others(table: Table, study: dict, peer: dict) -> None:
    for name, bound in (("weight", 1e-5), ("peaks", 1e-4)):
        table.add(f"`rare`, {name}", by_head_value(study, "rare", name), peer["rare"][name], bound)
    for record in study["pairs"]:
        name = {"js_divergence": "divergence", "frobenius_cosine": "cosine"}.get(record["measure"])
        if name is not None:
            table.add(f"`pairs`, {record['measure']}", upper(record["value"]), upper(peer["pairs"][name]), 1e-5)
    table.add("`rollout`", [row["mass"] for row in study["rollout"]], flat(peer["rollout"]), 1e-5)
    ours = {(row["kind"], row["name"]): row for row in study["probe"]}
    for kind in ("induction", "duplicate", "previous"):
        rows = [ours[kind, head["name"]] for head in study["heads"]]
        table.add(f"`probe`, {kind}", [row["score"] for row in rows], peer["probe"]["repeated"][kind], 0.05)


def main() -> None:
    options = parse()
    with tempfile.TemporaryDirectory(prefix="attnctl-study-") as folder:
        ours, theirs = Path(folder) / "ours.json", Path(folder) / "theirs.json"
        run_measured([options.attnctl, "study", options.model, "--input", options.treebank, "--threads", options.threads,
                      "--batch-tokens", BLOCK_TOKENS, "--quiet", "-o", ours])  # fmt: skip
        run_measured([options.python, BENCH / "peers" / "study.py", options.model, options.treebank, options.threads,
                      "--out", theirs])  # fmt: skip
        study, peer = (json.loads(path.read_text(encoding="utf-8")) for path in (ours, theirs))
    table = Table()
    for part in (compare_rows, compare_words, compare_others):
        part(table, study, peer)
    sys.exit(table.failed)


if __name__ == "__main__":
    main()
