#!/usr/bin/env python3
"""Writes patterns to a file: json.dump (a sample, scaled), orjson, np.savez.

    writers.py PATTERNS.npz FOLDER json|orjson|savez

Writes the arrays pattern_* of the file to FOLDER, into the system's cache.
"""
import json
import sys
from pathlib import Path

from serve import Timer, serve

SAMPLE = 64  # share that json.dump writes; all of it would take most of a minute


def open_peer():
    import numpy as np

    path, folder, kind = sys.argv[1:]
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files if name.startswith("pattern")}
    out = Path(folder) / f"written-by-{kind}"
    scale, name = 1, f"NumPy {np.__version__} savez"
    if kind == "orjson":
        import orjson

        name = f"orjson {orjson.__version__}"

        def work():
            out.write_bytes(orjson.dumps(arrays, option=orjson.OPT_SERIALIZE_NUMPY))
    elif kind == "json":
        scale, name = SAMPLE, f"json.dump (1/{SAMPLE} of it)"
        sample = {name: array.ravel()[: array.size // SAMPLE] for name, array in arrays.items()}

        def work():
            with out.open("w", encoding="ascii") as file:
                json.dump({name: array.tolist() for name, array in sample.items()}, file)
    else:

        def work():
            with out.open("wb") as file:
                np.savez(file, **arrays)

    timer = Timer()

    def answer(request):
        measured = timer.measure(path, work, request["repeat"])
        out.unlink()
        return measured | {"ms": measured["ms"] * scale}

    return name, answer


serve(open_peer)
