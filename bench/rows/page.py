"""Prints the results and, if requested, writes them to docs/performance.md."""
from pathlib import Path


class Page:
    """Prints the text while it is added. `close` writes it between the two marks of `name` in the page."""

    def __init__(self, name: str, path: Path | None):
        self.begin, self.end = f"<!-- {name}: measured -->\n", f"<!-- {name}: end -->\n"
        self.path, self.text = path, ""
        if path is not None:
            self._parts()

    def _parts(self) -> tuple[str, str]:
        text = self.path.read_text(encoding="utf-8")
        before, begin, rest = text.partition(self.begin)
        _, end, after = rest.partition(self.end)
        if not begin or not end:
            raise SystemExit(f"{self.path}: has no lines {self.begin.strip()} and {self.end.strip()}")
        return before + begin, end + after

    def add(self, text: str) -> None:
        print(text, flush=True)
        self.text += text + "\n"

    def close(self) -> None:
        if self.path is not None:
            before, after = self._parts()
            self.path.write_text(before + self.text + after, encoding="utf-8")
