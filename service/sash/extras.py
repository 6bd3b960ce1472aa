"""How to install an extra. No package index has Sash, so the commands name the clone or the wheel that it came from."""


def how_to_install(extra: str) -> str:
    """The sentence that says how, without a full stop.

    >>> how_to_install("otel")
    "install the extra otel: pip install '.[otel]' in Sash's folder, or pip install 'sash-VERSION.whl[otel]' with its wheel"
    """
    return (
        f"install the extra {extra}: pip install '.[{extra}]' in Sash's folder, or pip install 'sash-VERSION.whl[{extra}]' "
        "with its wheel"
    )
