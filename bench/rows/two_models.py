"""Table l: `attnctl compare` of two models of the shape of GPT-2 small. The study of one of them is the measure."""
import json
import random
import statistics

from rows.harness import Context, Measure, Row, alternate, in_ms, peak_mib, process, time_row

SENTENCES = 60
WEIGHTS_GOAL_MS = 1000
STUDIES_GOAL = 2.2  # times one study


def corpus(context: Context):
    draw = random.Random(3)
    path = context.work / "two_models.jsonl"
    path.write_text("".join(json.dumps({"ids": [draw.randrange(5, 50000) for _ in range(draw.randrange(12, 40))]}) + "\n"
                            for _ in range(SENTENCES)), encoding="utf-8")
    return path


def compare(context: Context) -> list[Row]:
    a, b, sentences = context.model("gpt2-small"), context.model("gpt2-small-changed"), corpus(context)

    def run(command: str, *arguments) -> Measure:
        return process([context.attnctl, command, *arguments, "--threads", context.threads, "--quiet",
                        "-o", context.work / "two_models.json"])  # fmt: skip

    run("compare", a, b)  # files are now in the system's cache
    measures = alternate(context.rounds, {"weights": lambda: run("compare", a, b),
                                          "study": lambda: run("study", a, "--input", sentences),
                                          "both": lambda: run("compare", a, b, "--input", sentences)})
    ms = statistics.median(m.ms for m in measures["weights"])
    met = "met" if ms < WEIGHTS_GOAL_MS else f"{ms / WEIGHTS_GOAL_MS:.2f} times it"
    return [Row("compare, weights", "", "", in_ms(ms), wanted=f"< {in_ms(WEIGHTS_GOAL_MS)}", verdict=met,
                our_mib=peak_mib(measures["weights"])),
            time_row(f"compare, {SENTENCES} sentences of ids", "study of one model", measures["study"], measures["both"],
                     1 / STUDIES_GOAL)]  # fmt: skip
