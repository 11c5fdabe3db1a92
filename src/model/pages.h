/* Pages of a model's caches: who holds them, and what tokens they hold.
 *
 * A page is HR_PAGE_TOKENS rows of every cache. A full one is known by its tokens and the page before it, so
 * that a text that begins in the same way finds it; it stays findable until its rows are needed.
 */
#ifndef HR_MODEL_PAGES_H
#define HR_MODEL_PAGES_H

#include "model/model.h"

typedef struct hr_page {
    int64_t id, parent; /* id: of a full page, never used twice; 0 = not full. parent: its predecessor's id, 0
                           = none */
    int holders;
    uint64_t used; /* when it was given up */
    int32_t tokens[HR_PAGE_TOKENS];
} hr_page;

typedef struct hr_page_pool {
    hr_page *pages;
    int32_t count;
    int32_t fresh; /* from here on none was ever taken */
    int64_t last_id;
    uint64_t clock;
} hr_page_pool;

hr_status hr_page_pool_create(int64_t rows, hr_page_pool *out);
void hr_page_pool_clear(hr_page_pool *pool);
/* A page that nobody holds: one that was never taken, else that given up longest ago; -1: there is none. */
int32_t hr_page_take(hr_page_pool *pool);
void hr_page_give_up(hr_page_pool *pool, int32_t page);
/* The full page with these tokens behind `parent`, held once more; -1: there is none. */
int32_t hr_page_find(hr_page_pool *pool, int64_t parent, const int32_t *tokens);
/* The page is full now. */
void hr_page_fill(hr_page_pool *pool, int32_t page, int64_t parent, const int32_t *tokens);
#endif
