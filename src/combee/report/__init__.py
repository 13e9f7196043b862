"""Reports that people read: one HTML file a run or comparison, and plots as SVG. Nothing comes from the network."""

from __future__ import annotations

from combee.report.read import RunRecord, read_run
from combee.report.run import REPORT_NAME, run_page, write_report
from combee.report.svg import Mark, Plot, Series, bar_plot, line_plot

__all__ = [
    "REPORT_NAME",
    "Mark",
    "Plot",
    "RunRecord",
    "Series",
    "bar_plot",
    "line_plot",
    "read_run",
    "run_page",
    "write_report",
]
