#!/usr/bin/env python3
"""A bare layer of random weights: make_layer.py FILE.npz D HEADS, and FILE.json, its configuration."""
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
