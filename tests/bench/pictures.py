"""Draws latency against history, with the Python that has matplotlib: ``.venv-peers/bin/python pictures.py FOLDER``."""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "sash", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

COLOUR = "#0b6e8a"
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def main(folder: Path) -> None:
    latency(json.loads((folder / "latency.json").read_text()), folder / "latency.svg")


def latency(points: dict[str, float], path: Path) -> None:
    """Draw the median milliseconds of a window of 32 messages against the length of the conversation."""
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    lengths = [int(length) for length in points]
    axes.plot(lengths, list(points.values()), marker="o", color=COLOUR)
    axes.set_xscale("log")
    axes.set_ylim(0, 2 * max(points.values()))
    axes.set_xticks(lengths)
    axes.xaxis.set_major_formatter(THOUSANDS)
    axes.set_xlabel("messages in the conversation")
    axes.set_ylabel("milliseconds, median")
    axes.set_title("A window of 32 messages costs the window, not the history", loc="left")
    save(figure, path)


def save(figure: "plt.Figure", path: Path) -> None:
    """Save the figure on a white background, so that it can be read on a dark page too."""
    figure.savefig(path, facecolor="white", metadata={"Date": None})


main(Path(sys.argv[1]))
