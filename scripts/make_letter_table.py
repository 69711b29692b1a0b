#!/usr/bin/env python3
"""framework/data/text/letter_table.h: which characters are letters, numbers and white space.

  scripts/make_letter_table.py > framework/data/text/letter_table.h

Letters are Unicode's general categories L* (\\p{L} of regular expressions), numbers N* (\\p{N}), of the
version that Python's unicodedata has. White space is the property White_Space, which unicodedata lacks:
the separators Z* and U+0009 to U+000D and U+0085.
"""
import sys
import textwrap
import unicodedata

CONTROLS = {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85}


def is_space(code):
    return code in CONTROLS or unicodedata.category(chr(code))[0] == "Z"


def ranges(holds):
    """First and last code point of each run for which this holds."""
    found, begin = [], None
    for code in range(0x110001):
        inside = code < 0x110000 and holds(code)
        if inside and begin is None:
            begin = code
        elif not inside and begin is not None:
            found.append((begin, code - 1))
            begin = None
    return found


def table(name, runs):
    numbers = " ".join(f"{{0x{first:X},0x{last:X}}}," for first, last in runs)
    lines = textwrap.wrap(numbers, 88, break_long_words=False)
    body = "\n".join("    " + line for line in lines).replace(",0x", ", 0x")
    return f"inline constexpr CodeRange {name}[] = {{\n{body}\n}};\n"


def main():
    print(f"""// Letters, numbers and white space of Unicode {unicodedata.unidata_version}.
// Made by scripts/make_letter_table.py, which says by what rule; do not edit.
#pragma once

#include <cstdint>

namespace attnlab {{

/// Code points, both ends included.
struct CodeRange {{
  std::uint32_t first, last;
}};

// clang-format off""")
    for name, initial in (("kLetters", "L"), ("kNumbers", "N")):
        print(table(name, ranges(lambda code: unicodedata.category(chr(code))[0] == initial)))
    print(table("kSpaces", ranges(is_space)), end="")
    print("// clang-format on\n\n}  // namespace attnlab")


if __name__ == "__main__":
    sys.exit(main())
