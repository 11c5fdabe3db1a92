/* The scratch memory of emitted C: locals, behind them what stages use one after the other. One tree of sizes
 * answers for the library, which lays it out, and for the text that does the same. */
#ifndef HR_EMIT_C_SCRATCH_C_H
#define HR_EMIT_C_SCRATCH_C_H

#include "schedule/schedule.h"

/* A local begins with a line, and ends with room for a vector more than it has. */
enum { HR_C_LOCAL_MORE = 191, HR_C_LOCAL_UNIT = 64 };

/* How many pieces the share of a thread has; `sums`: each of them has sums of its own. */
const hr_size *hr_c_pieces_size(hr_sizes *sizes, const hr_plan *plan, const hr_stage *stage, bool sums,
                                int threads);
/* What a stage takes of what stages use one after the other; 0 where it takes nothing. */
const hr_size *hr_c_work_size(hr_sizes *sizes, const hr_plan *plan, int number, bool sums, int threads);

#endif
