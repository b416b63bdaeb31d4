// SPDX-License-Identifier: Apache-2.0
// Embedding tables and bags.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Value embedding(Args& a);
Value embedding_dense_backward(Args& a);
Value embedding_renorm(Args& a);
Results embedding_bag(Args& a);
Value embedding_bag_backward(Args& a);
Value embedding_bag_dense_backward(Args& a);
Value embedding_bag_weights_backward(Args& a);

}  // namespace tpu::lower
