"""The sender's chat and the log: what agrees, what is displaced, what is new."""
