"""The task's tools as typed functions, for frameworks that read signatures and docstrings."""

from helpers import task


def read_page(page: int) -> str:
    """Read one page of the ledger.

    Args:
        page: Its number.
    """
    return task.run_tool("read_page", {"page": page})


def trace_lot(page: int, lot: str) -> str:
    """Find out what happened to a lot.

    Args:
        page: The page that was just read.
        lot: The lot's number.
    """
    return task.run_tool("trace_lot", {"page": page, "lot": lot})


def verify_balance(page: int, expected: int) -> str:
    """Check the balance carried on a page.

    Args:
        page: Its number.
        expected: The balance it should carry.
    """
    return task.run_tool("verify_balance", {"page": page, "expected": expected})


FUNCTIONS = [read_page, trace_lot, verify_balance]
