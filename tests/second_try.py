"""A second try, alone, for tests that failed in a run: ``pytest -p tests.second_try --second-tries=FILE``.

Of twenty thousand tests beside threads, one may lose a race of its own on a busy machine. Continuous
integration would refuse a change that has nothing to do with it, so it tries up to two tests again and names
them at its end, as CPython's own tests do. Such a test is wrong all the same, or has found a race of the
package's: it is to be mended. More than two are no accident. Who runs the tests by hand sees each failure.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

AT_MOST = 2


def pytest_addoption(parser):
    parser.addoption("--second-tries", type=Path, help="try failed tests again, write those that pass here")


def pytest_configure(config):
    if config.getoption("second_tries") and not hasattr(config, "workerinput"):  # not in a process of xdist
        config.pluginmanager.register(SecondTries(config))


class SecondTries:
    """What has failed in this run, and whether it does so again."""

    def __init__(self, config):
        self.config = config
        self.failed = {}  # in their order, each once: a test and its teardown can both fail
        self.is_whole = True
        self.record = config.getoption("second_tries")
        self.record.unlink(missing_ok=True)

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed[report.nodeid] = True

    def pytest_collectreport(self, report):
        if report.failed:
            self.is_whole = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error):
        """A process of xdist has ended; one that crashed has left tests that nobody runs."""
        if error:
            self.is_whole = False

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session, exitstatus):
        """After all others have finished: what failed is told, and what is covered is written."""
        yield
        if exitstatus == pytest.ExitCode.TESTS_FAILED and self.is_whole and 0 < len(self.failed) <= AT_MOST:
            print(f"\nTrying again, alone: {', '.join(self.failed)}", flush=True)
            if self._passes():
                session.exitstatus = pytest.ExitCode.OK
                told = "{} failed, and passed when it was tried again, alone\n"
                self.record.write_text("".join(map(told.format, self.failed)))

    def _passes(self):
        measured = self.config.getoption("cov_source", None)
        more = ["--cov", "--cov-append", "--cov-report="] if measured else []
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *more, *self.failed]
        return not subprocess.run(command, cwd=self.config.rootpath, check=False).returncode  # noqa: S603 - ours
