// SPDX-License-Identifier: Apache-2.0
// All tables of lowering rules: one per family, one row per ATen overload, sorted by name.
#pragma once

#include <span>
#include <string_view>

#include "lower/rule.h"

namespace tpu::lower {

extern const Table activation_table;
extern const Table attention_table;
extern const Table compare_table;
extern const Table conv_table;
extern const Table create_table;
extern const Table foreach_table;
extern const Table index_table;
extern const Table linalg_table;
extern const Table loss_table;
extern const Table matmul_table;
extern const Table norm_table;
extern const Table optim_table;
extern const Table pointwise_table;
extern const Table pool_table;
extern const Table random_table;
extern const Table reduce_table;
extern const Table scan_table;
extern const Table shape_table;
extern const Table sort_table;
extern const Table special_table;

struct Family {
  const char* name;
  const Table* table;
};
std::span<const Family> families();
const Row* find(std::string_view op);  // nullptr: no row

}  // namespace tpu::lower
