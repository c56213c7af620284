"""Table g: all patterns of bert-base at n = 512, 37.7 million weights, as JSON and as NPZ."""
from contextlib import ExitStack

from rows.harness import Context, Row, alternate, run_measured, time_row

LENGTH = 512
LIMIT = "100000000"


def patterns(context: Context, model, length: int):
    """Returns the weights that the peers write: attnctl's patterns of the same model."""
    path = context.work / "patterns.npz"
    ids = ",".join(str(1000 + (i * 7919) % 29000) for i in range(length))
    run_measured([context.attnctl, "analyze", model, "--ids", ids, "--include", "patterns", "--limit", LIMIT, "--quiet",
                  "--threads", context.threads, "-o", path])  # fmt: skip
    return path


def compare(context: Context) -> list[Row]:
    length = 128 if context.quick else LENGTH
    model = context.model("bert-base")
    path = patterns(context, model, length)

    def ours(stage, threads):
        return lambda: context.bench(model, stage, "--lengths", length, "--repeat", 1, "--limit", LIMIT, threads=threads)

    with ExitStack() as stack:
        peers = {kind: stack.enter_context(context.peer("writers.py", path, context.work, kind))
                 for kind in ("json", "orjson", "savez")}  # fmt: skip
        contenders = {kind: lambda peer=peer: peer.measure(repeat=1) for kind, peer in peers.items() if not peer.missing}
        contenders |= {"json 1": ours("write_json", 1), "json 2": ours("write_json", 2), "npz": ours("write_npz", 2)}
        measures = alternate(context.rounds, contenders)
    path.unlink()
    weights = f"{12 * 12 * length**2 / 1e6:.1f} M weights"
    rows = []
    for kind, mine, work, goal in (("json", "json 1", "JSON, 1 thread", None), ("orjson", "json 1", "JSON, 1 thread", 1.0),
                                   ("orjson", "json 2", "JSON, 2 threads", 1.8), ("savez", "npz", "NPZ, 2 threads", 1.0)):
        if peers[kind].missing:
            rows.append(Row(f"{weights}, {work}", kind, f"not installed (no module {peers[kind].missing})", ""))
        else:
            rows.append(time_row(f"{weights}, {work}", peers[kind].name, measures[kind], measures[mine], goal))
    return rows
