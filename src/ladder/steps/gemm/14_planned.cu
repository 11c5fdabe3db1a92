// What the planner prints for the text itself: `headroom emit matmul --target cuda` shows it.
// Two blocks share what they load (a cluster), results leave by the copy engine under the next tile, or groups take turns.
// Tile, stages, turns and order come from a model of the machine; the text may go on after the sum in the same kernel.
