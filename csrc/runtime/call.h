// SPDX-License-Identifier: Apache-2.0
// A call under way: its tensors, how each lies in its storage, and the key under which its plan is
// remembered.
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/util/SmallVector.h>

#include <memory>
#include <string>

#include "hlo/hash.h"
#include "runtime/storage.h"

namespace tpu::runtime {

struct Argument;

struct Call {
  at::ArrayRef<c10::IValue> arguments;
  // The device tensors among the arguments, lists flattened, undefined ones left out.
  c10::SmallVector<const at::Tensor*, 8> tensors;
  c10::SmallVector<Cell*, 8> cells;
  c10::SmallVector<int16_t, 8> argument_of;  // of each tensor
  c10::SmallVector<std::unique_ptr<View>, 8>
      views;  // null: the tensor is whole, or its storage was never written
  Chip* chip = nullptr;
  hlo::Hash key{};

  // -1 if it is no device tensor of this call.
  int index_of(const at::Tensor& tensor) const;
};

// Sorts out the arguments and checks devices. `depends_on`: the number arguments that count by value.
// `graph`: the call is one of a whole graph, which may see how tensors of one storage overlap (so they count
// with their offsets), and may have CPU tensors among its inputs. `name`: for messages.
void gather(Call& call, at::ArrayRef<c10::IValue> arguments, c10::ArrayRef<Argument> kinds,
            uint64_t depends_on, bool graph, const std::string& name);

// The bytes of a number (a Scalar, a float, an element of a list, or a 0-d CPU tensor) as an element of a
// dtype.
struct Bits {
  uint64_t low = 0, high = 0;
};
Bits bits_of(const c10::IValue& number, size_t element, hlo::DType dtype);
c10::Scalar number_of(const c10::IValue& number, size_t element);

}  // namespace tpu::runtime
