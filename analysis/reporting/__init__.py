"""Reports on SentEval results: averages over seeds, intervals, ensembles, tables beside the papers' rows."""
