"""OpenAI's forms: chat completions and Responses."""
