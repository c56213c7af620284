"""Table d: sentences of different lengths in one batch; torch pads them, attnctl packs them."""
import json
import random

from rows.harness import Context, Row, alternate, time_row

COUNT = 64
SHORTEST, LONGEST = 5, 60
GOAL = 2.0


def sentences(context: Context):
    """Writes a file of seeded ids with evenly distributed lengths."""
    draw = random.Random(7)
    lengths = [round(SHORTEST + i * (LONGEST - SHORTEST) / (COUNT - 1)) for i in range(COUNT)]
    draw.shuffle(lengths)
    path = context.work / "sentences.jsonl"
    lines = [json.dumps({"ids": [draw.randrange(1000, 30000) for _ in range(n)]}) + "\n" for n in lengths]
    path.write_text("".join(lines), encoding="utf-8")
    context.note(f"d: {sum(lengths)} tokens; {1 - sum(lengths) / (COUNT * max(lengths)):.0%} of a padded batch is "
                 "padding.")  # fmt: skip
    return path


def rate(ms: float) -> str:
    return f"{COUNT / ms * 1e3:.1f} /s"


def compare(context: Context) -> list[Row]:
    rows, path = [], sentences(context)
    for name in ("minilm",) if context.quick else ("bert-base", "minilm"):
        model = context.model(name)
        repeat = 3 if name == "minilm" else 1
        with context.peer("torch_forward.py", model, "eager", context.threads) as eager, \
             context.peer("torch_forward.py", model, "sdpa", context.threads) as sdpa:  # fmt: skip
            pairs = [(eager, "capture"), (sdpa, "forward")]
            contenders = {peer.name: lambda peer=peer: peer.measure(input=str(path), repeat=repeat, warm_ups=1)
                          for peer, _ in pairs}  # fmt: skip
            for _, stage in pairs:
                contenders[stage] = lambda stage=stage: context.bench(model, stage, "--input", path, "--repeat", repeat)
            measures = alternate(context.rounds, contenders)
            rows += [time_row(f"{COUNT} sentences, {name}, `{stage}`", f"{peer.name}, padded", measures[peer.name],
                              measures[stage], GOAL, rate) for peer, stage in pairs]  # fmt: skip
    return rows
