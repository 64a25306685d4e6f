"""Names for an invented world: ordinary words in new combinations, which short tokenizers keep short."""

from __future__ import annotations

import random
from collections.abc import Callable

FIRST = """
    Anna Ben Carla David Emma Frank Grace Henry Ida Jack Kate Leo Maria Nora Oscar Paul Rosa Sam Tina
    Victor Wendy Alice Bruno Clara Dora Eric Fiona George Helen Ivan Julia Karl Laura Martin Nina Otto
    Peter Robert Susan Thomas
""".split()
LAST = """
    Baker Carter Fisher Gardner Hunter Mason Parker Porter Shepherd Turner Walker Weaver Cooper Miller
    Taylor Archer Butler Marsh Brook Field Ford Grove Hill Lake Moore North Park Pond Ridge Rivers Stone
    Wells West Wood Young Banks Bell Bishop Bush Cole
""".split()
PLACE = """
    Red Green Black White Stone South East Old New High Long Oak Ash Fox Wolf Swan Mill Rock Sand Spring
    Summer Winter Silver Iron Copper Amber
""".split()
ENDING = """
    field bridge ford wood town haven port hill dale brook gate mouth side well ton
""".split()
SIGN = """
    Anchor Beacon Crown Dragon Eagle Falcon Globe Harbour Ivory Jewel Kestrel Lantern Mercury Neptune
    Orion Phoenix Quarry Rocket Sunrise Tiger Union Victory Wagon Zenith Arrow Bronze Castle Diamond
    Ember Feather
""".split()
FIRM = ("Works", "Press", "Mills", "Foundry", "Shipyard", "Stores", "Brothers", "Trading")
TREE = """
    Alder Aspen Beech Birch Cedar Cherry Chestnut Cypress Elder Elm Fir Hawthorn Hazel Holly Juniper
    Larch Laurel Linden Maple Olive Pine Poplar Rowan Spruce Sycamore Walnut Willow Yew
""".split()
BIRD = """
    Heron Swift Wren Raven Robin Crane Curlew Dove Finch Goose Gull Hawk Jay Kite Lark Linnet Magpie
    Martin Owl Pelican Pigeon Plover Quail Rook Snipe Sparrow Starling Stork Swallow Teal Tern Thrush
    Warbler
""".split()


class Names:
    """A source of names for one world. No name comes twice, nor a word of one while others are left."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def person(self) -> str:
        """A first and a last name."""
        return self._new(lambda pick: (pick(FIRST), pick(LAST)))

    def town(self) -> str:
        """One word that sounds like a place."""
        return self._new(lambda pick: (pick(PLACE) + pick(ENDING),))

    def company(self) -> str:
        """A word and what kind of firm it is."""
        return self._new(lambda pick: (pick(SIGN), pick(FIRM)), kinds=1)

    def school(self) -> str:
        """A word and "College" or the like."""
        return self._new(lambda pick: (pick(TREE), pick(("College", "Academy", "Institute"))), kinds=1)

    def river(self) -> str:
        """A bird's name, little or not."""
        return self._new(lambda pick: (pick(("", "", "", "Little ", "Upper ")) + pick(BIRD),))

    def _new(self, make: Callable[[Callable[..., str]], tuple[str, ...]], kinds: int = 0) -> str:
        """A new name; the last `kinds` words of it may be seen again ("Works")."""
        name = ""
        for attempt in range(400):
            parts = make(self._rng.choice)
            own = parts[: len(parts) - kinds]
            name = " ".join(parts)
            fresh = not self._used & set(own) if attempt < 200 else name not in self._used
            if fresh:
                self._used |= {name, *own}
                return name
        return f"{name}-{self._new(make, kinds)}"  # a world larger than the words: double names
