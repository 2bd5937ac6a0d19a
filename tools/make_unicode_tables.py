#!/usr/bin/env python3
"""Writes the tables of runtime/text/nfc.cc and unicode.cc: make_unicode_tables.py NFC PRINTABLE. What they hold is what this Python's
unicodedata knows; assigned characters never change, so versions differ only in characters that are new."""
import sys
import unicodedata

LAST = 0x10FFFF
HANGUL_TAIL = set(range(0x1161, 0x1176)) | set(range(0x11A8, 0x11C3))  # combine with what is before them, by arithmetic


def canonical(c):
    """What the character stands for, one step: nothing, one character, or two."""
    text = unicodedata.decomposition(chr(c))
    return [] if not text or text.startswith("<") else [int(part, 16) for part in text.split()]


def runs(values, longest):
    """(first, length, value) of neighbours with equal values, from a dict by code point."""
    out = []
    for c in sorted(values):
        if out and out[-1][0] + out[-1][1] == c and out[-1][2] == values[c] and out[-1][1] < longest:
            out[-1][1] += 1
        else:
            out.append([c, 1, values[c]])
    return out


def array(name, kind, note, values):
    lines, line = [], " "
    for value in values:
        item = f" {value:#x},"
        if len(line) + len(item) > 108:
            lines.append(line)
            line = " "
        line += item
    return f"// {note}\nconstexpr {kind} {name}[] = {{\n" + "\n".join(lines + [line]) + "\n};\n"


def write(path, text):
    with open(path, "w", encoding="ascii") as out:
        out.write(f"// Unicode {unicodedata.unidata_version}, by tools/make_unicode_tables.py.\n{text}")


def nfc_tables():
    parts = {c: canonical(c) for c in range(LAST + 1) if not 0xD800 <= c < 0xE000}
    parts = {c: p for c, p in parts.items() if p}
    table = [(c, *(p + [0])[:2]) for c, p in sorted(parts.items())]
    composed = [i for i, (c, a, b) in enumerate(table) if b and unicodedata.normalize("NFC", chr(a) + chr(b)) == chr(c)]
    composed.sort(key=lambda i: table[i][1:])
    classes = {c: unicodedata.combining(chr(c)) for c in range(LAST + 1) if unicodedata.combining(chr(c))}
    seconds = {table[i][2] for i in composed} | HANGUL_TAIL
    unsettled = {c: 1 for c in list(classes) + sorted(seconds) + [c for c in parts if unicodedata.normalize("NFC", chr(c)) != chr(c)]}
    pages = [0] * ((LAST >> 8) // 64 + 1)
    for c in unsettled:
        pages[c >> 14] |= 1 << (c >> 8) % 64
    return "".join([
        array("kParts", "uint64_t", "character << 42 | first << 21 | second (0: none), rising", [c << 42 | a << 21 | b for c, a, b in table]),
        array("kComposed", "uint16_t", "Places in kParts of those whose two parts make them again, by the parts, rising", composed),
        array("kClasses", "uint32_t", "first << 11 | (length - 1) << 8 | combining class, of those that have one, rising",
              [c << 11 | (n - 1) << 8 | v for c, n, v in runs(classes, 8)]),
        array("kUnsettled", "uint32_t", "first << 11 | length - 1: what normalization may change, by itself or by what is before it, rising",
              [c << 11 | (n - 1) for c, n, _ in runs(unsettled, 2048)]),
        array("kUnsettledPages", "uint64_t", "A bit for each 256 characters: whether any of them is among these", pages)])


def printable_table():
    printable = [chr(c).isprintable() for c in range(LAST + 1)]
    return array("kPrintableTurns", "uint32_t", "Where characters begin to be printable and where they cease to, in turns, rising",
                 [c for c in range(LAST + 1) if printable[c] != (c > 0 and printable[c - 1])])


def main():
    write(sys.argv[1], nfc_tables())
    write(sys.argv[2], printable_table())


if __name__ == "__main__":
    main()
