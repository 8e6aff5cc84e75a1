"""Tools for trained encoders: bundling a run's encoder as a checkpoint, adding words to a vocabulary."""
