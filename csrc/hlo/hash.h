// SPDX-License-Identifier: Apache-2.0
// A 128-bit hash that is the same in each process and on each (little-endian) machine.
#pragma once

#include <bit>
#include <cstring>
#include <string_view>

#include "hlo/program.h"

namespace tpu::hlo {

// Two lanes, each a bijection of the word it takes, so inputs that differ in one word never meet.
class Hasher {
 public:
  void word(uint64_t value) {
    a_ = (a_ ^ value) * 0xD6E8FEB86659FD93u;
    a_ ^= a_ >> 32;
    b_ = (std::rotl(b_, 23) + value) * 0x9FB21C651E98DF25u;
    b_ ^= b_ >> 29;
  }
  void bytes(std::string_view text) {
    word(text.size());
    while (text.size() >= 8) {
      uint64_t value;
      std::memcpy(&value, text.data(), 8);
      word(value);
      text.remove_prefix(8);
    }
    uint64_t rest = 0;
    if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
    word(rest);
  }
  void hash(const Hash& value) {
    word(value[0]);
    word(value[1]);
  }
  void type(const Type& type) {
    word(static_cast<uint64_t>(type.dtype) << 32 | type.dims.size());
    for (int64_t dim : type.dims) word(static_cast<uint64_t>(dim));
  }
  Hash done() const {
    Hasher last = *this;
    last.word(b_);
    last.word(a_);
    return {last.a_ ^ last.a_ >> 29, last.b_ ^ last.b_ >> 32};
  }

 private:
  uint64_t a_ = 0x243F6A8885A308D3u;
  uint64_t b_ = 0x13198A2E03707344u;
};

}  // namespace tpu::hlo
