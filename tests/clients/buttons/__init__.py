"""Each adapter, and each thing that people press in a chat."""
