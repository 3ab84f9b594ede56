"""Models that workers load at once, on a stand-in for what transformers and accelerate change meanwhile."""

from __future__ import annotations

import pytest

from tests.isolation.pytorch.torch_module import install

SETTINGS = {"dtype": "float32"}
SOURCE = """
class PreTrainedModel:
    @classmethod
    def from_pretrained(cls, name, dtype="bfloat16", **options):
        return cls._from_config(name, dtype=dtype, **options)

    @classmethod
    def _from_config(cls, name, dtype="bfloat16", between=None, tp_plan=None):
        before, settings["dtype"] = settings["dtype"], dtype
        try:
            if between is not None: between()
            return cls.__name__, name, settings["dtype"]
        finally:
            settings["dtype"] = before

class Bert(PreTrainedModel):
    pass
"""


@pytest.fixture
def transformers(monkeypatch):
    contents = {"settings": dict(SETTINGS)}
    exec(SOURCE, contents)
    return install(monkeypatch, "transformers.modeling_utils", **contents)


def test_all_load_what_they_ask_for_and_leave_what_was_there(session, transformers):
    s = session(4, extras=lambda _: {"transformers": transformers})
    s.run(
        "from time import sleep\nkinds = ['float16', 'bfloat16', 'float64', 'int8']\nkind = kinds[worker_id]"
    )
    cell = (
        "{transformers.Bert.from_pretrained('b', dtype=kind, between=lambda: sleep(1e-4)) for _ in range(50)}"
    )
    assert s.run(cell).values == [{("Bert", "b", kind)} for kind in s.run("kinds")[0]]
    assert transformers.settings == SETTINGS


def test_who_loads_a_model_together_with_others_does_not_take_turns(session, transformers):
    s = session(3, extras=lambda _: {"transformers": transformers})
    s.run("transformers.Bert.from_pretrained('b', between=barrier, tp_plan='auto')")


def test_all_is_as_before_when_the_session_has_ended(session, transformers):
    before = dict(vars(transformers.PreTrainedModel))
    session(1).shutdown()
    assert dict(vars(transformers.PreTrainedModel)) == before


def test_modules_of_each_worker_s_own_take_the_same_turns(session, tmp_path, monkeypatch):
    (tmp_path / "transformers").mkdir()
    (tmp_path / "transformers" / "__init__.py").write_text("")
    (tmp_path / "transformers" / "modeling_utils.py").write_text(f"from settled import settings\n{SOURCE}")
    (tmp_path / "settled.py").write_text(f"settings = {SETTINGS!r}")
    monkeypatch.syspath_prepend(tmp_path)
    s = session(2, own_modules=["transformers"])
    s.run("from time import sleep\nimport settled\nimport transformers.modeling_utils as own")
    s.run("kind = f'int{8 << worker_id}'")
    assert len(set(s.run("id(own)").values)) == 2
    cell = "{own.Bert.from_pretrained('b', dtype=kind, between=lambda: sleep(1e-4)) for _ in range(50)}"
    assert s.run(cell).values == [{("Bert", "b", "int8")}, {("Bert", "b", "int16")}]
    assert s.run("settled.settings").values == [SETTINGS] * 2


def test_empty_models_are_made_one_after_the_other(session, monkeypatch):
    from contextlib import contextmanager

    made = {"register": "usual"}

    @contextmanager
    def init_on_device(device, include_buffers=None):
        before, made["register"] = made["register"], device
        try:
            yield include_buffers
        finally:
            made["register"] = before

    module = install(monkeypatch, "accelerate.big_modeling", init_on_device=init_on_device, made=made)
    s = session(3, extras=lambda _: {"module": module})
    s.run(
        "for _ in range(50):\n"
        "    with module.init_on_device(worker_id, include_buffers='yes') as given:\n"
        "        assert (given, module.made['register']) == ('yes', worker_id)"
    )
    assert made == {"register": "usual"}
    s.shutdown()
    assert module.init_on_device is init_on_device
