/* Functions of the language that are formulas of the others: no target needs to know them. Out: their text.
 *
 * isnan: all but NaN is at most infinite. expm1: tanh keeps what exp(x) - 1 loses. log1p: below 1/4 the
 * series of 2 artanh(s) with s = x / (x + 2), to the last place of f64; beyond, 1 + x loses no more than log
 * does.
 */
#include "lang/standard_defs.h"

const char hr_standard_defs[] = "def isnan(x) = not (x <= inf)\n"
                                "def isinf(x) = abs(x) == inf\n"
                                "def sign(x) = where(x > 0, 1, where(x < 0, -1, stop(x)))\n"
                                "def expm1(x) = tanh(x / 2) * (exp(x) + 1)\n"
                                "def log1p(x) = where(abs(x) < 0.25, log1p_near(x / (x + 2)), log(1 + x))\n"
                                "def log1p_near(s) = 2 * s * log1p_series(s * s)\n"
                                "def log1p_series(q) = 1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 "
                                "+ q * (1 / 11 + q * (1 / 13 + "
                                "q * (1 / 15 + q * (1 / 17))))))))\n";
