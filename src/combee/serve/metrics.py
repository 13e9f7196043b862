"""Numbers of one tenant for Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from combee.serve.service import Service

__all__ = ["metrics_text"]


class _Ready(Collector):
    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


async def metrics_text(service: Service, tenant: str) -> bytes:
    """Return the metrics of a tenant in Prometheus' text format."""
    backlog = await service.backlog(tenant)
    gauges = {
        "combee_backlog_traces": ("Traces that wait or are being learned.", backlog.waiting + backlog.learning),
        "combee_backlog_oldest_seconds": ("Age of the oldest of them.", backlog.oldest),
        "combee_arrival_traces_per_second": ("Traces that came, over the last ten seconds.", backlog.arrival),
        "combee_consumption_traces_per_second": ("Traces that a generation learns.", backlog.consumption),
    }
    found: list[Metric] = []
    for name, (about, value) in gauges.items():
        gauge = GaugeMetricFamily(name, about)
        gauge.add_metric([], value)
        found.append(gauge)
    tables = (
        ("combee_traces", "Traces by what became of them.", "SELECT state, count(*) FROM traces"),
        ("combee_generations", "Generations by state.", "SELECT state, count(*) FROM generations"),
        ("combee_trials", "Trials by how they ended.", "SELECT state, count(*) FROM trials"),
        ("combee_alerts", "Alerts by kind.", "SELECT kind, count(*) FROM alerts"),
    )
    for name, about, sql in tables:
        label = sql.split()[1].rstrip(",")
        gauge = GaugeMetricFamily(name, about, labels=[label])
        for value, count in await service.store.rows(f"{sql} WHERE tenant = ? GROUP BY {label}", tenant):
            gauge.add_metric([str(value)], count)
        found.append(gauge)
    cost = CounterMetricFamily("combee_cost_dollars", "What learning cost, where prices are known.")
    rows = await service.store.rows("SELECT result FROM generations WHERE tenant = ? AND result IS NOT NULL", tenant)
    cost.add_metric([], sum(json.loads(row[0]).get("cost") or 0.0 for row in rows))
    found.append(cost)
    trial = await service.store.one(
        "SELECT evidence FROM trials WHERE tenant = ? AND ended IS NULL ORDER BY started DESC LIMIT 1", tenant
    )
    evidence = GaugeMetricFamily("combee_canary_evidence", "Evidence of the trial that runs.", labels=["against"])
    if trial and trial[0]:
        for name in ("worse", "good"):
            evidence.add_metric([name], json.loads(trial[0])[name])
    found.append(evidence)
    registry = CollectorRegistry()
    registry.register(_Ready(found))
    return generate_latest(registry)
