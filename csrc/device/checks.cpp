// SPDX-License-Identifier: Apache-2.0
// Argument checks with the CPU's texts.
#include "device/checks.h"

#include <ATen/core/Tensor.h>
#include <c10/util/Exception.h>

#include <string_view>
#include <unordered_map>

namespace tpu::device {
namespace {

using Arguments = at::ArrayRef<c10::IValue>;

// NaN for what is no plain number.
double number(const c10::IValue& value) {
  if (value.isTensor() || value.isNone()) return std::numeric_limits<double>::quiet_NaN();
  const c10::Scalar scalar = value.toScalar();
  return scalar.isComplex() ? std::numeric_limits<double>::quiet_NaN() : scalar.toDouble();
}

void deviation(const c10::IValue& std) {
  TORCH_CHECK(!(number(std) < 0), "normal expects std >= 0.0, but found std ", number(std));
}

void share(const c10::IValue& p) {
  TORCH_CHECK(!(number(p) < 0) && !(number(p) > 1),
              "bernoulli_ expects p to be in [0, 1], but got p=", number(p));
}

void range(int64_t from, int64_t to) {
  TORCH_CHECK(from < to, "random_ expects 'from' to be less than 'to', but got from=", from, " >= to=", to);
}

void same_dtype(Arguments a) {
  TORCH_CHECK(a[0].toTensor().scalar_type() == a[1].toTensor().scalar_type(),
              "Expected object of scalar type ", a[0].toTensor().scalar_type(), " but got scalar type ",
              a[1].toTensor().scalar_type(), " for second argument");
}

void extremum(const char* name, Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  if (self.numel() != 0) return;
  const auto dims = a[1].toIntVector();
  TORCH_CHECK(!dims.empty(), name,
              "(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
              "reduction dim with the 'dim' argument.");
  for (int64_t dim : dims)
    TORCH_CHECK_INDEX(self.dim() == 0 || dim < -self.dim() || dim >= self.dim() || self.size(dim) != 0, name,
                      "(): Expected reduction dim ", dim, " to have non-zero size.");
}

void multinomial(Arguments a) {
  const at::Tensor& self = a[0].toTensor();
  TORCH_CHECK(at::isFloatingType(self.scalar_type()),
              "multinomial only supports floating-point dtypes for input, got: ", self.scalar_type());
  if (self.dim() != 1 && self.dim() != 2) return;
  TORCH_CHECK(a[1].toInt() > 0, "cannot sample n_sample <= 0 samples");
  TORCH_CHECK(a[2].toBool() || a[1].toInt() <= self.size(-1),
              "cannot sample n_sample > prob_dist.size(-1) samples without replacement");
}

void no_scalars(Arguments a) {
  int64_t place = 0;
  for (const at::Tensor& tensor : a[0].toTensorVector())
    TORCH_CHECK(tensor.dim() > 0, "zero-dimensional tensor (at position ", place++,
                ") cannot be concatenated");
}

}  // namespace

Check check_of(const char* row) {
  static const std::unordered_map<std::string_view, Check> checks = {
      {"amax", [](Arguments a) { extremum("amax", a); }},
      {"amin", [](Arguments a) { extremum("amin", a); }},
      {"bernoulli.p", [](Arguments a) { share(a[1]); }},
      {"bernoulli_.float", [](Arguments a) { share(a[1]); }},
      {"bucketize.Tensor",
       [](Arguments a) {
         TORCH_CHECK(a[1].toTensor().dim() == 1, "boundaries tensor must be 1 dimension, but got dim(",
                     a[1].toTensor().dim(), ")");
       }},
      {"cat", no_scalars},
      {"cauchy_",
       [](Arguments a) {
         TORCH_CHECK(number(a[2]) > 0, "cauchy_ expects sigma > 0.0, but found sigma=", number(a[2]));
       }},
      {"complex", same_dtype},
      {"embedding", [](Arguments a) { TORCH_CHECK(a[0].toTensor().dim() == 2, "'weight' must be 2-D"); }},
      {"exponential_",
       [](Arguments a) {
         TORCH_CHECK(number(a[1]) > 0, "exponential_ expects lambda > 0.0, but found lambda=", number(a[1]));
       }},
      {"geometric_",
       [](Arguments a) {
         TORCH_CHECK(number(a[1]) > 0 && number(a[1]) < 1,
                     "geometric_ expects p to be in (0, 1), but got p=", number(a[1]));
       }},
      {"huber_loss",
       [](Arguments a) {
         TORCH_CHECK(number(a[3]) > 0, "huber_loss does not support non-positive values for delta.");
       }},
      {"log_normal_",
       [](Arguments a) {
         TORCH_CHECK(number(a[2]) > 0, "log_normal_ expects std > 0.0, but found std=", number(a[2]));
       }},
      {"multinomial", multinomial},
      {"normal.Tensor_float", [](Arguments a) { deviation(a[1]); }},
      {"normal_", [](Arguments a) { deviation(a[2]); }},
      {"polar", same_dtype},
      {"random_.from",
       [](Arguments a) {
         if (!a[2].isNone()) range(a[1].toInt(), a[2].toInt());
       }},
      {"random_.to", [](Arguments a) { range(0, a[1].toInt()); }},
      {"renorm",
       [](Arguments a) {
         TORCH_CHECK(number(a[1]) > 0, "renorm: non-positive-norm not supported");
         TORCH_CHECK(number(a[3]) >= 0, "renorm: expected maxnorm to be >= 0 but got ", number(a[3]));
       }},
      {"smooth_l1_loss",
       [](Arguments a) {
         TORCH_CHECK(!(number(a[3]) < 0), "smooth_l1_loss does not support negative values for beta.");
       }},
      {"uniform_",
       [](Arguments a) {
         TORCH_CHECK(number(a[1]) <= number(a[2]),
                     "uniform_ expects to return a [from, to) range, but found from=", number(a[1]),
                     " > to=", number(a[2]));
       }},
  };
  const auto found = checks.find(row);
  return found == checks.end() ? nullptr : found->second;
}

}  // namespace tpu::device
