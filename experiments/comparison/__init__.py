"""Implementation of ``experiments/compare.py``: a grid of runs, and the page that shows them."""
