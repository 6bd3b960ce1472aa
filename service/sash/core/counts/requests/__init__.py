"""A provider's own request and its bill: counted whole, compared, corrected."""
