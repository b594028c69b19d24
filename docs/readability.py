"""How easily the pages of users read: python docs/readability.py [PAGE ...].

Prints each page's words, minutes at 200 words a minute, and Flesch reading ease (Flesch 1948), hardest first: above
60 is plain English, below 50 hard. Words in tables count for the minutes alone, code for neither. A hint and no
rule: it sees how long words and sentences are, not whether they are right. `--sentences N` shows the N hardest
sentences of each page.
"""

import argparse
import pathlib
import re
from collections.abc import Iterator

DOCS = pathlib.Path(__file__).parent
LONG = 2_000  # words: ten minutes
_CODE = re.compile(r"^ *```.*?^ *```\n?|^::: [^\n]*|<!--.*?-->", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_WORD = re.compile(r"[A-Za-z][A-Za-z'-]*|\d[\d.,]*")


def prose(text: str) -> tuple[str, str]:
    """The running text of a page, a sentence ending at each end of a paragraph or item; and its tables."""
    text = _LINK.sub(r"\1", _CODE.sub("\n", text))
    lines, tables = [], []
    for line in text.splitlines():
        if line.lstrip().startswith("|"):
            tables.append(line)
        elif re.match(r"\s*(#|[-*] |\d+\. )", line):
            lines += ["", re.sub(r"^\s*(#+|[-*]|\d+\.)\s*", "", line)]
        else:
            lines.append(line)
    return "\n".join(lines), "\n".join(tables)


def sentences(text: str) -> Iterator[str]:
    """The sentences of running text."""
    for paragraph in re.split(r"\n\s*\n", text):
        for one in re.split(r"(?<=[.!?])[)*_]*\s+(?=[A-Z0-9`*\[(])", " ".join(paragraph.split())):
            if _WORD.search(one):
                yield one


def syllables(word: str) -> int:
    """About how many syllables a word has; a number or a name of code counts as two."""
    if not word.isalpha():
        return 2
    word = word.lower()
    silent = re.search(r"[^aeiouytd]ed$|[^el]e$", word) is not None
    return max(len(re.findall(r"[aeiouy]+", word)) - silent, 1)


def ease(text: str) -> float:
    """Flesch reading ease: 206.835 - 1.015 words a sentence - 84.6 syllables a word."""
    found = [_WORD.findall(re.sub(r"`[^`]*`", "name", one)) for one in sentences(text)]
    words = [word for one in found for word in one]
    if not words:
        return 100.0
    return 206.835 - 1.015 * len(words) / len(found) - 84.6 * sum(map(syllables, words)) / len(words)


def main() -> None:
    """Print the pages, hardest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=pathlib.Path, help="default: README and docs")
    parser.add_argument("--sentences", type=int, default=0, metavar="N")
    options = parser.parse_args()
    rows = []
    for page in options.pages or [DOCS.parent / "README.md", *sorted(DOCS.glob("*.md"))]:
        text, tables = prose(page.read_text(encoding="utf-8"))
        words, more = len(_WORD.findall(text)), len(_WORD.findall(tables))
        rows.append((ease(text), words, more, page, text))
    for score, words, more, page, text in sorted(rows, key=lambda row: row[0]):
        length = f"{words:6,} words + {more:6,} in tables {(words + more) / 200:3.0f} min"
        print(f"{score:5.1f} {length}  {page.name}{'  long' if words > LONG else ''}")
        for one in sorted(sentences(text), key=ease)[: options.sentences]:
            print(f"        {ease(one):6.1f}  {one[:160]}")


if __name__ == "__main__":
    main()
