"""QCFuse (arXiv 2606.05875): compressed-view query-aware selection."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch

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
    or maximised over heads and query tokens the paper leaves open; released code has had both.
    """

    anchor_ratio: float = 0.1
    anchor_rule: Literal["kvzip", "knorm", "sink"] = "kvzip"
    layers: int | tuple[int, ...] = 3
    heads: Reduce = "mean"
    tokens: Reduce = "mean"

    def prepare(self, chunk: Chunk) -> dict[str, torch.Tensor]:
        """Anchor positions of a chunk."""
        keep = math.ceil(self.anchor_ratio * len(chunk.ids))
        return {"anchors": top(getattr(self, self.anchor_rule)(chunk), keep)} if keep else {}

    def kvzip(self, chunk: Chunk) -> torch.Tensor:
        """Attention each position gets while the chunk is repeated, teacher-forced.

        Maximum over heads and query tokens (snu-mllab/KVzip, attention/score.py), mean over layers,
        which gives the one set a chunk that eq. 14 asks for.
        """
        view = chunk.ask([*chunk.encode(REPEAT), *chunk.ids])
        states = view.probe("all")
        every = [view.attention(states, i, heads="max", tokens="max") for i in range(view.layers)]
        return torch.stack(every).mean(0)

    def knorm(self, chunk: Chunk) -> torch.Tensor:
        """Low key norms rank first (NVIDIA/kvpress, knorm_press.py), mean over heads and layers."""
        view = chunk.ask(chunk.ids)
        return -torch.stack([view.keys(i).float().norm(dim=-1).mean(-1) for i in range(view.layers)]).mean(0)

    def sink(self, chunk: Chunk) -> torch.Tensor:
        """The first positions rank first."""
        return -torch.arange(len(chunk.ids), dtype=torch.float32)

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
        return view.probe("anchors" if self.anchor_ratio else None, max(layers), fetch=layers)

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
