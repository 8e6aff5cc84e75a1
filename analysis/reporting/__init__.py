"""Reports on SentEval results: averages over seeds, intervals, ensembles, tables with the papers' rows."""
