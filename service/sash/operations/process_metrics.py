"""Metrics of the process itself: its load, memory and files, under Prometheus's usual names where it has some."""

from prometheus_client.process_collector import ProcessCollector

from sash import __version__
from sash.operations.registry import Registry
from sash.processor import PROCESSOR


class ProcessMetrics:
    """Gauges of the current load, memory and files, set a few times a second."""

    def __init__(self, registry: Registry) -> None:
        gauge = registry.gauge
        gauge("sash_build_info", "The running version.", "version", workers="max")(__version__).set(1)
        gauge("sash_workers", "Worker processes.").set(1)
        self._in_progress = gauge("sash_requests_in_progress", "Requests in progress.")
        self._jobs = gauge("sash_jobs_waiting", "Long jobs that wait for the processor of their worker.")
        self._waiting = gauge("sash_store_commands_waiting", "Commands that wait for the store, queued or sent.")
        self._connections = gauge(
            "sash_store_connections", "Connections to the store: idle, busy, or down and being opened.", "state"
        )
        self._process = ProcessCollector(registry=None)
        self._cpu_seconds = 0.0
        self._cpu = registry.counter("process_cpu_seconds_total", "User and system processor time of all workers.")
        self._of_process = {
            name: gauge(name, meaning, workers=workers)
            for name, meaning, workers in (
                ("process_resident_memory_bytes", "Resident memory of all workers.", "livesum"),
                ("process_open_fds", "Open file descriptors of all workers.", "livesum"),
                ("process_max_fds", "The smallest limit of open file descriptors among the workers.", "livemin"),
                ("process_start_time_seconds", "The start of the oldest worker, in seconds since 1970.", "livemin"),
            )
        }

    def set(self, in_progress: int, waiting: int, connections: dict[str, int]) -> None:
        """Set all gauges: ``waiting`` are commands that wait for the store, ``connections`` are by state."""
        self._in_progress.set(in_progress)
        self._jobs.set(PROCESSOR.waiting)
        self._waiting.set(waiting)
        for state, number in connections.items():
            self._connections(state).set(number)
        for family in self._process.collect():
            value = family.samples[0].value
            if family.name == "process_cpu_seconds":
                self._cpu.inc(max(0.0, value - self._cpu_seconds))
                self._cpu_seconds = value
            elif family.name in self._of_process:
                self._of_process[family.name].set(value)
