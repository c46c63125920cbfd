"""The paper's estimator study on recorded runs: does the share of citing sketches settle, and on what?"""
