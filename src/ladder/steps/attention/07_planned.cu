// What the planner prints for the text itself: `headroom emit attention --target cuda` shows it.
// A persistent grid takes heads and queries in the order of their work, and exponents keep a base that seldom changes.
// Tiles, groups and order come from a model of the machine; mask, bias and position may be any text.
