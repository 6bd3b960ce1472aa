"""What is measured of a message once, when it is stored: texts, calls, media, as rows of numbers."""
