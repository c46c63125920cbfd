"""τ²-bench (sierra-research/tau2-bench): an agent serves a customer by the rules of a shop, an airline, a telephone
company. The checkout's own code runs the tools, the simulated customer and the evaluation, in its own interpreter.

    domain=retail | airline | telecom
    user=MODEL          who plays the customer; needed
    judge=MODEL         who judges what was said, where a task wants that; the customer's model unless given
    python=PATH         the checkout's interpreter; its .venv unless given
    tau_bench=FOLDER    a checkout of sierra-research/tau-bench, to rebuild a missing airline/db.json from
"""

from .adapter import Tau2, benchmark

__all__ = ["Tau2", "benchmark"]
