"""Imported by every Python of the two builds, and by no other: PYTHONPATH points here then.

BlueFog 0.3.0 and Horovod 0.28.1 call torch's build helpers as they were years ago.
"""

import os


def _translate() -> None:
    import torch.utils.cpp_extension as extension

    include_paths = extension.include_paths

    def with_old_argument(*arguments, cuda=None, **keywords):
        """`include_paths(cuda=True)`, whose argument is `device_type` today."""
        if cuda is not None:
            keywords["device_type"] = "cuda" if cuda else "cpu"
        return include_paths(*arguments, **keywords)

    extension.include_paths = with_old_argument
    if os.environ["EXPOGRAPH_BUILD_CUDA"] == "0":
        # an nvcc without its libraries on the machine: CMake would look for the rest of it
        extension.CUDA_HOME = None


try:
    _translate()
except ImportError:
    pass  # a Python without torch, such as the one that starts cmake
