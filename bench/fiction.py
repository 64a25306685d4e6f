"""Invented proper names: pronounceable, and no word used twice."""

from __future__ import annotations

import random

from wonderwords.random_word import is_profanity

# fmt: off
_ONSETS = (
    "b", "br", "c", "d", "dr", "f", "g", "gl", "h", "j", "k", "kl", "l", "m",
    "n", "p", "pr", "r", "s", "sk", "st", "t", "tr", "v", "w", "z", "th", "sh",
)
# fmt: on
_VOWELS = ("a", "e", "i", "o", "u", "a", "e", "o", "ai", "ea")
_CODAS = ("n", "l", "r", "s", "m", "k", "th", "nd", "rn", "ld", "st")


class Names:
    """A source of invented names. Every name is new, down to its single words."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._used: set[str] = set()

    def word(self, ending: str = "") -> str:
        """A capitalised word of two syllables (28 x 10 x 28 x 10 x 11 of them), plus an ending."""
        while True:
            pick = self._rng.choice
            root = pick(_ONSETS) + pick(_VOWELS) + pick(_ONSETS) + (ending or pick(_VOWELS) + pick(_CODAS))
            if root not in self._used and not is_profanity(root):
                self._used.add(root)
                return root.capitalize()

    def person(self) -> str:
        """A first and a last name."""
        return f"{self.word(self._rng.choice(('a', 'o', 'en', 'is')))} {self.word()}"

    def town(self) -> str:
        """One word that sounds like a place."""
        return self.word(self._rng.choice(("aford", "enby", "oton", "ewick", "aholm", "eport", "imoor")))

    def company(self) -> str:
        """A word and what kind of firm it is."""
        return f"{self.word()} {self._rng.choice(('Works', 'Press', 'Mills', 'Foundry', 'Shipyard'))}"

    def school(self) -> str:
        """A word and "College" or the like."""
        return f"{self.word()} {self._rng.choice(('College', 'Academy', 'Institute'))}"
