"""Runs a peer as a separate process: it reports that it is ready, then answers requests, one JSON object per line.
"""
import json
import os
import statistics
import sys
import time


def peak_mib() -> float | None:
    """Returns the largest resident memory since `reset_peak`, or since the start if it cannot be reset."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            return next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    except (OSError, StopIteration):
        return None


def reset_peak() -> None:
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
    except OSError:
        pass


def milliseconds(work) -> float:
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1e3


class Timer:
    """Times runs of one task, after a warm-up at its first request. Memory counts from there."""

    def __init__(self):
        self.last = None

    def measure(self, key, work, repeat=1, warm_ups=1) -> dict:
        if key != self.last:
            reset_peak()
            for _ in range(warm_ups):
                work()
            self.last = key
        return {"ms": statistics.median(milliseconds(work) for _ in range(repeat)), "mib": peak_mib()}


def serve(open_peer) -> None:
    """Runs the loop. `open_peer()` returns the peer's name with its version, and the function that answers a request.
    """
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries goes to standard error

    def reply(value: dict) -> None:
        print(json.dumps(value), file=replies, flush=True)

    try:
        name, answer = open_peer()
    except ModuleNotFoundError as error:
        return reply({"missing": error.name})
    reply({"name": name})
    for line in sys.stdin:
        reply(answer(json.loads(line)))
