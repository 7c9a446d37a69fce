"""A run as text: lines while it goes on, a Markdown table from a record."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

_NAME = 32  # columns for a contestant on the terminal
_COLUMNS = "operation | size | ours p50 | p99 | best peer | its p50 | ratio | bar | met"
_MARK = {True: "yes", False: "NO", None: "–"}


def us(value: float | None) -> str:
    """A time with three digits and its unit: "5.30 µs", "2.84 ms", "1.20 s"."""
    if value is None:
        return "–"
    for limit, unit, scale in ((1e3, "µs", 1.0), (1e6, "ms", 1e3), (float("inf"), "s", 1e6)):
        if value < limit:
            scaled = value / scale
            return f"{scaled:.{2 if scaled < 10 else 1 if scaled < 100 else 0}f} {unit}"
    return "–"


def times(ratio: float | None) -> str:
    """A ratio as "3.4 ×", or a dash."""
    return "–" if ratio is None else f"{ratio:.{2 if ratio < 10 else 0}f} ×"


def number(value: object, unit: str) -> str:
    """A figure's value or a peer's reason for having none."""
    return f"{value:.3g} {unit}".strip() if isinstance(value, (int, float)) else str(value or "not installed")


def bars(row: Row) -> str:
    """Everything this row was to reach: "3 ×; 6 × tantivy; p99 at most 1.00 ms"."""
    asked = [f"{row['bar']:g} ×"] if row.get("bar") is not None else []
    barred = [peer for peer in row.get("peers", ()) if peer.get("bar") is not None]
    asked += [f"{peer['bar']:g} × {peer['name']}" for peer in barred]
    asked += [f"p50 ≤ {us(row['limit_us'])}"] if row.get("limit_us") is not None else []
    asked += [f"p99 ≤ {us(row['limit_p99_us'])}"] if row.get("limit_p99_us") is not None else []
    if row.get("limit") is not None:
        asked.append(f"≤ {row['limit']:g} {row['unit']}")
    return "; ".join(asked) or "–"


def notes(row: Row) -> str:
    """What the check said, how far the limit of the memory is, and the case's own note."""
    parts = [row.get("check", ""), row.get("note", "")]
    ours = row.get("ours", {})
    if row.get("floor_us") and "p50_us" in ours:
        share = row["floor_us"] / max(ours["p50_us"], 1e-3)
        parts.append(
            f"reading {row['reads'] / 1e6:.3g} MB at the measured {row['read_GB_s']:.0f} GB/s takes "
            f"{us(row['floor_us'])}: {100 * share:.0f} % of that speed"
        )
    return "; ".join(part for part in parts if part)


def best_of(row: Row) -> Row | None:
    """The peer that counts as best, if one ran."""
    return next((peer for peer in row.get("peers", ()) if peer["name"] == row.get("best")), None)


def lines(row: Row) -> str:
    """One case for the terminal: our line, a line for each peer, what to know."""
    title = f"  {row['operation']}, {row['size']}" if row["size"] else f"  {row['operation']}"
    if "crashed" in row:
        return f"{title}\n    CRASHED: {row['crashed']}"
    if "wrong" in row:
        return f"{title}\n    WRONG ANSWER, not timed: {row['wrong']}"
    if "value" in row:
        asked = f"   bar {bars(row)}: {_MARK[row['met']]}" if row["limit"] is not None else ""
        text = [title, f"    {'ours':<{_NAME}}{number(row['value'], row['unit']):>12}{asked}"]
        figures = row["figures"].items()
        text += [f"    {name:<{_NAME}}{number(value, row['unit']):>12}" for name, value in figures]
        return "\n".join(text + ([f"    ({row['note']})"] if row["note"] else []))
    text = [title]
    for one in [row["ours"], *row["peers"]]:
        if "p50_us" not in one:
            text.append(f"    {one['name']:<{_NAME}}{one['why']}")
            continue
        line = f"    {one['name']:<{_NAME}}"
        line += "  ".join(f"{key} {us(one[f'{key}_us']):>9}" for key in ("p50", "p99", "min"))
        if "ratio" in one:
            line += f"  {times(one['ratio']):>8} (min {times(one['ratio_min'])})"
        text.append(line)
    text.append(f"    bar {bars(row)}: {_MARK[row['met']]}   {notes(row)}")
    return "\n".join(text)


