"""The declaration of a provider's form: ``Provider``, its limits, cache marks, kinds of parts, members."""
