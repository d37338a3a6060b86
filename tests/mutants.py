"""What tests/mutation.py changes: operators, comparisons, indices and integers, one at a time."""

import ast
import collections
import io
import re
import tokenize
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SWAPS = {"%": "*", "//": "*", "|=": "&=", "and": "or", "or": "and"}
for one, other in ("+-", "*/", "&|", ("<<", ">>"), ("<", "<="), (">", ">="), ("==", "!=")):
    SWAPS |= {one: other, other: one}
SWAPS |= {"&&": "||", "||": "&&"}


@dataclass(frozen=True)
class Mutant:
    file: str
    number: int
    """Of the line, from 1."""
    line: str
    change: str
    text: str
    """The whole file, changed."""

    @property
    def key(self):
        return self.file, self.line, self.change


def mutants(file, text=None):
    """Every mutant of a file, in order of position."""
    text = (ROOT / file).read_text(encoding="utf-8") if text is None else text
    spans = sorted(set(c_spans(text) if file.endswith(".cu") else python_spans(file, text)))
    seen, found = collections.Counter(), []
    for start, end, new in spans:
        first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
        number, line = text.count("\n", 0, start) + 1, text[first:last].strip()
        change = f"{text[start:end]} -> {new}".strip()
        seen[number, change] += 1
        if seen[number, change] > 1:
            change += f" ({seen[number, change]})"
        found.append(Mutant(file, number, line, change, text[:start] + new + text[end:]))
    return found


def integers(start, digits):
    for new in {"0": ["1"], "1": ["0", "2"]}.get(digits, [str(int(digits) + 1)]):
        yield start, start + len(digits), new


def c_spans(text):
    """(start, end, replacement) in a .cu file, of what the host compiles."""
    lines, nested = [], []  # for each open #if, whether only the device compiles what follows
    for line in text.splitlines(keepends=True):
        code, directive = line.split("//")[0], line.lstrip().startswith("#")
        if line.startswith("#if"):
            nested.append("__CUDA_ARCH__" in line)
        elif line.startswith("#else"):
            nested[-1] = False
        elif line.startswith("#endif"):
            nested.pop()
        kept = "" if directive or any(nested) else code
        lines.append(kept.ljust(len(line)))
    code = "".join(lines)
    # clang-format puts blanks around operators, and none on the left of a pointer's star.
    for match in re.finditer(r"(?<=\s)(<<|>>|[<>=!]=|&&|\|\||[-+*/%&|<>])(?=\s)", code):
        yield *match.span(), SWAPS[match[0]]
    for match in re.finditer(r"(?<![\w.])\d+(?!\w)", code):
        yield from integers(match.start(), match[0])
    for match in re.finditer(r"(?<=\w)\[", code):
        statement = code[max(code.rfind(end, 0, match.start()) for end in ";{}\n") + 1 :]
        if re.match(r"\s*(PERM_\w+|[a-z ]+) \w+\[", statement):
            continue  # a declaration
        end, depth = match.end(), 1
        while depth:
            depth += {"[": 1, "]": -1}.get(code[end], 0)
            end += 1
        if index := code[match.end() : end - 1]:
            yield match.end(), end - 1, f"{index} + 1"


def python_spans(file, text):
    """(start, end, replacement) in a Python file: neither annotations nor docstrings."""
    lengths = [0]
    for line in text.splitlines(keepends=True):
        lengths.append(lengths[-1] + len(line))

    def span(node):
        return (
            lengths[node.lineno - 1] + node.col_offset,
            lengths[node.end_lineno - 1] + node.end_col_offset,
        )

    annotations, subscripts = [], []
    for node in ast.walk(ast.parse(text)):
        for field in ("annotation", "returns"):
            if getattr(node, field, None):
                annotations.append(span(getattr(node, field)))
        if isinstance(node, ast.Subscript):
            is_type = getattr(node.value, "id", "") in ("dict", "list", "tuple")
            plain = isinstance(node.slice, (ast.Constant, ast.Slice, ast.Tuple, ast.UnaryOp))
            if not is_type and not plain:
                subscripts.append(span(node.slice))
    found = [(start, end, f"{text[start:end]} + 1") for start, end in subscripts]
    before = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        start, word = lengths[token.start[0] - 1] + token.start[1], token.string
        end = start + len(word)
        unpacks = word == "*" and not re.match(r"[\w)\]]", before[-1:])
        if token.type == tokenize.NUMBER and word.isdigit():
            found += integers(start, word)
        elif token.type == tokenize.NAME and word == "not" and file == "perm_gpu/launch.py":
            found += [(start, end + 1, "")] if before not in ("is", "in") else []
        elif token.type in (tokenize.OP, tokenize.NAME) and word in SWAPS and not unpacks:
            found.append((start, end, {"/": "//"}.get(SWAPS[word], SWAPS[word])))
        before = word
    return [s for s in found if not any(a <= s[0] < b for a, b in annotations)]
