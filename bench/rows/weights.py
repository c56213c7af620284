"""Table f: singular values of every circuit of a layer, and similarity of its heads."""
from contextlib import ExitStack

from rows.harness import BENCH, Context, Row, alternate, run_measured, time_row

SHAPES = ((768, 12), (1024, 16), (4096, 32))
GOAL = 2.5


def compare(context: Context) -> list[Row]:
    rows = []
    for d, heads in SHAPES[:1] if context.quick else SHAPES:
        path = context.work / f"layer-{d}.npz"
        run_measured([context.python, BENCH / "peers" / "make_layer.py", path, d, heads])
        rows += compare_layer(context, path, d, heads)
        path.unlink()
    return rows


def compare_layer(context: Context, path, d: int, heads: int) -> list[Row]:
    kinds = {"float64": GOAL, "float32": None} | ({"textbook": None} if d == SHAPES[0][0] else {})
    repeat = 5 if d <= 1024 else 1
    with ExitStack() as stack:
        peers = {kind: stack.enter_context(context.peer("numpy_weights.py", path, heads, kind)) for kind in kinds}
        contenders = {kind: lambda peer=peer, kind=kind: peer.measure(repeat=1 if kind == "textbook" else repeat)
                      for kind, peer in peers.items()}  # fmt: skip
        contenders["ours"] = lambda: context.bench(path, "weights", "--config", path.with_suffix(".json"), "--repeat",
                                                   repeat)  # fmt: skip
        measures = alternate(context.rounds, contenders)
        return [time_row(f"layer, d = {d}, h = {heads}, k = {d // heads}", peer.name, measures[kind], measures["ours"],
                         kinds[kind]) for kind, peer in peers.items()]  # fmt: skip
