"""Builds the HTML page that compares objectives and encoders, from the files of their runs."""
