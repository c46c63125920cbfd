"""Studies of recorded runs: single events at points, agreement, the estimator study, ablations, reports."""
