"""Variables that outlive a run: scopes, the labels of their slots, and plans that run in them."""
