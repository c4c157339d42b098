"""Work in pieces: here, in a pool of processes, or on any other executor; a worker that dies loses nothing."""

import signal
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any


def process_pool(workers: int = 2) -> ProcessPoolExecutor:
    """Give an executor of so many processes, `workers` on this machine, which outlive an interrupted cell."""
    return ProcessPoolExecutor(
        workers, get_context("spawn"), initializer=signal.signal, initargs=(signal.SIGINT, signal.SIG_IGN)
    )


def completed(
    work: Callable[..., Any], tasks: dict[str, tuple], executor: Executor | None = None
) -> Iterator[tuple[str, Any]]:
    """Give the name of each task and what `work` makes of its arguments, as it gets done.

    `executor` is any `concurrent.futures.Executor`: a `process_pool`, or the `get_executor()` of a
    `dask.distributed` client, for many machines; with None the work is done in this process. What an
    executor that breaks down leaves undone is done in this process, with a warning. Raises
    `RuntimeError`, which names the task, where it fails; tasks that have not begun are then cancelled.
    """
    if executor is None:
        for name, arguments in tasks.items():
            with _naming(name):
                result = work(*arguments)
            yield name, result
        return
    futures = {_submit(executor, work, arguments): name for name, arguments in tasks.items()}
    try:
        for future in as_completed(futures):
            name = futures[future]
            with _naming(name):
                try:
                    result = future.result()
                except BrokenExecutor as error:
                    warnings.warn(f"what the executor leaves undone is done here, for it broke: {error}", stacklevel=3)
                    result = work(*tasks[name])
            yield name, result
    finally:
        for future in futures:
            future.cancel()


def _submit(executor: Executor, work: Callable[..., Any], arguments: tuple) -> Future:
    try:
        return executor.submit(work, *arguments)
    except BrokenExecutor as error:
        future = Future()
        future.set_exception(error)
        return future


@contextmanager
def _naming(task: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise RuntimeError(f"the {task} failed: {error}") from error
