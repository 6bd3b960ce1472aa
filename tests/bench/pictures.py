"""Draws what speed.py measured, with the Python that has matplotlib: ``.venv-peers/bin/python pictures.py FOLDER``."""

import json
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "sash", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False})

from matplotlib import pyplot as plt  # noqa: E402
from matplotlib.ticker import FuncFormatter  # noqa: E402

COLOURS = ("#0b6e8a", "#b4541a", "#777777")
THOUSANDS = FuncFormatter(lambda value, _: f"{value:,.0f}")


def main(folder: Path) -> None:
    points = json.loads((folder / "speed.json").read_text())["pictures"]
    latency(points["latency"], folder / "latency.svg")
    throughput(points["throughput"], folder / "throughput.svg")


def latency(points: dict[str, float], path: Path) -> None:
    """Median milliseconds of a window of 32 messages, against how long the conversation is."""
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    lengths = [int(length) for length in points]
    axes.plot(lengths, list(points.values()), marker="o", color=COLOURS[0])
    axes.set_xscale("log")
    axes.set_ylim(0, 2 * max(points.values()))
    axes.set_xticks(lengths)
    axes.xaxis.set_major_formatter(THOUSANDS)
    axes.set_xlabel("messages in the conversation")
    axes.set_ylabel("milliseconds, median")
    axes.set_title("A window of 32 messages costs the window, not the history", loc="left")
    save(figure, path)


def throughput(series: dict[str, dict[str, float]], path: Path) -> None:
    """Requests a second against connections, one line a call."""
    figure, axes = plt.subplots(figsize=(6.4, 3.2), layout="constrained")
    for (name, points), colour in zip(series.items(), COLOURS, strict=True):
        connections = [int(number) for number in points]
        axes.plot(connections, list(points.values()), marker="o", color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(connections)
    axes.xaxis.set_major_formatter(THOUSANDS)
    axes.yaxis.set_major_formatter(THOUSANDS)
    axes.set_ylim(0)
    axes.set_xlabel("connections")
    axes.set_ylabel("requests a second")
    axes.set_title("One worker; store, load and worker share two cores", loc="left")
    axes.legend(frameon=False)
    save(figure, path)


def save(figure: "plt.Figure", path: Path) -> None:
    """On a white ground, so that it can be read on a dark page too."""
    figure.savefig(path, facecolor="white", metadata={"Date": None})


main(Path(sys.argv[1]))
