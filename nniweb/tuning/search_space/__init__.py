"""Search spaces: their language, points of them, and how algorithms see them."""
