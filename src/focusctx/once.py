"""Warnings that are logged once: an agent repeats its history at every step, and with it every problem in it."""

from __future__ import annotations

import logging

_MOST = 1000
"""Most texts remembered; then all are forgotten, and may be logged again."""


class Once:
    """Logs each text once. Usable from several threads: at worst a text is logged twice."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._said: set[str] = set()

    def warning(self, text: str) -> None:
        if text in self._said:
            return
        if len(self._said) >= _MOST:
            self._said.clear()
        self._said.add(text)
        self._log.warning("%s", text)
