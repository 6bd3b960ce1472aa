"""``sash logs-hash``: print the hash of a conversation in log lines."""

import click

from sash.commands.store import refuse, with_store
from sash.core.chat.bounds import IDS


@click.command("logs-hash")
@click.argument("conversation", metavar="ID")
@click.option("--tenant", default="default", show_default=True, help="Tenant of the conversation.")
def logs_hash(conversation: str, tenant: str) -> None:
    """Print the hash that stands for a conversation in log lines.

    \b
    Find the conversation's lines with it:
      grep "$(sash logs-hash c-1)" sash.log
    """
    from sash.operations.requests import PSEUDONYMS_KEY, Pseudonyms  # noqa: PLC0415 - help needs no store

    for name in (conversation, tenant):
        if not IDS.fullmatch(name):
            refuse([f"{name!r} is no id: letters, digits, . _ -, at most 128"])
    (key,) = with_store(lambda client, _: client.commands([("GET", PSEUDONYMS_KEY)]))
    if key is None:
        refuse(["no service has run on this store: use the service's SASH_DATA_DIR or SASH_REDIS_URL"])
    click.echo(Pseudonyms(key).of(tenant, conversation))
