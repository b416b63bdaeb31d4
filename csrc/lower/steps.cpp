// SPDX-License-Identifier: Apache-2.0
// A binary search in every row at once, unrolled: log2(n) gathers.
#include "lower/steps.h"

#include "lower/gather.h"

namespace tpu::lower {

using namespace tpu::hlo;

Value count_up_to(Value steps, Value t) {
  double n = static_cast<double>(steps.dim(1));
  double power = 1;
  while (power * 2 <= n) power *= 2;
  Value count = constant(t.program(), {DType::kS32, t.dims()}, 0);
  for (; power >= 1 && n > 0; power /= 2) {
    Value next = count + power;
    Value last = take_along(steps, minimum(next, n) - 1, 1);
    count = select(le(next, n) & le(last, t), next, count);
  }
  return count;
}

}  // namespace tpu::lower
