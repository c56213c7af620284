#!/usr/bin/env python3
"""make_layer.py FILE.npz D HEADS: writes a bare attention layer with random weights, and its configuration as
FILE.json.
"""
import json
import sys
from pathlib import Path

import numpy as np


def main() -> None:
    path, d, heads = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    rng = np.random.default_rng(1)
    np.savez(path, **{name: rng.standard_normal((d, d), dtype=np.float32) / np.float32(np.sqrt(d))
                      for name in ("W_q", "W_k", "W_v", "W_o")})  # fmt: skip
    path.with_suffix(".json").write_text(json.dumps({"model_type": "attention", "heads": heads}), encoding="utf-8")


if __name__ == "__main__":
    main()
