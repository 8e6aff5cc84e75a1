"""Classifiers on frozen vectors, trained as the SentEval toolkit trains them."""
