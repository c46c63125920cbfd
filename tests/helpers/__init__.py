"""Helpers that the tests of focusctx and of focusctx-bench share: servers, agents, histories, oracles."""
