// SPDX-License-Identifier: Apache-2.0
// Functions of the normal distribution that keep their precision in the tails.
#include <cmath>

#include "lower/pointwise.h"
#include "lower/special.h"
#include "lower/special_coefficients.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value erfcx(Value x) {
  Value size = abs(x);
  // kErfcx is of (1 + 2 x) erfcx(x) for x >= 0, which t maps to [-1, 1).
  Value t = 1 - 7.5 / (size + 3.75);
  Value positive = chebyshev_sum(kErfcx, t) / (1 + 2 * size);
  return select(lt(x, 0.0), 2 * exponential(x * x) - positive, positive);
}

Value log_ndtr(Value x) {
  Value t = x * M_SQRT1_2;
  Value tail = log(erfcx(-minimum(t, 0.0)) / 2) - t * t;
  return select(lt(x, -1.0), tail, log_plus_one(erfc(t) * -0.5));
}

Value ndtri(Value p) {
  Value q = minimum(p, 1 - p);
  Value center = erf_inv(2 * p - 1) * M_SQRT2;
  // In the tail, with y = sqrt(-2 log q): y - (log y + c(1 / y)) / y, where kNdtriTail is c on [1/40, 1/2].
  Value y = maximum(sqrt(log(q) * -2), 2.0);
  Value place = (1 / y - 0.025) * (2 / 0.475) - 1;
  Value distance = y - (log(y) + chebyshev_sum(kNdtriTail, place)) / y;
  Value tail = select(lt(p, 0.5), -distance, distance);
  Value result = select(lt(q, 0.13), tail, center);
  Value inf = infinity_like(p);
  return select(eq(p, 0.0), -inf,
                select(eq(p, 1.0), inf, select(lt(p, 0.0) | gt(p, 1.0), nan_like(p), result)));
}

}  // namespace tpu::lower
