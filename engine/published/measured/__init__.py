"""A user's own measurements beside our predictions: rows read, priced, judged, and a part's constants fitted."""
