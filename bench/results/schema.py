"""The row schema: one JSON object a request, method and operating point."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

SCHEMA_VERSION = 1

Status = Literal["ok", "failed", "skipped", "oom"]


class Row(BaseModel):
    """One measured request under one method at one operating point.

    Times are seconds on a monotonic clock and add up: ttft_s = select_s + load_s + recompute_s
    + first_token_s. Bytes are bytes of cached keys and values read. `score` lies in [0, 1].
    """

    model_config = ConfigDict(extra="forbid")

    schema_version: int = SCHEMA_VERSION
    cell: str
    """SHA-256 (first 16 hex digits) of the cell's resolved configuration and plug-in sources."""
    model: str
    dataset: str
    """Task name as on the command line: "ruler/mq", "multihop"."""
    method: str
    params: dict[str, Any] = {}
    rho: float
    """Nominal recomputation ratio; 0 for direct reuse, 1 for full prefill."""
    bandwidth: str = "none"
    """The store's throttle as asked for: "none", "250MB/s", "1.5x" (see `bench.bandwidth`)."""
    bandwidth_bytes_per_s: float | None = None
    """What that came to; None without a throttle."""
    bandwidth_unit: float | None = None
    """Bytes a second of 1x for this model and dataset here; None where nothing was throttled."""
    rho_effective: float | None = None
    """Context rows recomputed, averaged over layers, divided by N."""
    chunks: int
    chunk_tokens: int
    context_tokens: int | None = None
    request: str
    request_sha256: str | None = None
    metric: str
    prediction: str | None = None
    references: list[str] = []
    score: float | None = None
    empty: bool | None = None
    """Whether the answer says nothing (`bench.metrics.conduct`)."""
    echo: bool | None = None
    """Whether the answer repeats its prompt at length."""
    stopped: Literal["eos", "limit"] | None = None
    """What ended the answer: a stop token, or the limit of new tokens."""
    precision: float | None = None
    """Share of the numbers given that are references, each counted once; None where references are no
    numbers (`bench.metrics.conduct`)."""
    quotes_instruction: bool | None = None
    """Whether the answer holds a word that stands in the instruction S and nowhere else in the request."""
    new_tokens: int | None = None
    ttft_s: float | None = None
    select_s: float | None = None
    select_wait_s: float | None = None
    """The part of select_s spent waiting for loads."""
    load_s: float | None = None
    recompute_s: float | None = None
    first_token_s: float | None = None
    bytes_before_fusion: int | None = None
    bytes_total: int | None = None
    positions_recomputed: list[int] = []
    """Context positions whose keys and values were recomputed, one count a layer."""
    evidence_recall: float | None = None
    """Share of the answer-bearing context positions recomputed at the last layer (QCFuse, eq. 13, with
    the request's own budget); None where the dataset does not know them."""
    needle_recall: float | None = None
    """The same share over the whole of what tells the answer (a needle's sentence, a line of a chain), where
    the dataset knows it; `evidence_recall` counts the answer's own tokens alone."""
    times_taken: int = 1
    """How often the request's cells were timed; the row has the last."""
    disturbed: bool | None = None
    """Whether full prefills of this request still differed by more than a tenth when last timed."""
    request_rate: float | None = None
    """Requests a second that arrived on average; None where requests were measured one at a time."""
    attention_top10: float | None = None
    """Share of the query's attention to the context, summed over all layers, that its top 10 % of positions
    hold (QCFuse, Fig. 5 left)."""
    layer_overlap: list[float] | None = None
    """For each layer, the share of the all-layer top 10 % of positions that it finds too (Fig. 5 right)."""
    predicted: bool | None = None
    """True where the row is not measured but computed by a cost model."""
    selection_sha256: str | None = None
    """Hash of the selected context positions of every layer."""
    status: Status = "ok"
    error: str | None = None
