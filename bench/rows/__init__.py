"""The rows of bench/compare.py, a file a kind of work. Nothing here is heavy: a child's peak memory is never
reported under that of the process that started it."""
