"""Steps of a round that remove what ended and deleted experiments left on their platform."""
