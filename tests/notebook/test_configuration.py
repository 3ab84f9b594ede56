"""Settings: by %config, from files, the command line and the environment; impossible ones are named."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from traitlets.config.loader import DeferredConfigString

from disco_magic.devices import find
from disco_magic.notebook.magics import DiscoMagics
from disco_magic.notebook.settings import ENVIRONMENT

ROOT = Path(__file__).parents[2]
OTHER = {
    "workers": 3,
    "groups": 2,
    "mesh": "dp=1,tp=3",
    "kind": "threads",
    "ccl": "threads",
    "devices": "cpu",
    "own_modules": "megatron,utils",
    "output": "grouped",
    "progress_after": 2.5,
    "timeout": 30.0,
}
IMPOSSIBLE = {
    "workers": [0, "many", None, 2.5],
    "groups": [0, "two"],
    "mesh": ["dp", "dp=0", "dp=2,dp=2", 3],
    "kind": ["boats", 1],
    "ccl": ["mpi"],
    "devices": [0, None],
    "own_modules": ["a.b", "sys", 3],
    "output": ["loud", True],
    "progress_after": [-2, "soon", float("nan")],
    "timeout": [0, -1, "soon", float("nan")],
}


@pytest.fixture(autouse=True)
def no_environment(monkeypatch):
    for variable in ENVIRONMENT.values():
        monkeypatch.delenv(variable, raising=False)


def settings(shell):
    return shell.ip.magics_manager.magics["line"]["disco"].__self__


def values(shell):
    return {name: getattr(settings(shell), name) for name in OTHER}


def defaults():
    return {name: DiscoMagics.class_traits()[name].default_value for name in OTHER} | {"devices": "cpu"}


# --- what there is ---------------------------------------------------------------------------------


def test_these_tests_know_every_setting():
    assert set(DiscoMagics.class_traits(config=True)) == set(OTHER) == set(IMPOSSIBLE)


def test_config_lists_every_setting_with_a_sentence_its_choices_and_its_value(shell):
    shell.run("%config DiscoMagics")
    entries = re.split(r"^DiscoMagics\.(\w+)=.*$", shell.out, flags=re.MULTILINE)[1:]
    listed = dict(zip(entries[::2], entries[1::2], strict=True))
    assert set(listed) == set(OTHER)
    for name, text in listed.items():
        told = " ".join(text.split())
        help_text, _, rest = told.partition(
            " Choices: any of [" if name in ("kind", "ccl", "output") else " Curr"
        )
        assert re.fullmatch(r"[A-Z].*[a-z0-9]\.", help_text), told
        assert rest
        assert f"Current: {getattr(settings(shell), name)!r}" in told
    assert "DISCO_WORKERS" in listed["workers"]
    assert "DISCO_DEVICES" in listed["devices"]
    assert "DISCO_OUTPUT" in listed["output"]


@pytest.mark.parametrize("name", OTHER)
def test_a_setting_can_be_changed_and_asked_for(shell, name):
    shell.run(f"%config DiscoMagics.{name} = {OTHER[name]!r}")
    assert shell.run(f"%config DiscoMagics.{name}") == OTHER[name]


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, wrong in IMPOSSIBLE.items() for value in wrong]
)
def test_config_refuses_an_impossible_value_and_keeps_the_one_before(shell, caplog, name, value):
    shell.run(f"%config DiscoMagics.{name} = {OTHER[name]!r}")
    shell.ip.user_ns["value"] = value
    shell.run(f"%config DiscoMagics.{name} = value")
    (record,) = caplog.records
    assert f"'{name}' trait of a DiscoMagics instance" in record.getMessage()
    assert shell.run(f"%config DiscoMagics.{name}") == OTHER[name]


@pytest.mark.parametrize("value", ["-1", "-1.0", "'none'", "None"])
def test_progress_is_never_shown_by_the_values_by_which_a_cell_s_option_never_shows_it(shell, caplog, value):
    # --progress-after -1 and none meant never, and the setting of that name logged an error.
    shell.run(f"%config DiscoMagics.progress_after = {value}")
    assert caplog.records == []
    assert settings(shell).progress_after is None
    assert shell.run("%%disco --progress-after -1\n1") is not None


def test_no_time_is_too_long_for_a_cell_by_the_word_that_its_option_has(bare):
    bare.ip.config.DiscoMagics["timeout"] = DeferredConfigString("none")  # as from a command line
    bare.run("%load_ext disco_magic")
    assert bare.err == ""
    bare.run("%config DiscoMagics.timeout = 5")
    bare.run("%config DiscoMagics.timeout = 'none'")
    assert settings(bare).timeout is None


# --- when the extension is loaded ------------------------------------------------------------------


def configure(shell, values):
    for name, value in values.items():
        shell.ip.config.DiscoMagics[name] = value


def test_configured_values_are_used(bare):
    configure(bare, OTHER)
    bare.run("%load_ext disco_magic")
    assert bare.err == ""
    assert values(bare) == OTHER


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, wrong in IMPOSSIBLE.items() for value in wrong]
)
def test_an_impossible_value_is_named_in_a_line_and_the_others_are_kept(bare, name, value):
    configure(bare, OTHER | {name: value})
    bare.run("%load_ext disco_magic")
    (line,) = bare.err.splitlines()
    assert line.startswith(f"disco_magic: DiscoMagics.{name} stays {defaults()[name]!r}: ")
    assert f"'{name}' trait" in line
    assert values(bare) == OTHER | {name: defaults()[name]}
    assert [type(each).__name__ for each in bare.ip.configurables].count("DiscoMagics") == 1


def test_there_is_a_line_for_each_impossible_value(bare):
    configure(bare, {name: wrong[0] for name, wrong in IMPOSSIBLE.items()})
    bare.run("%load_ext disco_magic")
    assert [line.split()[1].partition(".")[2] for line in bare.err.splitlines()] == list(IMPOSSIBLE)
    assert values(bare) == defaults()


def test_what_was_said_on_a_command_line_is_read_as_its_setting_needs_it(bare):
    texts = {name: DeferredConfigString(value) for name, value in OTHER.items() if isinstance(value, str)}
    numbers = {"workers": DeferredConfigString("3"), "groups": DeferredConfigString("two")}
    configure(bare, texts | numbers | {"timeout": DeferredConfigString("None")})
    bare.run("%load_ext disco_magic")
    assert "groups stays 1" in bare.err
    assert len(bare.err.splitlines()) == 1
    assert settings(bare).workers == 3
    assert settings(bare).timeout is None
    assert settings(bare).output == "grouped"


def test_a_value_that_config_refused_does_not_break_the_next_load(shell):
    shell.run("%config DiscoMagics.groups = 2")
    shell.run("%config DiscoMagics.workers = 'many'")
    shell.run("%unload_ext disco_magic")
    shell.run("%load_ext disco_magic")
    assert "DiscoMagics.workers stays 4: " in shell.err
    assert (settings(shell).workers, settings(shell).groups) == (4, 2)
    shell.run("%config DiscoMagics.workers = 2\n%reload_ext disco_magic")
    assert shell.err == ""
    assert settings(shell).workers == 2


def test_a_setting_that_there_is_not_is_named_with_the_nearest(bare):
    configure(bare, {"wrokers": 3, "groups": 2})
    with pytest.warns(UserWarning, match="`wrokers` not recognized by `DiscoMagics`.*`workers`"):
        bare.run("%load_ext disco_magic")
    assert settings(bare).groups == 2


# --- the environment -------------------------------------------------------------------------------


def test_the_environment_gives_other_defaults(bare, monkeypatch):
    monkeypatch.setenv("DISCO_WORKERS", "3")
    monkeypatch.setenv("DISCO_OUTPUT", "ordered")
    bare.run("%load_ext disco_magic")
    assert (settings(bare).workers, settings(bare).output) == (3, "ordered")
    bare.run("%%disco\nprint(num_workers)")
    assert bare.lines[-3:] == ["[0] 3", "[1] 3", "[2] 3"]


def test_what_is_configured_comes_before_the_environment_impossible_or_not(bare, monkeypatch):
    monkeypatch.setenv("DISCO_WORKERS", "3")
    monkeypatch.setenv("DISCO_OUTPUT", "loud")
    configure(bare, {"workers": 2, "output": "grouped"})
    bare.run("%load_ext disco_magic")
    assert bare.err == ""
    assert (settings(bare).workers, settings(bare).output) == (2, "grouped")


def test_the_environment_helps_where_what_is_configured_is_impossible(bare, monkeypatch):
    monkeypatch.setenv("DISCO_WORKERS", "3")
    configure(bare, {"workers": "many"})
    bare.run("%load_ext disco_magic")
    assert "DiscoMagics.workers stays 3: " in bare.err
    assert settings(bare).workers == 3


@pytest.mark.parametrize(
    ("variable", "text", "name"),
    [
        ("DISCO_OUTPUT", "loud", "output"),
        ("DISCO_OUTPUT", "Ordered", "output"),
        ("DISCO_WORKERS", "0", "workers"),
        ("DISCO_WORKERS", "many", "workers"),
        ("DISCO_GROUPS", "two", "groups"),
        ("DISCO_MESH", "dp=two", "mesh"),
        ("DISCO_KIND", "boats", "kind"),
        ("DISCO_CCL", "mpi", "ccl"),
    ],
)
def test_an_impossible_variable_is_named_in_a_line(bare, monkeypatch, variable, text, name):
    monkeypatch.setenv(variable, text)
    bare.run("%load_ext disco_magic")
    (line,) = bare.err.splitlines()
    assert line.startswith(f"disco_magic: {variable} is {text!r}; DiscoMagics.{name} stays ")
    assert values(bare) == defaults()


@pytest.mark.parametrize("variable", [*ENVIRONMENT.values(), "DISCO_DEVICES"])
def test_an_empty_variable_is_none(bare, monkeypatch, variable):
    monkeypatch.setenv(variable, "")
    bare.run("%load_ext disco_magic")
    assert bare.err == ""
    assert values(bare) == defaults() | ({"devices": "auto"} if variable == "DISCO_DEVICES" else {})


# --- what settings do ------------------------------------------------------------------------------


@pytest.mark.parametrize("output", ["live", "ordered", "grouped"])
def test_the_line_of_the_start_is_the_same_every_time_unless_somebody_watches(shell, output):
    shell.run(f"%config DiscoMagics.output = {output!r}")
    shell.run("%disco start -n 2")
    (line,) = shell.lines
    time = r" · \d+\.\d\d s" if output == "live" else ""
    assert re.fullmatch(rf"Disco session \d+: 2 workers · threads · cpu · plane threads{time}", line)


@pytest.mark.parametrize("how", ["%config", "file", "environment"])
def test_a_number_that_somebody_chose_holds_on_gpus_also_if_it_is_the_default(bare, monkeypatch, how):
    monkeypatch.setattr(find, "count_gpus", lambda: 8)
    if how == "file":
        configure(bare, {"workers": 4})
    if how == "environment":
        monkeypatch.setenv("DISCO_WORKERS", "4")
    bare.run("%load_ext disco_magic")
    if how == "%config":
        assert settings(bare).workers_for("auto", "auto") is None
        bare.run("%config DiscoMagics.workers = 4")
    assert settings(bare).workers_for("auto", "auto") == 4


# --- real processes --------------------------------------------------------------------------------

PROFILE = """
c.InteractiveShellApp.extensions = ["disco_magic"]
c.DiscoMagics.workers = 2
c.DiscoMagics.groups = 2
c.DiscoMagics.output = "loud"
"""


@pytest.fixture
def ipython(tmp_path):
    """Runs terminal IPython in a process of its own, with the profile `ci`; gives stdout and stderr."""
    profile = tmp_path / "ipython" / "profile_ci"
    profile.mkdir(parents=True)

    def run(*arguments, profile_text=PROFILE, **environment):
        (profile / "ipython_config.py").write_text(profile_text)
        folders = {"IPYTHONDIR": str(profile.parent), "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
        options = ["--no-banner", "--colors=NoColor", "--HistoryManager.enabled=False", "--profile=ci"]
        done = subprocess.run(  # noqa: S603 - our own program
            [sys.executable, "-m", "IPython", *options, *arguments],
            env={**os.environ, **folders, **environment},
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return done.stdout, done.stderr

    return run


def test_a_profile_is_read_and_its_impossible_value_named(ipython):
    out, err = ipython("-c", "%disco start")
    assert "2 workers in 2 groups · threads" in out
    (line,) = (line for line in err.splitlines() if "disco" in line)
    assert line == (
        "disco_magic: DiscoMagics.output stays 'live': The 'output' trait of a DiscoMagics instance expected "
        "any of ['live', 'ordered', 'grouped', 'worker0', 'none'], not the str 'loud'."
    )


def test_the_command_line_comes_before_the_profile_and_that_before_the_environment(ipython):
    line = ["--DiscoMagics.workers=3", "--DiscoMagics.groups=1"]
    text = PROFILE.replace("loud", "grouped")
    out, err = ipython(*line, "-c", "%disco start", profile_text=text, DISCO_WORKERS="5", DISCO_OUTPUT="loud")
    assert re.search(r"3 workers · threads · cpu · plane threads$", out.strip())
    assert "disco" not in err


def test_a_kernel_takes_settings_on_its_command_line_and_from_the_environment(monkeypatch):
    from jupyter_client.manager import start_new_kernel

    env = {"PYTHONPATH": str(ROOT), "DISCO_OUTPUT": "ordered", "PYTHONWARNINGS": "ignore"}
    for name, text in (env | {"PYDEVD_DISABLE_FILE_VALIDATION": "1", "NO_COLOR": "1"}).items():
        monkeypatch.setenv(name, text)
    arguments = ["--DiscoMagics.workers=2", "--DiscoMagics.timeout=never"]
    manager, client = start_new_kernel(kernel_name="python3", extra_arguments=arguments)
    try:
        shown = []

        def show(message):
            content = message["content"]
            shown.append(content.get("text") or content.get("data", {}).get("text/plain", ""))

        client.execute_interactive("%load_ext disco_magic", output_hook=show, timeout=30)
        assert "DiscoMagics.timeout stays None: " in "".join(shown)
        shown.clear()
        client.execute_interactive("%%disco\nprint(worker_id)", output_hook=show, timeout=30)
        start, *lines = "\n".join(filter(None, shown)).split("\n")
        assert start.endswith("2 workers · threads · cpu · plane threads")
        assert list(filter(None, lines)) == ["[0] 0", "[1] 1"]
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
