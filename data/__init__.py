"""Text on its way to an encoder: sources, token store, views, batches."""
