"""SentEval's files: download, checks, and examples read from them."""