def heading(record: Row) -> str:
    """The machine in a few lines."""
    facts = record["facts"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return (
        f"{facts['cpu']}, {facts['cores']} cores, {facts['system']}, load {facts['load']}; instruction set "
        f"{facts['isa']}; {facts.get('compiler', 'compiler not known')}; Python {facts['python']}; "
        f"commit {facts['commit']}; {record['date']}\n{versions}"
    )


def verdict(rows: list[Row]) -> str:
    """How many bars were reached."""
    met = sum(row["met"] is True for row in rows)
    judged = sum(row["met"] is not None for row in rows)
    broken = sum("wrong" in row or "crashed" in row for row in rows)
    return f"{met} of {judged} bars met" + (f", {broken} not measured" if broken else "")


def table(rows: list[Row]) -> str:
    """The run at a glance for the terminal: a line a case, without the notes."""
    cells = [_COLUMNS.split(" | ")]
    for row in rows:
        if "value" in row:
            value = number(row["value"], row["unit"])
            cells.append([row["operation"], row["size"], value, "", "", "", "", bars(row), _MARK[row["met"]]])
        else:
            cells.append(_main_row(row)[:-1])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in cells
    )


def markdown(record: Row) -> str:
    """The record as `bench/README.md` shows it: the table, the numbers that are no times, every peer."""
    rows = record["rows"]
    table = [row for row in rows if "ours" in row or "wrong" in row or "crashed" in row]
    figures = [row for row in rows if "value" in row]
    text = [heading(record).replace("\n", "\n\n"), ""]
    text += _grid(
        _COLUMNS + " | notes",
        [_main_row(row) for row in table],
    )
    if figures:
        text.append("")
        text += _grid(
            "figure | size | ours | limit | met | peers | note",
            [
                [
                    row["operation"],
                    row["size"],
                    number(row["value"], row["unit"]),
                    bars(row),
                    _MARK[row["met"]],
                    ", ".join(f"{who} {number(value, row['unit'])}" for who, value in row["figures"].items()),
                    row["note"],
                ]
                for row in figures
            ],
        )
    text += ["", "Every contestant:", ""]
    text += _grid(
        "operation | size | who | p50 | p99 | min | calls | ratio of p50 | of min",
        [line for row in table if "ours" in row for line in _all_rows(row)],
    )
    return "\n".join([*text, "", verdict(rows)])


def _main_row(row: Row) -> list[str]:
    start = [row["operation"], row["size"]]
    if "ours" not in row or "p50_us" not in row["ours"]:
        why = row.get("wrong") or row.get("crashed") or row["ours"]["why"]
        return [*start, "–", "–", "–", "–", "–", bars(row), _MARK[row["met"]], why]
    best = best_of(row)
    return [
        *start,
        us(row["ours"]["p50_us"]),
        us(row["ours"]["p99_us"]),
        best["name"] if best else "–",
        us(best["p50_us"]) if best else "–",
        times(best.get("ratio")) if best else "–",
        bars(row),
        _MARK[row["met"]],
        notes(row),
    ]


def _all_rows(row: Row) -> list[list[str]]:
    found = []
    for one in [row["ours"], *row["peers"]]:
        start = [row["operation"], row["size"], one["name"]]
        if "p50_us" not in one:
            found.append([*start, one["why"], "", "", "", "", ""])
            continue
        measured = [us(one["p50_us"]), us(one["p99_us"]), us(one["min_us"]), str(one["calls"])]
        found.append([*start, *measured, times(one.get("ratio")), times(one.get("ratio_min"))])
    return found


def _grid(head: str, body: list[list[str]]) -> list[str]:
    def line(cells: list[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    cells = head.split(" | ")
    return [line(cells), line(["---"] * len(cells)), *map(line, body)]
