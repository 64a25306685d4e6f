"""The measures a claim can name."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from bench.claims.ablation import BestAnchors, LargestStep, LayerPeak, OverlapPeak, TopLayers
from bench.claims.best_variant import BestVariantDifference
from bench.claims.compare import Difference, Mean, Ratio, Rises, Share
from bench.claims.measure import Measure
from bench.claims.speed import EqualTimeDifference, MatchedSpeedup, ReachedShare
from bench.claims.store import AdvantageGrowth, CrossesLower, CrossingPoint, WorstRate

AnyMeasure = Annotated[
    Difference
    | Ratio
    | Share
    | Mean
    | Rises
    | BestVariantDifference
    | MatchedSpeedup
    | ReachedShare
    | EqualTimeDifference
    | CrossingPoint
    | CrossesLower
    | AdvantageGrowth
    | WorstRate
    | LargestStep
    | BestAnchors
    | TopLayers
    | LayerPeak
    | OverlapPeak,
    Field(discriminator="kind"),
]

MEASURES: dict[str, type[Measure]] = {
    get_args(cls.model_fields["kind"].annotation)[0]: cls for cls in get_args(get_args(AnyMeasure)[0])
}
"""By the name that `kind` gives in `bench/claims.yaml`."""
