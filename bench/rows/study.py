"""Table j: a study of all measures over a treebank. One row starts both from the shell. The others compare attnctl's
whole process with a peer whose time starts after its model is loaded and has made a first pass.
"""
import shutil

from rows.harness import BENCH, DATA, Context, Measure, Row, alternate, peak_mib, process, shown, time_row

COPIES = 10
TIME_GOAL = 3.0
MEMORY_GOAL = 400  # MB
SMALL_COPIES = 20  # number of copies of the bundled treebank, which is short


def treebanks(context: Context) -> list:
    """Returns the given treebank, once and ten times. The bundled one is repeated first."""
    once = context.treebank
    if once is None:
        once = context.work / "treebank.conllu"
        write(once, [DATA / "treebank.conllu"] * SMALL_COPIES)
    many = context.work / "treebanks.conllu"
    write(many, [once] * COPIES)
    return [once, many]


def write(path, parts: list) -> None:
    with open(path, "wb") as out:
        for part in parts:
            with open(part, "rb") as file:
                shutil.copyfileobj(file, out)


def study(context: Context, model, treebank) -> Measure:
    return process([context.attnctl, "study", model, "--input", treebank, "--threads", context.threads, "--quiet",
                    "-o", context.work / "study.json"])  # fmt: skip


def from_shell(context: Context, work: str, model, treebank) -> Row:
    script = [context.python, BENCH / "peers" / "study.py", model, treebank, context.threads,
              "--out", context.work / "peer.json"]  # fmt: skip
    measures = alternate(context.rounds, {"theirs": lambda: process(script),
                                          "ours": lambda: study(context, model, treebank)})
    return time_row(work, "torch and NumPy", measures["theirs"], measures["ours"], TIME_GOAL)


def memory_row(work: str, mib: float) -> Row:
    mb = mib * 1.048576
    return Row(f"{work}, memory", "", "", f"{shown(mib)} MiB", wanted=f"< {MEMORY_GOAL} MB",
               verdict="met" if mb < MEMORY_GOAL else f"{mb / MEMORY_GOAL:.2f} times it")


def beside(context: Context, work: str, model, treebank, rounds: int) -> list[Row]:
    with context.peer("study.py", model, treebank, context.threads) as peer:
        measures = alternate(rounds, {"theirs": lambda: peer.measure(warm_ups=1 if rounds > 1 else 0),
                                      "ours": lambda: study(context, model, treebank)})
        return [time_row(work, peer.name, measures["theirs"], measures["ours"], TIME_GOAL),
                memory_row(work, peak_mib(measures["ours"]))]


def compare(context: Context) -> list[Row]:
    model = context.study_model or context.with_tokenizer("minilm")
    once, many = treebanks(context)
    name = f"{model.name if context.study_model is None else 'MiniLM'}, {once.stem}"
    study(context, model, once)  # files are now in the system's cache
    rows = [from_shell(context, f"study of {name}, from the shell", model, once)]
    rows += beside(context, f"study of {name}, peer's model loaded", model, once, context.rounds)
    if not context.quick:
        rows += beside(context, f"the same {COPIES} times", model, many, 1)
    return rows
