"""How the kernel gets to where Jupyter looks for it."""

from __future__ import annotations

import json
import sys

import pytest
from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

from disco_magic.notebook import kernelspec

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """An empty place that Jupyter looks into, alone; kernels of the user would lie beside it.

    ``make lab`` installs the kernel in the environment of these tests, where Jupyter would find it, too.
    """
    monkeypatch.setattr("jupyter_core.paths.ENV_JUPYTER_PATH", [])
    monkeypatch.setattr("jupyter_core.paths.SYSTEM_JUPYTER_PATH", [])
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path / "share" / "jupyter"))
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "of_user"))
    return tmp_path


def run(capsys, *arguments):
    """Exit status or message, and what was printed."""
    status = kernelspec.main(arguments)
    return status, capsys.readouterr().out


def test_the_folder_in_the_tree_holds_what_a_launcher_shows():
    folder = kernelspec.data_folder()
    assert sorted(path.name for path in folder.iterdir()) == [
        "kernel.json",
        "logo-32x32.png",
        "logo-64x64.png",
        "logo-svg.svg",
    ]
    for size in (32, 64):
        image = (folder / f"logo-{size}x{size}.png").read_bytes()
        assert image.startswith(PNG)
        assert [int.from_bytes(image[at : at + 4], "big") for at in (16, 20)] == [size, size]


def test_jupyter_finds_what_was_installed(prefix, capsys):
    status, out = run(capsys, "install", "--prefix", str(prefix))
    assert status == 0
    found = KernelSpecManager().get_kernel_spec("disco")
    assert found.resource_dir in out
    assert found.argv[0] == sys.executable
    assert found.argv[1:3] == ["-m", "disco_magic.notebook.kernel"]
    assert found.argv[-1] == "{connection_file}"
    assert (found.display_name, found.language, found.interrupt_mode) == ("Disco (SPMD)", "python", "signal")


def test_options_and_names_make_kernels_of_their_own(prefix, capsys):
    run(capsys, "install", "--prefix", str(prefix), "--name", "disco8", "--workers", "8", "--ccl", "threads")
    run(capsys, "install", "--prefix", str(prefix), "--name", "mine", "--display-name", "My workers")
    eight = KernelSpecManager().get_kernel_spec("disco8")
    assert eight.argv[-2:] == ["--workers=8", "--ccl=threads"]
    assert eight.display_name == "Disco (SPMD) disco8"
    assert KernelSpecManager().get_kernel_spec("mine").display_name == "My workers"


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        (("--workers", "0"), "'0' is not a count; write a number, 1 or more"),
        (("--groups", "two"), "'two' is not a count; write a number, 1 or more"),
        (("--mesh", "dp"), "mesh is 'dp', expected names of axes with their lengths"),
        (("--kind", "processes"), "invalid choice: 'processes'"),
        (("--ccl", "mpi"), "invalid choice: 'mpi'"),
    ],
)
def test_options_that_no_session_takes_install_nothing(prefix, capsys, option, reason):
    with pytest.raises(SystemExit, match="2"):
        kernelspec.main(["install", "--prefix", str(prefix), *option])
    assert reason in capsys.readouterr().err
    assert not (prefix / "share").exists()


def test_workers_that_cannot_be_split_into_the_groups_install_nothing(prefix, capsys):
    status, _ = run(capsys, "install", "--prefix", str(prefix), "--workers", "4", "--groups", "3")
    assert status == "4 workers cannot be split into 3 equal groups; num_groups can be one of [1, 2, 4]"
    assert not (prefix / "share").exists()


def test_a_mesh_that_does_not_fit_the_rest_installs_nothing(prefix, capsys):
    status, _ = run(capsys, "install", "--prefix", str(prefix), "--workers", "4", "--mesh", "dp=2,tp=3")
    assert status.startswith("a mesh dp=2 tp=3 needs 6 workers, but 4 were asked for")
    status, _ = run(capsys, "install", "--prefix", str(prefix), "--groups", "4", "--mesh", "dp=2,tp=3")
    assert status.startswith("6 workers cannot be split into 4 equal groups")
    assert not (prefix / "share").exists()
    assert run(capsys, "install", "--prefix", str(prefix), "--mesh", "dp=2,tp=3")[0] == 0
    assert KernelSpecManager().get_kernel_spec("disco").argv[-1] == "--mesh=dp=2,tp=3"


