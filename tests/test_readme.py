"""The README's code does what the README says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np

import disco_magic as disco
from tests.notebook.conftest import bare  # noqa: F401 - the fixture

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
LOAD, FIRST, CHECKED, PLAIN, FILES = re.findall(r"^```python\n(.*?)^```", README, re.DOTALL | re.MULTILINE)


def test_the_first_screen_shows_the_line_that_the_readme_promises(bare):  # noqa: F811 - the fixture
    (said,) = re.findall(r"once for all workers that agree: `(.+?)`", README)
    bare.run(LOAD)
    bare.run(FIRST)
    assert sorted(line for line in bare.lines if "mine" in line) == [f"[{i}] mine {i}.0" for i in range(4)]
    assert bare.lines[-1] == said == "[0-3] 36.0"


def test_the_check_says_what_the_readme_shows(bare):  # noqa: F811 - the fixture
    shown = README.split(CHECKED)[1].split("`--check`")[0]
    bare.run(LOAD)
    error = bare.fail(CHECKED, disco.Divergence)
    lines = [line[4:] for line in shown.splitlines() if line.startswith("    ")]
    assert [line for line in lines if line not in f"Divergence: {error}".splitlines()] == []
    assert len(lines) == 4


def test_the_block_of_plain_python_prints_what_its_comments_say(capsys):
    said = re.findall(r"^ *print\(.*\) +# (.+)$", PLAIN, re.MULTILINE)
    assert said == ["[120. 160.]", "[0, 10, 20, 30]"]
    try:
        exec(compile(PLAIN, "README.md", "exec"), {"__name__": "readme"})
    finally:
        disco.remove_func("demo.scale")
    assert capsys.readouterr().out.splitlines() == said


def test_the_block_that_reads_files_prints_what_its_comments_say(tmp_path, monkeypatch, capsys):
    (said,) = re.findall(r"^ *print\(.*shape\) +# (.+)$", FILES, re.MULTILINE)
    (tmp_path / "model.py").write_text("def project(x, weight):\n    return weight @ x\n")
    weight = np.arange(16 * 8, dtype="float32").reshape(16, 8)
    place = {"dtype": "F32", "shape": list(weight.shape), "data_offsets": [0, weight.nbytes]}
    header = json.dumps({"mlp.weight": place}).encode()
    (tmp_path / "model.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header + weight.tobytes()
    )
    monkeypatch.chdir(tmp_path)
    exec(compile(FILES, "README.md", "exec"), {"__name__": "readme", "disco": disco, "np": np})
    out = capsys.readouterr().out
    assert out.splitlines()[0] == said == "(16,)"
    assert "outstanding" in out
    assert "optional parts" in out
