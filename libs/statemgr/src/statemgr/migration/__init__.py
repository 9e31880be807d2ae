"""State that is still on its way: layers of sources, look-ups, bins, and the store that takes it all up."""
