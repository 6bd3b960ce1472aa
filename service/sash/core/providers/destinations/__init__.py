"""Who reads a request: a form, a maker, a host and a template together. What is known of each is a row with its evidence."""
