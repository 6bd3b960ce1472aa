"""What was read of a conversation, and what is sent of it: order, views, compactions, results, lines, fillers."""
