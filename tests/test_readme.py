"""The README's code does what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import disco_magic as disco
from tests.notebook.conftest import bare  # noqa: F401 - the fixture

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
LOAD, FIRST, PLAIN = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_first_screen_shows_the_line_that_the_readme_promises(bare):  # noqa: F811 - the fixture
    (said,) = re.findall(r"once for all workers that agree: `(.+?)`", README)
    bare.run(LOAD)
    bare.run(FIRST)
    assert sorted(line for line in bare.lines if "mine" in line) == [f"[{i}] mine {i}.0" for i in range(4)]
    assert bare.lines[-1] == said == "[0-3] 36.0"


def test_the_block_of_plain_python_prints_what_its_comments_say(capsys):
    said = re.findall(r"^ *print\(.*\) +# (.+)$", PLAIN, re.MULTILINE)
    assert said == ["[120. 160.]", "[0, 10, 20, 30]"]
    try:
        exec(compile(PLAIN, "README.md", "exec"), {"__name__": "readme"})
    finally:
        disco.remove_func("demo.scale")
    assert capsys.readouterr().out.splitlines() == said
