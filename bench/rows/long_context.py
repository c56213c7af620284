"""Table e: statistics of every head over a long input, compared with SDPA, which computes no patterns."""
from rows.harness import Context, Row, alternate, in_ms, median_ms, peak_mib, shown, time_row

LENGTHS = (4096, 8192)
LONGEST = 32768  # with --long
MOST_MIB = 1e9 / 2**20
MEMORY = "1000M"


def compare(context: Context) -> list[Row]:
    model, rows = context.model("llama"), []
    rounds = min(context.rounds, 2)
    with context.peer("torch_forward.py", model, "sdpa", context.threads) as sdpa:
        for length in (2048,) if context.quick else LENGTHS:
            measures = alternate(rounds, {
                "sdpa": lambda: sdpa.measure(length=length, repeat=1, warm_ups=0),
                "analyze": lambda: ours(context, model, length),
            })
            work = f"n = {length}, `analyze`"
            rows.append(time_row(work, sdpa.name, measures["sdpa"], measures["analyze"], 1.0))
            rows.append(memory_row(work, measures["analyze"]))
    if context.long:
        work, measures = f"n = {LONGEST}, `analyze`", [ours(context, model, LONGEST)]
        rows.append(Row(work, "", "", in_ms(median_ms(measures)), our_mib=peak_mib(measures)))
        rows.append(memory_row(work, measures))
    return rows


def ours(context: Context, model, length: int):
    return context.bench(model, "analyze", "--lengths", length, "--repeat", 1, "--memory", MEMORY)


def memory_row(work: str, measures: list) -> Row:
    most = peak_mib(measures)
    verdict = "" if most is None else "met" if most < MOST_MIB else f"{most / MOST_MIB:.2f} times it"
    return Row(f"{work}, memory", "", "", f"{shown(most)} MiB", wanted="< 1 GB", verdict=verdict)
