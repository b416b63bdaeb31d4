// SPDX-License-Identifier: Apache-2.0
// Rules of recurrent cells: the gates after both matrix products, element by element.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

Results lstm_cell(
    Args& a);  // (input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy, workspace)
Results lstm_cell_backward(Args& a);  // (grad_hy, grad_cy, cx, cy, workspace, has_bias) -> (gates, cx, bias)
Results gru_cell(Args& a);  // (input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace)
Results gru_cell_backward(
    Args& a);  // (grad_hy, workspace, has_bias) -> (input_gates, hidden_gates, hx, 2 biases)

}  // namespace tpu::lower
