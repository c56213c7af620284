"""Tables a, b and c: one input through the whole model. `capture` keeps all patterns, as torch's eager attention.
`forward` keeps none and is compared with SDPA, which returns none.
"""
from contextlib import ExitStack

from rows.harness import Context, Row, alternate, time_row

LENGTHS = (16, 128, 512, 1024)
GOALS = {16: 2.0, 128: 1.4, 512: 1.35, 1024: 2.0}  # times torch eager
LENS_GOAL = 2.0


def repeats(length: int) -> int:
    """Number of runs per round, of which the median counts. Short runs are noisy."""
    return 5 if length <= 128 else 1


def compare(context: Context, name: str, lens: bool = False) -> list[Row]:
    model, rows = context.model(name), []
    with ExitStack() as stack:
        def opened(script, *arguments, **options):
            return stack.enter_context(context.peer(script, *arguments, **options))

        eager = opened("torch_forward.py", model, "eager", context.threads)
        sdpa = opened("torch_forward.py", model, "sdpa", context.threads)
        peers = [(eager, "capture", {}, GOALS), (sdpa, "forward", {}, dict.fromkeys(LENGTHS, 1.0))]
        if lens:
            peer = opened("transformer_lens_forward.py", model, context.threads, python=context.lens_python)
            if peer.missing:
                rows.append(Row(name, "TransformerLens", f"not installed (no module {peer.missing})", ""))
            else:
                peers.append((peer, "capture", {"logits": True}, dict.fromkeys(LENGTHS, LENS_GOAL)))
                peers.append((peer, "capture", {"logits": False}, {}))
        for length in LENGTHS[:2] if context.quick else LENGTHS:
            rows += compare_length(context, model, length, peers)
    return rows


def compare_length(context: Context, model, length: int, peers: list) -> list[Row]:
    repeat = repeats(length)
    contenders = {number: lambda peer=peer, extra=extra: peer.measure(length=length, repeat=repeat, warm_ups=2, **extra)
                  for number, (peer, _, extra, _) in enumerate(peers)}  # fmt: skip
    for stage in dict.fromkeys(stage for _, stage, _, _ in peers):
        contenders[stage] = lambda stage=stage: context.bench(model, stage, "--lengths", length, "--repeat", repeat)
    measures = alternate(context.rounds, contenders)
    rows = []
    for number, (peer, stage, extra, goals) in enumerate(peers):
        name = peer.name + (", all logits" if extra.get("logits") else ", no logits" if extra else "")
        rows.append(time_row(f"{model.name}, n = {length}, `{stage}`", name, measures[number], measures[stage],
                             goals.get(length)))  # fmt: skip
    return rows
