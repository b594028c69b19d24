"""What all processes of a run share: made by the first one that needs it, while the others wait."""

import contextlib
import fcntl
import os


@contextlib.contextmanager
def shared_folder(tmp_path_factory, name):
    """A folder for all processes of this run, one of them at a time in here; what is missing in it, it makes."""
    base = tmp_path_factory.getbasetemp()  # of one test process among several, it lies in that of the run
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
