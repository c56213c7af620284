"""Table k: a quantised model of the llama layout beside llama.cpp, both from the same GGUF file. llama.cpp returns no
patterns and rounds activations to 8 bits; `forward` hands the pattern of every head to an observer.
"""
import shutil

from rows.harness import BENCH, Context, Row, alternate, process, run_measured, time_row

TYPES = ("F16", "Q8_0", "Q4_0", "Q4_K")
LENGTHS = (16, 128, 512)


def goal(kind: str, length: int) -> float:
    return 1.5 if kind == "Q8_0" and length == 512 else 1.0


def compare(context: Context) -> list[Row]:
    if shutil.which("node") is None:
        return [Row("quantised models", "llama.cpp", "not installed (no node)", "")]
    rows = []
    for kind in TYPES[1:3] if context.quick else TYPES:
        file = context.work / f"llama-{kind}.gguf"
        if not file.exists():
            run_measured([context.python, BENCH / "peers" / "make_gguf.py", file, kind])
        with context.peer("llama_cpp.mjs", file, context.threads, python="node") as peer:
            if peer.missing:
                return [Row("quantised models", "llama.cpp", f"not installed (no package {peer.missing})", "")]
            for length in LENGTHS[:2] if context.quick else LENGTHS:
                rows.append(compare_warm(context, file, kind, length, peer))
        rows.append(compare_shell(context, file, kind, peer.name))
    return rows


def compare_warm(context: Context, file, kind: str, length: int, peer) -> Row:
    measures = alternate(context.rounds, {
        "theirs": lambda: peer.measure(length=length, repeat=3, warm_ups=1),
        "ours": lambda: context.bench(file, "forward", "--lengths", length, "--repeat", 3),
    })  # fmt: skip
    return time_row(f"{kind}, n = {length}, `forward`", peer.name, measures["theirs"], measures["ours"],
                    goal(kind, length))  # fmt: skip


def compare_shell(context: Context, file, kind: str, name: str) -> Row:
    length = 128
    ids = ",".join(str(10 + i * 7919 % 499) for i in range(length))
    out = context.work / "quantised.json"
    measures = alternate(context.rounds, {
        "theirs": lambda: process(["node", BENCH / "peers" / "llama_cpp.mjs", file, context.threads, length]),
        "ours": lambda: process([context.attnctl, "analyze", file, "--ids", ids, "--include", "metrics", "--threads",
                                 context.threads, "--quiet", "-o", out]),
    })  # fmt: skip
    return time_row(f"{kind}, n = {length}, from the shell, metrics of every head", name, measures["theirs"],
                    measures["ours"])  # fmt: skip
