"""What the documents say: their examples run, their tables and their links are right."""

import re
from pathlib import Path

import pytest
import torch

from benchmarks import tables

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCUMENTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]


def python_blocks():
    """(text, whether it needs a GPU) of each example."""
    found = re.findall(r"(<!-- gpu -->\n)?```python\n(.*?)```", README, re.DOTALL)
    return [(text, bool(gpu)) for gpu, text in found]


def test_python_blocks_run():
    """One after the other, as a reader would type them."""
    blocks = python_blocks()
    assert len(blocks) >= 3
    names = {}
    for text, gpu in blocks:
        if torch.cuda.is_available() or not gpu:
            exec(compile(text, "README.md", "exec"), names)
    x, y = names["x"], names["y"]
    assert torch.equal(y, x[..., names["perm"]])
    assert torch.equal(names["x_again"], x)


@pytest.mark.parametrize("document", tables.TABLES, ids=lambda path: path.name)
def test_tables_are_those_of_the_results(document):
    assert tables.filled(document) == document.read_text(encoding="utf-8")


def test_a_document_without_its_marks_is_an_error(tmp_path, monkeypatch):
    copy = tmp_path / "README.md"
    copy.write_text(README.replace("<!-- speed -->", ""), encoding="utf-8")
    monkeypatch.setitem(tables.TABLES, copy, {"speed": tables.speed})
    with pytest.raises(ValueError, match=r"README\.md has no <!-- speed -->"):
        tables.filled(copy)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(document):
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text(encoding="utf-8"))
    for link in links:
        if not link.startswith("https://"):
            assert (document.parent / link).is_file(), link


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"^(?:.*`)?make ([a-z]+)", README, re.MULTILINE))
    assert {"test", "evaluate"} <= named <= targets
