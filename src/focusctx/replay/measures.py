"""The figures of tables and pictures, as functions of one record."""

from __future__ import annotations

from .record import PointRecord, RunRecord


def recall(record: RunRecord | PointRecord) -> float | None:
    return record.recall


def whole(record: RunRecord | PointRecord) -> float | None:
    """Return the share of fully supported actions of a walk, or True for a point that kept everything needed."""
    return record.supported if isinstance(record, RunRecord) else record.complete


def span_share(record: RunRecord | PointRecord) -> float | None:
    return record.span_share


def history_share(record: RunRecord | PointRecord) -> float | None:
    return record.history_share


def peak(record: RunRecord) -> float:
    return record.peak


def dependency(record: RunRecord) -> float:
    return record.dependency


def events(record: RunRecord) -> float:
    return record.events


def cost(record: RunRecord) -> float | None:
    return record.cost


def cost_cached(record: RunRecord) -> float | None:
    return record.cost_cached


def draft_tokens(record: RunRecord) -> float:
    return record.usage.input_tokens + record.usage.output_tokens


def at_its_least(record: RunRecord | PointRecord) -> float | None:
    """Return the share of due steps at which a comparator could not go as low as required."""
    if isinstance(record, PointRecord):
        return float(record.floored)
    return record.floored / len(record.due) if record.due else None
