"""A small grammar of meanings, said in English (with a tree), French and German; see ``data.sources.grammar``."""
