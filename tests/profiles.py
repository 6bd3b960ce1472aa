"""How often Hypothesis draws: each profile has one number of examples, and each property asks for a factor of it.

``--hypothesis-profile`` chooses: ``ci``, the default, ``quick`` or ``nightly``. A property that costs little asks for
nothing; one that calls a server, or runs for each provider, for less; one whose defects are rare for more. No test has a
number of its own.

Nightly draws other examples in each run. The others draw the same ones, so that a test fails only after a change.
"""

from hypothesis import HealthCheck, settings

PROFILES = {"quick": 10, "ci": 25, "nightly": 1000}
"""Examples of a property, by profile."""
# An example takes as long as it takes on a busy machine, and examples share an application as tests do.
_UNCHECKED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def register() -> None:
    """Register the profiles and load ``ci``; what ``--hypothesis-profile`` names is loaded after that."""
    for name, number in PROFILES.items():
        settings.register_profile(
            name,
            parent=settings(),
            max_examples=number,
            derandomize=name != "nightly",
            deadline=None,
            suppress_health_check=_UNCHECKED,
        )
    settings.load_profile("ci")


def examples(factor: float) -> settings:
    """Return settings with ``factor`` times the examples of the loaded profile, at least one."""
    return settings(max_examples=max(1, round(factor * settings.default.max_examples)))
