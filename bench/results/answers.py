"""The terminal table of what a score does not say: cut answers, precision, recall of the evidence."""

from __future__ import annotations

from typing import Any

import pandas as pd
from rich.markup import escape
from rich.table import Table

from bench.figures.style import REFERENCES, full_label, order, variant_label
from bench.results.points import family
from bench.results.summary import headline_rho

COLUMNS = {
    "at_limit": "cut at the limit",
    "precision": "precision of numbers",
    "evidence_recall": "recall, answer tokens",
    "needle_recall": "recall, whole needle",
}


def answers_table(summary: pd.DataFrame, model: str, instruction_cached: bool) -> Table | None:
    """One line for each method and dataset at one ρ (`headline_rho`), of one model's summary.

    None where no row tells any of it; a column that no row tells is left out.
    """
    rho = headline_rho(summary)
    shown = summary[summary["method"].isin(REFERENCES) | (summary["rho"] == rho)]
    columns = [name for name in COLUMNS if shown[name].notna().any()]
    if not columns:
        return None
    title = f"{escape(model)}: how answers ended and what was recomputed of the evidence, ρ = {rho:g}"
    table = Table(title=title, title_justify="left")
    for name in ("dataset", "method"):
        table.add_column(name, no_wrap=True)
    for name in ("score", *(COLUMNS[name] for name in columns)):
        table.add_column(name, justify="right")
    for dataset in shown["dataset"].unique():
        of_dataset = shown[shown["dataset"] == dataset]
        for method in order(of_dataset["method"].unique()):
            for line in of_dataset[of_dataset["method"] == method].to_dict("records"):
                label = full_label(variant_label(method, str(line["variant"])), instruction_cached)
                score = f"{_number(line['score'], '{:.3f}')} {family(str(line['metric']))}"
                cells = [_share(name, line) for name in columns]
                table.add_row(escape(str(dataset)), escape(label), score, *cells)
        table.add_section()
    return table


def _share(name: str, line: dict[Any, Any]) -> str:
    return _number(line[name], "{:.0%}" if name == "at_limit" else "{:.2f}")


def _number(value: float, form: str) -> str:
    return "-" if pd.isna(value) else form.format(value)
