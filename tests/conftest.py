"""What several test files share."""

import pytest
from filelock import FileLock


@pytest.fixture
def all_cores(tmp_path_factory):
    """For a test that takes every core: one at a time, whatever pytest-xdist runs beside it."""
    with FileLock(tmp_path_factory.getbasetemp().parent / "all-cores.lock"):
        yield
