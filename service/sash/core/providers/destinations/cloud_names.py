"""What long names of models at clouds are made of."""

from typing import Final

OF_NAMES: Final = (
    b"accounts/fireworks/models/openrouter/amazon.nova-pro-v1:0mistral.ministral-meta.llama3-70b-instruct-v1:0"
    b"arn:aws:bedrock:us-west-2eu-central-1us-east-1:foundation-modelapplication-inference-profile/apac.jp.eu.us.global."
    b"anthropic.claude-haiku-4-5-20251001-v1:0opus-4-1-20250805sonnet-4-5-20250929-v1:0"
)
"""zlib's dictionary for them. It stays, as receipts are read with it."""
