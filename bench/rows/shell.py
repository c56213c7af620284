"""Table h: one sentence from the shell to JSON: the whole process with start, loading, tokens, patterns and writing.
"""
from rows.harness import BENCH, Context, Row, alternate, process, shown, time_row

SENTENCE = "The animal didn't cross the street because it was too tired."
MODELS = {"minilm": "", "bert-base": "200M"}  # and --memory, if the goal needs it
TIME_GOAL = 40.0
MEMORY_GOAL = 3.0


def compare(context: Context) -> list[Row]:
    rows = []
    for name, memory in list(MODELS.items())[: 1 if context.quick else None]:
        model = context.with_tokenizer(name)
        theirs = [context.python, BENCH / "peers" / "python_stack.py", model, SENTENCE, context.work / "theirs.json",
                  context.threads]  # fmt: skip
        ours = [context.attnctl, "analyze", model, "--text", SENTENCE, "--include", "metrics,patterns", "--threads",
                context.threads, "--quiet", "-o", context.work / "ours.json"]  # fmt: skip
        ours += ["--memory", memory] if memory else []
        for command in (theirs, ours):  # warm-up: puts the files into the system's cache
            process(command)
        measures = alternate(context.rounds, {"theirs": lambda: process(theirs), "ours": lambda: process(ours)})
        work = f"a sentence, {name}{f', `--memory {memory}`' if memory else ''}"
        row = time_row(work, "transformers", measures["theirs"], measures["ours"], TIME_GOAL)
        memory_ratio = row.their_mib / row.our_mib
        rows += [row, Row(f"{work}, memory", "transformers", f"{shown(row.their_mib)} MiB", f"{shown(row.our_mib)} MiB",
                          memory_ratio, MEMORY_GOAL)]  # fmt: skip
    return rows
