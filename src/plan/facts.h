/* What a plan may know of the target that it is made for: facts, each with a name, and no target's name.
 * Who schedules fills them in (schedule/target.h). */
#ifndef HR_PLAN_FACTS_H
#define HR_PLAN_FACTS_H

typedef enum hr_fact {
    HR_FACT_THREAD_A_TASK = 1 << 0, /* one thread walks all of a task's row; else threads share it, and meet
                                       where the row is reduced */
    HR_FACT_AXES_SPLIT = 1 << 1,    /* an axis that is counted in groups is better two */
    HR_FACT_COLUMNS_ONCE = 1 << 2,  /* what is one a column is computed before the rows */
    HR_FACT_COLUMN_POSITIONS = 1 << 3,  /* argmax along an axis that is not the last is sums of columns */
    HR_FACT_BYTE_PRODUCTS = 1 << 4,     /* there is a product of 8-bit whole numbers */
    HR_FACT_AXES_WRITTEN_OUT = 1 << 5,  /* a map writes out a short axis of its row, a sum a short row */
    HR_FACT_TASKS_TRANSPOSED = 1 << 6,  /* what is read across is transposed for a group of tasks, not for
                                           loops of a row */
    HR_FACT_NEXT_TASK_AHEAD = 1 << 7,   /* the row of the next task is prefetched */
    HR_FACT_FEW_QUERIES = 1 << 8,       /* softmax between products is one kernel for a single query, too */
    HR_FACT_PACKED_PRODUCTS = 1 << 9,   /* a packed matrix times few vectors is a product: plan/packed.h */
    HR_FACT_ANY_EXTENTS = 1 << 10,      /* the plan is for all extents: nothing is assumed of those at hand */
    HR_FACT_GROUPED_PRODUCTS = 1 << 11, /* rows that each choose their matrix are a product of 16 bits */
    HR_FACT_BYTE_DOTS = 1 << 12,        /* four products of bytes are added to a lane at once */
    HR_FACT_STACKED_PRODUCTS =
        1 << 13,                    /* products over the same indices that share their left operand are one */
    HR_FACT_ROWS_CHOOSE = 1 << 14,  /* attention whose weights count under a condition leaves out the values
                                       of the others, whatever they are */
    HR_FACT_PARTIAL_SUMS = 1 << 15, /* a product's kernel leaves sums over neighbours of its results */
    HR_FACT_BACKWARD_JOINED =
        1 << 16, /* the five products of attention's gradients are one: plan/backward.h */
    HR_FACT_ROWS_KEPT =
        1 << 17, /* a product's operand that is computed is better kept than made for each tile */
    HR_FACT_SCORES_AGAIN = 1 << 18, /* several products share blocks of rows; sums over queries have scores of
                                       their own, keys before queries */
} hr_fact;

typedef struct hr_facts {
    unsigned set; /* of hr_fact */
    /* A matrix times at most so many vectors is rows of products: with both f32, and with others. */
    int thin_f32, thin;
    /* Means of rows whose elements have at least so many bytes are sums about their first elements: 0 = none
     * are. Where threads add up shares about means of their own, elements of 16 bits lose nothing. */
    int guess_bytes;
    /* Results of one product from which on it fills the device, and a third gains nothing in its walk. */
    double stacked_most;
    double partials_least; /* results of a product that leaves partial sums */
    double columns_most;   /* more sums of columns than these are a stage of their own */
} hr_facts;

#endif
