/* In: a 128-bit counter and a 64-bit key. Out: four words, the same on every device. */
#include "reference/philox.h"

#include <string.h>

enum { ROUNDS = 10 };

void hr_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c[4], k[2] = {key[0], key[1]};
    memcpy(c, counter, sizeof c);
    for (int round = 0; round < ROUNDS; ++round) {
        uint64_t even = (uint64_t)0xD2511F53u * c[0], odd = (uint64_t)0xCD9E8D57u * c[2];
        c[0] = (uint32_t)(odd >> 32) ^ c[1] ^ k[0];
        c[2] = (uint32_t)(even >> 32) ^ c[3] ^ k[1];
        c[1] = (uint32_t)odd;
        c[3] = (uint32_t)even;
        k[0] += 0x9E3779B9u; /* the golden ratio */
        k[1] += 0xBB67AE85u; /* sqrt(3) - 1 */
    }
    memcpy(out, c, sizeof c);
}

/* The block number is counter // 4, rounded down, as 64 bits; the upper half of Philox's counter stays zero.
 */
double hr_philox_uniform(int64_t seed, int64_t counter) {
    int64_t word = counter & 3;
    uint64_t block = (uint64_t)((counter - word) / 4);
    uint32_t words[4] = {(uint32_t)block, (uint32_t)(block >> 32), 0, 0};
    uint32_t key[2] = {(uint32_t)(uint64_t)seed, (uint32_t)((uint64_t)seed >> 32)};
    hr_philox(words, key, words);
    return (double)(words[word] >> 8) * 0x1p-24;
}
