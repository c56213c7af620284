"""A handmade precompiled charsmap of SentencePiece: a double-array trie of UTF-8 keys, followed by the replacements.

Little-endian: the size of the trie in bytes (32 bits), its units (32 bits each), then the replacements, each ended by
NUL. The bits of a unit: 0-7 label, 8 has a leaf below, 10-30 offset to its children (exclusive or; label 0 is the
leaf). Bits 0-30 of a leaf are the position of its replacement.
"""
import struct
import unicodedata


def build(replacements: dict[str, str]) -> bytes:
    blob, places = bytearray(), {}
    for source, target in sorted(replacements.items()):
        places[source.encode()] = len(blob)
        blob += target.encode() + b"\0"

    root: dict = {}
    for key, place in places.items():
        node = root
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = place

    units, bases = {0: 0}, set()

    def lay(node: dict, index: int, label: int):
        base = next(b for b in range(1, 1 << 20) if b not in bases and all(b ^ c not in units for c in node))
        bases.add(base)
        for byte in node:
            units[base ^ byte] = 0
        units[index] = label | (0x100 if 0 in node else 0) | (index ^ base) << 10
        for byte, child in node.items():
            if byte == 0:
                units[base] = child | 1 << 31
            else:
                lay(child, base ^ byte, byte)

    lay(root, 0, 0)
    size = max(units) + 1
    size += -size % 256  # looking up a missing label stays inside the array
    trie = struct.pack(f"<{size}I", *(units.get(i, 0) for i in range(size)))
    return struct.pack("<I", len(trie)) + trie + bytes(blob)


def sample() -> bytes:
    """Part of nmt_nfkc: keys of one and of several characters, and keys that are prefixes of others."""
    keys = {chr(c): unicodedata.normalize("NFKC", chr(c)) for first, last in
            ((0xFF01, 0xFF5E), (0x2460, 0x2473), (0xFB00, 0xFB06), (0x2150, 0x215F), (0x00C0, 0x00C6), (0xFF76, 0xFF7A))
            for c in range(first, last + 1)}  # fmt: skip
    keys = {a: b for a, b in keys.items() if a != b}
    for letter in "AEIOaeio":
        for mark in "\u0300\u0301\u0308\u030a":
            composed = unicodedata.normalize("NFC", letter + mark)
            if len(composed) == 1:
                keys[letter + mark] = composed
    keys |= {c: " " for c in "\t\n\r\u00a0\u2003\u2028\u3000"}
    keys |= {c: "" for c in "\u0001\u0007\u007f\u200b\u200e\u00ad\ufeff"}
    keys |= {"\u00bd": "1\u20442", "\u2026": "...", "\ufdfa": "صلى الله عليه وسلم", "\u1112\u1161": "\ud558",
             "\u1112\u1161\u11ab": "\ud55c", "e\u0301\u0323": "\u1eb9\u0301", "\ufffd": " ", "\U0001d400": "A"}  # fmt: skip
    return build(keys)
