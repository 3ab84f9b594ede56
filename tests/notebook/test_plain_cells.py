"""Functions of plain notebook cells, under the names that people know."""

from __future__ import annotations

import pytest

from disco_magic.callers import sites
from disco_magic.errors import WorkerError
from disco_magic.testing.doubles import Gate


def test_a_function_of_a_plain_cell_is_shown_with_its_cell(crew):
    crew.run("def fail():\n    1 / 0")
    number = crew.ip.execution_count - 1
    crew.run("import disco_magic as disco\ns = disco.session()")
    s, fail = crew.ip.user_ns["s"], crew.ip.user_ns["fail"]
    with pytest.raises(WorkerError) as caught:
        s.call_packed(fail).get(0)
    assert f'File "Cell In[{number}]", line 2, in fail' in caught.value.origin.traceback_text


def test_the_doctor_says_in_which_cell_a_function_of_a_plain_cell_is(crew):
    gate = Gate()
    crew.ip.user_ns["gate"] = gate
    crew.run("def wait():\n    gate()")
    number = crew.ip.execution_count - 1
    crew.run("import disco_magic as disco\ns = disco.session()")
    s, wait = crew.ip.user_ns["s"], crew.ip.user_ns["wait"]
    kept = s.call_packed(wait)
    gate.arrived(crew.n)
    assert f"Cell In[{number}], line 2" in str(s.doctor())
    gate.open()
    kept.get_all()


def test_an_unloaded_extension_names_no_cells_any_more(shell):
    shell.run("def f(): pass")
    name = shell.ip.user_ns["f"].__code__.co_filename
    assert sites.label_of(name) is not None
    shell.ip.run_line_magic("unload_ext", "disco_magic")
    assert sites.label_of(name) is None
    shell.ip.run_line_magic("load_ext", "disco_magic")
