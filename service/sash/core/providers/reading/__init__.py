"""Messages of any form as chat messages: what was given, recognised, enclosed, interrupted."""
