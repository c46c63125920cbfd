"""OfficeBench (zlwang-cs/OfficeBench): office work over word, excel, calendar, email, pdf, ocr and shell apps.

The checkout's own apps and evaluators run, in their own interpreter and without docker: every task has a folder of
its own, which a sandbox shows as /testbed.

    python=PATH         an interpreter with what the apps need; the checkout's .venv unless given
    sandbox=bwrap       bubblewrap shuts the agent's shell in: no network, nothing of the machine can be written
    sandbox=proot       where bubblewrap is not allowed: paths are mapped, nothing is shut in
    splits=FILE         JSON, split names to lists of task ids: splits that the checkout does not name
    llm=MODEL           who answers in OfficeBench's llm app; without it the app is not offered
"""

from .adapter import OfficeBench, benchmark

__all__ = ["OfficeBench", "benchmark"]
