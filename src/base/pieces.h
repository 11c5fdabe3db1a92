/* A list of arrays as emitted code reads it: made in the device's memory by src/run, walked by src/emit.
 *
 * A tensor that is bound as a list is one axis in members of unequal length. Its pointer word in hr_execution
 * is the address of a table of its members' addresses, its stride word the address of the hr_pieces that all
 * lists of the launch share. A piece is a run of elements of one member; the pieces in order cover every
 * member once. Pieces start at multiples of their largest length, so that they are as aligned as their
 * member.
 */
#ifndef HR_BASE_PIECES_H
#define HR_BASE_PIECES_H

#include <stdint.h>

typedef struct hr_piece {
    int64_t start; /* the first element, counted in its member */
    int32_t member, count;
} hr_piece;

typedef struct hr_pieces {
    int64_t count;
    int64_t unused; /* keeps the pieces aligned to 16 bytes */
    hr_piece piece[];
} hr_pieces;

#endif