def test_installing_again_replaces_the_options(prefix, capsys):
    run(capsys, "install", "--prefix", str(prefix), "--workers", "8")
    run(capsys, "install", "--prefix", str(prefix))
    assert KernelSpecManager().get_kernel_spec("disco").argv[-1] == "{connection_file}"


def test_sys_prefix_and_user_say_where(prefix, capsys, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(prefix / "environment"))
    status, _ = run(capsys, "install", "--sys-prefix")
    assert status == 0
    assert (prefix / "environment" / "share" / "jupyter" / "kernels" / "disco" / "kernel.json").is_file()
    status, _ = run(capsys, "install", "--user")
    assert status == 0
    assert (prefix / "of_user" / "kernels" / "disco" / "kernel.json").is_file()


def test_uninstall_removes_it_and_says_what(prefix, capsys):
    run(capsys, "install", "--prefix", str(prefix))
    status, out = run(capsys, "uninstall")
    assert status == 0
    assert out.startswith("removed ")
    with pytest.raises(NoSuchKernel):
        KernelSpecManager().get_kernel_spec("disco")


def test_uninstall_removes_it_from_where_it_is_told_to(prefix, capsys):
    places = {
        "--user": prefix / "of_user" / "kernels" / "disco",
        "--prefix": prefix / "share" / "jupyter" / "kernels" / "disco",
    }
    told = {"--user": ("--user",), "--prefix": ("--prefix", str(prefix))}
    for option, folder in places.items():
        for each in told.values():
            assert run(capsys, "install", *each)[0] == 0
        status, out = run(capsys, "uninstall", *told[option])
        assert (status, out) == (0, f"removed {folder}\n")
        assert [each.exists() for each in places.values()].count(True) == 1
        status, _ = run(capsys, "uninstall", *told[option])
        assert "no kernel 'disco'" in str(status)


def test_uninstall_of_what_is_not_there_says_so(prefix, capsys):
    status, _ = run(capsys, "uninstall", "--name", "nobody")
    assert "no kernel 'nobody'" in str(status)


def test_uninstall_leaves_other_kernels_alone(prefix, capsys):
    folder = prefix / "share" / "jupyter" / "kernels" / "other"
    folder.mkdir(parents=True)
    (folder / "kernel.json").write_text(
        json.dumps({"argv": ["python", "-m", "other"], "display_name": "", "language": ""})
    )
    status, _ = run(capsys, "uninstall", "--name", "other")
    assert "not one of disco_magic" in str(status)
    assert (folder / "kernel.json").is_file()


def test_a_place_that_cannot_be_written_is_one_line_with_the_way_out(prefix, capsys, monkeypatch):
    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied", "/usr/share")

    monkeypatch.setattr(KernelSpecManager, "install_kernel_spec", refuse)
    status, _ = run(capsys, "install")
    assert "Permission denied" in str(status)
    assert "--user" in str(status)


def test_names_that_jupyter_does_not_take_are_refused(prefix, capsys):
    status, _ = run(capsys, "install", "--prefix", str(prefix), "--name", "a b")
    assert "a b" in str(status)


def test_the_wheels_own_files_are_found(prefix, monkeypatch, tmp_path):
    from importlib.metadata import PackagePath

    class Installed(PackagePath):
        def locate(self):
            return tmp_path / self

    target = tmp_path / "lib" / ".." / "share" / "jupyter" / "kernels" / "disco" / "kernel.json"
    (tmp_path / "lib").mkdir()
    target.resolve().parent.mkdir(parents=True)
    target.write_text("{}")
    monkeypatch.setattr(kernelspec, "__file__", str(tmp_path / "lib" / "disco_magic" / "notebook" / "x.py"))
    listed = [
        Installed("disco_magic/__init__.py"),
        Installed("lib/../share/jupyter/kernels/disco/kernel.json"),
    ]
    monkeypatch.setattr(kernelspec, "files", lambda _: listed)
    assert kernelspec.data_folder() == target.resolve().parent
    monkeypatch.setattr(kernelspec, "files", lambda _: None)
    with pytest.raises(FileNotFoundError, match="install the package again"):
        kernelspec.data_folder()


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_the_module_hands_both_commands_over(command, prefix, monkeypatch):
    from disco_magic.notebook import kernel

    handed = []
    monkeypatch.setattr(kernelspec, "main", lambda arguments: handed.append(list(arguments)) or 0)
    monkeypatch.setattr(sys, "argv", ["kernel.py", command, "--name", "x"])
    with pytest.raises(SystemExit) as ended:
        kernel.main()
    assert (ended.value.code, handed) == (0, [[command, "--name", "x"]])
