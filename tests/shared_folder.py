"""Resources shared by all processes of a run: created by the first one that needs them, while the others wait."""

import contextlib
import fcntl
import os


@contextlib.contextmanager
def shared_folder(tmp_path_factory, name):
    """A folder for all processes of this run, locked while open; the caller creates what is missing in it."""
    base = tmp_path_factory.getbasetemp()  # with several test processes, a folder inside that of the run
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / name
    folder.mkdir(exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
