"""What ``experiments/compare.py`` does: a grid of runs, and the page that shows them."""
