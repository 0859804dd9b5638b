"""Errors that whoever typed the command can mend: one line each, no traceback."""

from expograph.cluster.launch import JobError
from expograph.config import ConfigError
from expograph.data import DataUnavailable
from expograph.files import DamagedFile
from expograph.graphs.checks import ScheduleError
from expograph.report.reading import ReportError
from expograph.runs.store import ResultsError

MENDABLE = (
    ConfigError,
    DamagedFile,
    DataUnavailable,
    JobError,
    ReportError,
    ResultsError,
    ScheduleError,
)
