"""What several test files share."""

import signal

import pytest
from filelock import FileLock

# a shell's background job ignores Ctrl-C, and so would every process that a test interrupts
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup


@pytest.fixture
def all_cores(tmp_path_factory):
    """For a test that takes every core: one at a time, whatever pytest-xdist runs beside it."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "all-cores.lock"):
        yield
