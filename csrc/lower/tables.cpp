// SPDX-License-Identifier: Apache-2.0
// The list of families, and the search for a row over all of them.
#include "lower/tables.h"

#include <c10/util/Exception.h>

#include <unordered_map>

namespace tpu::lower {

std::span<const Family> families() {
  static const Family all[] = {
      {"activation", &activation_table},
      {"attention", &attention_table},
      {"compare", &compare_table},
      {"conv", &conv_table},
      {"create", &create_table},
      {"foreach", &foreach_table},
      {"index", &index_table},
      {"linalg", &linalg_table},
      {"loss", &loss_table},
      {"matmul", &matmul_table},
      {"norm", &norm_table},
      {"optim", &optim_table},
      {"pointwise", &pointwise_table},
      {"pool", &pool_table},
      {"random", &random_table},
      {"reduce", &reduce_table},
      {"scan", &scan_table},
      {"shape", &shape_table},
      {"sort", &sort_table},
      {"special", &special_table},
  };
  return all;
}

const Row* find(std::string_view op) {
  static const auto* rows = [] {
    auto* map = new std::unordered_map<std::string_view, const Row*>();  // never freed: used up to the end
    for (const Family& family : families()) {
      for (const Row& row : *family.table) {
        bool fresh = map->emplace(row.op, &row).second;
        TORCH_INTERNAL_ASSERT(fresh, "lower: two rows for ", row.op, ", the second in ", family.name);
      }
    }
    return map;
  }();
  auto it = rows->find(op);
  return it == rows->end() ? nullptr : it->second;
}

}  // namespace tpu::lower
