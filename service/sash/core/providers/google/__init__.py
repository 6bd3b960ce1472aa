"""Google's forms: Gemini and Interactions."""
