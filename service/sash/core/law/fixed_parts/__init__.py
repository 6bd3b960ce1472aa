"""What every window of a conversation has: settings, system prompt, few-shots, tool definitions, terms."""
