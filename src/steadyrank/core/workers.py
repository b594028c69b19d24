"""Run many independent jobs, on this machine's cores or on a Ray cluster, and stop cleanly when interrupted."""

import os
import pathlib
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

_SWITCH_INTERVAL = 0.0005  # seconds; limits how long threads wait for the interpreter while another one compiles
_QUEUED_PER_CPU = 2  # tasks submitted to Ray per processor
_TIMEOUT_VARIABLE = "RAY_gcs_server_port_wait_time_s"  # Ray's variable: seconds to wait for its first process
_TIMEOUT = "120"  # Ray's default of 30 is too short on a busy machine
_NICENESS_VARIABLE = "RAY_worker_niceness"  # Ray's variable; by default it runs tasks at 15, a local run at 0

J = TypeVar("J")
R = TypeVar("R")


class Interrupted(Exception):
    """Raised inside a job that should stop."""


def check_place(on: str) -> None:
    """Refuse an invalid place to run jobs, before any work is done."""
    if on != "local" and on != "ray" and not on.startswith("ray://"):
        raise ValueError(f"on must be local, ray or ray://HOST, not {on!r}")
    if on != "local":
        try:
            import grpc  # noqa: F401  # needed to connect to a cluster
            import ray  # noqa: F401
        except ModuleNotFoundError as error:
            raise ValueError(f"{error.name} is missing; install it with: pip install 'steadyrank[ray]'") from None


def run(
    function: Callable[[J, Callable[[], None]], R],
    jobs: Iterable[J],
    *,
    on: str = "local",
    workers: int | None = None,
) -> Generator[tuple[J, R], None, None]:
    """Yield each job with its result, in order of completion. Closing the generator stops the running jobs.

    A local job is taken from `jobs` when a worker is free for it, after the previous result was yielded.

    `function(job, pulse)` calls `pulse` now and then; it raises `Interrupted` once the jobs should stop. Local jobs
    run in threads, so they should spend their time in compiled code. The first error stops all jobs and is raised.
    """
    check_place(on)
    if on == "local":
        return _local(function, jobs, workers or os.cpu_count() or 1)
    return _ray(function, jobs, None if on == "ray" else on)


def _local(
    function: Callable[[J, Callable[[], None]], R], jobs: Iterable[J], workers: int
) -> Generator[tuple[J, R], None, None]:
    stop, turn = threading.Event(), sys.getswitchinterval()

    def pulse() -> None:
        if stop.is_set():
            raise Interrupted

    with ThreadPoolExecutor(workers) as pool:
        sys.setswitchinterval(_SWITCH_INTERVAL)
        waiting: dict[Future[R], J] = {}
        left = iter(jobs)
        try:
            while True:
                while len(waiting) < workers and (job := next(left, None)) is not None:
                    waiting[pool.submit(function, job, pulse)] = job
                if not waiting:
                    return
                done, _ = wait(waiting, return_when=FIRST_COMPLETED)
                for future in done:
                    yield waiting.pop(future), future.result()
        finally:
            stop.set()
            sys.setswitchinterval(turn)


def _ray(
    function: Callable[[J, Callable[[], None]], R], jobs: Iterable[J], address: str | None
) -> Generator[tuple[J, R], None, None]:
    """One task per job. The nodes of a cluster receive this package and only need its dependencies.

    Ray holds the arguments of submitted tasks in memory, so only a few are queued; these make it add nodes.
    """
    import ray

    if address is None:
        _start_ray()
    else:
        package = str(pathlib.Path(__file__).parents[1])
        ray.init(address=address, runtime_env={"py_modules": [package]}, log_to_driver=False)
    try:
        task: Any = ray.remote(num_cpus=1)(_in_task).remote
        waiting: dict[Any, J] = {}
        left = iter(jobs)
        while True:
            room = _QUEUED_PER_CPU * max(int(ray.cluster_resources().get("CPU", 1)), 1)
            while len(waiting) < room and (job := next(left, None)) is not None:
                waiting[task(function, job)] = job
            if not waiting:
                return
            done, _ = ray.wait(list(waiting))
            for reference in done:
                yield waiting.pop(reference), ray.get(reference)
    finally:
        ray.shutdown()


def _start_ray() -> None:
    """Start Ray on this machine, with a long timeout, because a busy machine delays its processes.

    A failed start leaves traces for which the next `ray.init` of the process would wait forever: so there is
    only one attempt.
    """
    import ray

    if ray.is_initialized():
        raise ValueError("this process already uses Ray: call ray.shutdown() first")
    os.environ.setdefault(_TIMEOUT_VARIABLE, _TIMEOUT)
    os.environ.setdefault(_NICENESS_VARIABLE, "0")
    try:
        ray.init(include_dashboard=False, log_to_driver=False)
    except Exception as error:  # Ray has no exception type for it
        raise ConnectionError(
            f"Ray did not start on this machine ({error}). It may be too busy: try again, with a "
            f"{_TIMEOUT_VARIABLE} above {os.environ[_TIMEOUT_VARIABLE]}, or without --on ray"
        ) from error


def _in_task(function: Callable[[Any, Callable[[], None]], R], job: Any) -> R:
    return function(job, lambda: None)  # Ray stops its tasks itself
