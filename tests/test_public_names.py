"""What ``import disco_magic as disco`` offers, and what it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest

import disco_magic as disco
from disco_magic import testing


def python(code):
    """Run code in an interpreter of its own; what it printed."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603 - our own code
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("name", disco.__all__)
def test_every_public_name_is_there(name):
    assert getattr(disco, name).__doc__


@pytest.mark.parametrize("contract", ["channel", "launcher", "plane"])
def test_the_checks_of_every_contract_can_be_imported_from_testing(contract):
    check, checks = getattr(testing, f"check_{contract}"), getattr(testing, f"{contract.upper()}_CHECKS")
    assert check.__name__ in testing.__all__
    assert check.__doc__
    assert len(checks) > 3
    assert all(rule.__doc__ for rule in checks)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'ThredSession'"):
        disco.ThredSession  # noqa: B018 - looking is the test


def test_completion_offers_the_public_names():
    assert [name for name in dir(disco) if not name.startswith("_")] == sorted(disco.__all__)


@pytest.mark.parametrize("first", ["disco.ThreadedSession", "disco.session", "disco.worker", "None"])
def test_session_and_worker_can_be_called_whatever_was_loaded_before(first):
    # A folder and a file of the package have the same names; loading them used to replace the functions.
    code = f"import disco_magic as disco; {first}; import disco_magic.session.config"
    assert python(f"{code}; print(callable(disco.session), callable(disco.worker))") == ["True", "True"]


def test_the_import_alone_loads_nothing_but_the_package_itself():
    code = "import sys; import disco_magic; print(*(m for m in sys.modules if m.startswith('disco_magic')))"
    assert python(code) == ["disco_magic"]


@pytest.mark.parametrize("package", ["numpy", "IPython", "cupy", "mpi4py"])
def test_the_import_alone_loads_no_other_package(package):
    assert python(f"import sys, disco_magic; print({package!r} in sys.modules)") == ["False"]


def test_a_session_offers_what_users_call_and_not_what_its_parts_say_to_each_other():
    offered = """
        allgather allreduce alltoall barrier bind_worker_to_cpu_core broadcast
        broadcast_from_worker0 call_packed check closed copy_from_worker_0 copy_to_worker_0 device devices
        doctor empty end examine examine_names examine_pair gather_to_worker0 get_global_func group_size id
        import_python_module init_ccl interrupt items keys kind
        load_safetensors load_tensor_cache load_vm_module look_at look_into max_outstanding mesh names
        num_groups num_workers own_modules plane_name put reduce reduce_scatter registers restart run run_file
        run_module run_nowait scatter scatter_from_worker0
        send_to_next_group send_to_worker shutdown stats sync_all sync_all_async sync_worker
        sync_worker_0 timeline timeout topology values why
    """
    with disco.ThreadedSession(1) as session:
        assert [name for name in dir(session) if not name.startswith("_")] == offered.split()
