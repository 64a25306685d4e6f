"""QCFuse (arXiv 2606.05875): compressed-view query-aware selection."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F

from bench.kernels.attention_mass import Reduce
from bench.method import Chunk, Method, Request, States, View, top

REPEAT = "\n\nRepeat the previous context exactly."


@dataclass
class QCFuse(Method):
    """The query probes a few anchors of each chunk and is scored at a few critical layers.

    Offline: anchors A_i, the ceil(r_a |c_i|) best positions of each chunk under a ranking rule
    (eq. 14), and the layers that best localise answer spans on calibration requests (eq. 18, 19).
    Online: the query probes the anchors alone (eq. 15 to 17) up to the deepest critical layer, and
    its attention to *all* context keys of those layers ranks the positions (eq. 20).

    `layers` is how many profiled layers to use, or explicit layer ids. Whether attention is averaged
    or maximised over heads and query tokens the paper leaves open.

    Released code (uYanJX/QCFuse): r_a 0.15, scores of the repeat instruction's tokens alone in place of a
    repetition, anchors of each layer's own, the first 4 tokens of a chunk always among them, a probe of
    the question's text without the rest of U. An older release had r_a 0.1 and the maximum over heads
    and query tokens (`variant=released,anchor_ratio=0.1,heads=max,tokens=max`).
    """

    released: ClassVar[Mapping[str, Any]] = {
        "anchor_ratio": 0.15, "repeat": "instruction", "anchors_by_layer": True, "forced_anchors": 4,
        "question_only": True,
    }  # fmt: skip

    anchor_ratio: float = 0.1
    anchor_rule: Literal["kvzip", "knorm", "sink", "snapkv"] = "kvzip"
    repeat: Literal["chunk", "instruction"] = "chunk"
    anchors_by_layer: bool = False
    forced_anchors: int = 0
    layers: int | tuple[int, ...] = 3
    heads: Reduce = "mean"
    tokens: Reduce = "mean"
    question_only: bool = False

    def prepare(self, chunk: Chunk) -> dict[str, torch.Tensor]:
        """Anchor positions of a chunk: one set, or one a layer."""
        keep = math.ceil(self.anchor_ratio * len(chunk.ids))
        if not keep:
            return {}
        scores: torch.Tensor = getattr(self, self.anchor_rule)(chunk)
        scores[:, : self.forced_anchors] = torch.inf
        if self.anchors_by_layer:
            return {"anchors": torch.stack([top(layer, keep) for layer in scores])}
        return {"anchors": top(scores.mean(0), keep)}

    def kvzip(self, chunk: Chunk) -> torch.Tensor:
        """[L, n]: attention each position gets while the chunk is repeated, teacher-forced.

        Maximum over heads and query tokens (snu-mllab/KVzip, attention/score.py); the mean over layers
        gives the one set a chunk that eq. 14 asks for.
        """
        repetition = chunk.ids if self.repeat == "chunk" else []
        view = chunk.ask([*chunk.encode(REPEAT), *repetition])
        states = view.probe("all")
        every = [view.attention(states, i, heads="max", tokens="max") for i in range(view.layers)]
        return torch.stack(every)

    def knorm(self, chunk: Chunk) -> torch.Tensor:
        """[L, n]: low key norms rank first (NVIDIA/kvpress, knorm_press.py), mean over heads."""
        view = chunk.ask(chunk.ids)
        return -torch.stack([view.keys(i).float().norm(dim=-1).mean(-1) for i in range(view.layers)])

    def sink(self, chunk: Chunk) -> torch.Tensor:
        """[L, n]: the first positions rank first."""
        return -torch.arange(len(chunk.ids), dtype=torch.float32).repeat(chunk.layers, 1)

    def snapkv(self, chunk: Chunk) -> torch.Tensor:
        """[L, n]: attention from the chunk's last tokens, pooled over five neighbours; those tokens rank
        first (NVIDIA/kvpress, snapkv_press.py; its window is 64, here at most a sixteenth of the chunk,
        so that they leave room among the anchors)."""
        window = min(64, len(chunk.ids) // 16)
        if not window:
            return self.sink(chunk)
        pooled = F.avg_pool1d(torch.stack(chunk.recent(window)), 5, stride=1, padding=2)
        return F.pad(pooled, (0, window), value=float(pooled.max()))

    def profile(self, request: Request, view: View) -> Sequence[float]:
        """R(l): Recall@10% of the answer's positions by layer l alone (eq. 12, 13 and 18)."""
        states, budget = self.probe(view, range(view.layers)), request.context_tokens // 10
        gold = torch.tensor(request.evidence)
        chosen = [top(self.score(view, states, i), budget).cpu() for i in range(view.layers)]
        found = [torch.isin(gold, positions) for positions in chosen]
        return [float(hit.float().mean()) for hit in found]

    def probe(self, view: View, layers: Sequence[int]) -> States:
        """Anchor-conditioned query states up to the deepest of some layers, whose context keys are loaded
        meanwhile; without anchors the query alone (r_a = 0, section 4.6.1)."""
        context = "anchors" if self.anchor_ratio else None
        return view.probe(context, max(layers), fetch=layers, question_only=self.question_only)

    def score(self, view: View, states: States, layer: int) -> torch.Tensor:
        """I_l(t), eq. 18."""
        return view.attention(states, layer, heads=self.heads, tokens=self.tokens)

    def select(self, request: Request, view: View, budget: int) -> torch.Tensor:
        """Top positions by the attention summed over the critical layers."""
        chosen = self.layers
        critical = top(view.profile, chosen).tolist() if isinstance(chosen, int) else list(chosen)
        states = self.probe(view, critical)
        return top(torch.stack([self.score(view, states, layer) for layer in critical]).sum(0), budget)


METHOD = QCFuse
