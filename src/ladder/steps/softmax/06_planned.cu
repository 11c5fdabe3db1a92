// What the planner prints for the text itself: `headroom emit softmax --target cuda` shows it.
// The row's length decides how many lanes, warps or blocks share it and whether copies run ahead into shared memory.
// How many bytes are on their way at once is what decides at the roof, and the tuner measures it on this card.
