"""Table i: a process that starts, selects its kernels and prints its version."""
import statistics

from rows.harness import Context, Row, run_measured

GOAL_MS = 10


def compare(context: Context) -> list[Row]:
    runs = [run_measured([context.attnctl, "--version"]) for _ in range(20 if context.quick else 100)]
    ms = statistics.median(run.ms for run in runs)
    verdict = "met" if ms < GOAL_MS else f"{ms / GOAL_MS:.2f} times it"
    return [Row("`--version`", "", "", f"{ms:.1f} ms (least {min(run.ms for run in runs):.1f})",
                wanted=f"< {GOAL_MS} ms", verdict=verdict, our_mib=max(run.mib for run in runs))]  # fmt: skip
