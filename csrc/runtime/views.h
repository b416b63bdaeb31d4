// SPDX-License-Identifier: Apache-2.0
// Views: what a tensor sees of its storage's array, read and written.
//
// PyTorch describes a view by sizes, strides and an offset into a flat storage. XLA has no strides. The two
// meet in *levels*: the flat array of N elements is reshaped (for free) to dims L0 x L1 x ... x Lk whose
// row-major strides are the strides that the view uses. Then each tensor dim runs along one level, from a
// start, with a step:
//
//   x = torch.arange(24).view(4, 6);  v = x[1:3, ::2].t()        sizes 3x2, strides 2x6, offset 6
//   levels 4x6;  level 0: start 1, size 2, step 1;  level 1: start 0, size 3, step 2;  tensor dims (1, 0)
//
// Reading is reshape, slice, transpose, broadcast (stride 0). Writing goes the same way back: the elements
// are transposed into level order and put over the old contents. Starts are run-time operands, so that x[i]
// compiles once for all i. A view with no such form (overlapping windows, strides that do not divide each
// other) is read by a gather and written by a scatter of flat indices.
//
// view(dtype) is a bit cast of the whole array before the levels are made.
#pragma once

#include <c10/util/ArrayRef.h>

#include <functional>
#include <optional>
#include <vector>

#include "hlo/math.h"

namespace tpu::runtime {

struct View {
  // One per level, outermost first. Empty if `irregular`.
  hlo::Dims levels, starts, sizes, steps;
  std::vector<int> level_of;  // per tensor dim: the level it runs along, or -1 (size 1 or stride 0)
  hlo::Dims tensor_sizes;
  bool irregular = false;
  bool covers = false;  // sees each element once (in any order)
  bool plain = false;   // covers, in storage order
  // For irregular views: the offset is starts[0].
  hlo::Dims tensor_strides;
  int64_t total = 0;  // elements of the flat array, in the tensor's dtype
  // If not 0, the levels are those of a window of so many elements, which begins at starts[levels.size()];
  // for views whose strides do not divide the array (a part of a flat buffer seen as a matrix).
  int64_t window = 0;

  // Whether the start of level i is fixed by the form of the view.
  bool starts_at_zero(size_t i) const { return !irregular && sizes[i] == levels[i] && steps[i] == 1; }
};

// `array`: the array's dims where the tensor's dtype is the array's, else {total}.
View resolve(c10::IntArrayRef sizes, c10::IntArrayRef strides, int64_t offset, const hlo::Dims& array);

// Gives the start of a level as a 0-d kS32 or kS64 operand; an empty Value means "as the view says, for
// good". A window's start counts as one more level.
using StartOf = std::function<hlo::Value(size_t level, int64_t start, hlo::DType dtype)>;

// The elements that a view sees of `array`, a value of the view's sizes and of dtype `dtype`.
hlo::Value read_view(hlo::Value array, const View& view, hlo::DType dtype, const StartOf& start);
// `array` with `elements` (of the view's sizes) written where the view sees. The type of `array` stays,
// unless the elements are of another dtype: then the new array has theirs. An array of which all is written
// is not read.
hlo::Value write_view(hlo::Value array, const hlo::Type& array_type, const View& view, hlo::Value elements,
                      const StartOf& start);

// The bytes of x as elements of another dtype. Bytes behind the last whole element are left out.
hlo::Value bit_cast(hlo::Value x, hlo::DType dtype);
// The dims that bit_cast gives.
hlo::Dims bit_cast_dims(const hlo::Type& type, hlo::DType dtype);

}  // namespace tpu::runtime
