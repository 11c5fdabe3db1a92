/* Pages by who holds them and by what they hold. See pages.h. */
#include "model/pages.h"

#include "base/memory.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

hr_status hr_page_pool_create(int64_t rows, hr_page_pool *out) {
    const int64_t count = rows / HR_PAGE_TOKENS;
    if (count < 1 || count > INT32_MAX / HR_PAGE_TOKENS)
        return hr_fail(HR_BAD_INPUT, "a context of %" PRId64 " tokens cannot be kept in pages of %d", rows,
                       HR_PAGE_TOKENS);
    *out =
        (hr_page_pool){.pages = hr_memory_zeros((size_t)count, sizeof *out->pages), .count = (int32_t)count};
    return out->pages ? HR_OK : hr_fail(HR_OUT_OF_MEMORY, "no memory for %" PRId64 " pages", count);
}

void hr_page_pool_clear(hr_page_pool *pool) {
    free(pool->pages);
    *pool = (hr_page_pool){0};
}

/* That nobody holds, given up longest ago; -1: all are held. */
static int32_t oldest(const hr_page_pool *pool) {
    int32_t best = -1;
    for (int32_t i = 0; i < pool->count; i++)
        if (pool->pages[i].holders == 0 && (best < 0 || pool->pages[i].used < pool->pages[best].used))
            best = i;
    return best;
}

int32_t hr_page_take(hr_page_pool *pool) {
    const int32_t best = pool->fresh < pool->count ? pool->fresh++ : oldest(pool);
    if (best >= 0) pool->pages[best] = (hr_page){.holders = 1};
    return best;
}

void hr_page_give_up(hr_page_pool *pool, int32_t page) {
    hr_page *of = &pool->pages[page];
    of->holders--;
    of->used = of->id ? ++pool->clock : 0; /* what is not full helps nobody */
}

int32_t hr_page_find(hr_page_pool *pool, int64_t parent, const int32_t *tokens) {
    for (int32_t i = 0; i < pool->count; i++) {
        hr_page *page = &pool->pages[i];
        if (!page->id || page->parent != parent || memcmp(page->tokens, tokens, sizeof page->tokens) != 0)
            continue;
        page->holders++;
        return i;
    }
    return -1;
}

void hr_page_fill(hr_page_pool *pool, int32_t page, int64_t parent, const int32_t *tokens) {
    hr_page *of = &pool->pages[page];
    of->id = ++pool->last_id;
    of->parent = parent;
    memcpy(of->tokens, tokens, sizeof of->tokens);
}
