// SPDX-License-Identifier: Apache-2.0
// Bodies of reductions, sorts and scatters, as programs over 0-d parameters.
#include <functional>
#include <map>

#include "hlo/infer.h"

namespace tpu::hlo {

namespace {

// Bodies are few and never change, so each is made once per thread.
template <class Key, class Make>
std::shared_ptr<const Program> remembered(Key key, const Make& make) {
  thread_local std::map<Key, std::shared_ptr<const Program>> made;
  std::shared_ptr<const Program>& region = made[key];
  if (!region) region = make();
  return region;
}

}  // namespace

std::shared_ptr<const Program> make_region(const std::vector<DType>& dtypes, const Body& body,
                                           bool interleaved) {
  auto region = std::make_shared<Program>();
  std::vector<Value> left, right;
  for (DType dtype : dtypes) {
    left.push_back(region->parameter({dtype, {}}));
    if (interleaved) right.push_back(region->parameter({dtype, {}}));
  }
  if (!interleaved)
    for (DType dtype : dtypes) right.push_back(region->parameter({dtype, {}}));
  region->set_return(body(left, right));
  return region;
}

std::shared_ptr<const Program> binary_region(DType dtype, Binary body) {
  return remembered(std::pair<DType, Binary>(dtype, body), [&] {
    return make_region({dtype}, [&](const std::vector<Value>& left, const std::vector<Value>& right) {
      Value result = body(left[0], right[0]);
      check(result && result.type() == left[0].type(), "reduce",
            "a body that returns the type of its arguments", {left[0], result});
      return std::vector<Value>{result};
    });
  });
}

std::shared_ptr<const Program> compare_region(DType dtype, Direction direction) {
  return remembered(std::pair<DType, Direction>(dtype, direction), [&] {
    return make_region({dtype}, [&](const std::vector<Value>& left, const std::vector<Value>& right) {
      return std::vector<Value>{compare(left[0], right[0], direction)};
    });
  });
}

std::shared_ptr<const Program> replace_region(DType dtype) {
  return remembered(dtype, [&] {
    return make_region({dtype},
                       [](const std::vector<Value>&, const std::vector<Value>& right) { return right; });
  });
}

}  // namespace tpu::hlo
