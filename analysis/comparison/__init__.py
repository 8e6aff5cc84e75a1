"""A comparison of objectives and encoders as one page: pure builders, from what runs left behind to HTML."""
