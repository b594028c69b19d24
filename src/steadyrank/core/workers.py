"""Runs many independent jobs, on this machine's cores or on a Ray cluster, and stops cleanly when interrupted."""

import os
import pathlib
import sys
import threading
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, TypeVar

_TURN = 0.0005  # seconds: while one thread compiles, the others wait no longer for what they do in Python
_AHEAD = 2  # tasks that Ray is given for each of its processors
_PATIENCE = "RAY_gcs_server_port_wait_time_s"  # Ray's own name: seconds that it waits for its first process
_PATIENT = "120"  # of them, where Ray waits 30: on a busy machine it needs more
_NICENESS = "RAY_worker_niceness"  # Ray's own name; it runs tasks at 15 unless told otherwise, a local run at 0

J = TypeVar("J")
R = TypeVar("R")


class Interrupted(Exception):
    """Raised inside a job that should not go on."""


def check_place(on: str) -> None:
    """Refuse a place where jobs cannot run, before any work is done."""
    if on != "local" and on != "ray" and not on.startswith("ray://"):
        raise ValueError(f"on must be local, ray or ray://HOST, not {on!r}")
    if on != "local":
        try:
            import grpc  # noqa: F401  # a cluster is reached through it
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
    """Each job with its result, in the order in which they end. Close it, and jobs under way are stopped.

    A local job is taken from `jobs` when a worker is free for it, after the result before it was handed out.

    `function(job, pulse)` calls `pulse` now and then; it raises `Interrupted` once the others are stopping. Local
    jobs run in threads, so they should spend their time in compiled code. The first error stops all and is raised.
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
        sys.setswitchinterval(_TURN)
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
    """One task a job. On a cluster the nodes receive this package and need its dependencies only.

    Ray holds what tasks are given in memory, so few wait at a time; those that wait tell it to add nodes.
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
            room = _AHEAD * max(int(ray.cluster_resources().get("CPU", 1)), 1)
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
    """A Ray of this machine. Where others keep it busy, the processes of Ray may not answer each other in time.

    One that did not start leaves traces that the next `ray.init` of the process waits for without end: so there is
    one try, and a long one.
    """
    import ray

    if ray.is_initialized():
        raise ValueError("this process uses a Ray already: call ray.shutdown() before work is given to another")
    os.environ.setdefault(_PATIENCE, _PATIENT)
    os.environ.setdefault(_NICENESS, "0")
    try:
        ray.init(include_dashboard=False, log_to_driver=False)
    except Exception as error:  # Ray has no kind of its own for it
        raise ConnectionError(
            f"Ray did not start on this machine ({error}). It may be too busy: try again, with a larger {_PATIENCE} "
            f"than {os.environ[_PATIENCE]}, or without --on ray, which needs no Ray"
        ) from error


def _in_task(function: Callable[[Any, Callable[[], None]], R], job: Any) -> R:
    return function(job, lambda: None)  # Ray ends its tasks itself
