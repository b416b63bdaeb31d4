// SPDX-License-Identifier: Apache-2.0
// Storages, their addresses, and tensors over them.
#include "runtime/storage.h"

#include <ATen/core/TensorBase.h>
#include <c10/core/Allocator.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>
#include <sys/mman.h>

#include <atomic>
#include <mutex>
#include <numeric>

#include "lower/rule.h"
#include "runtime/chip.h"
#include "runtime/recording.h"

namespace tpu::runtime {
namespace {

// PyTorch and the libraries tell storages apart by address, so each storage gets a range of its own. Nothing
// is ever mapped there: code that takes a device tensor for host memory faults at once instead of reading
// garbage.
constexpr size_t kAddressSpace = size_t{1} << 45;

void* take_address(size_t bytes) {
  static char* base = [] {
    void* reserved =
        mmap(nullptr, kAddressSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return reserved == MAP_FAILED ? reinterpret_cast<char*>(uintptr_t{1} << 46)
                                  : static_cast<char*>(reserved);
  }();
  static std::atomic<size_t> next{0};
  const size_t step = (bytes + 64) & ~size_t{63};
  size_t at = next.fetch_add(step, std::memory_order_relaxed);
  return base + at % (kAddressSpace - (size_t{1} << 40));
}

// A cell that can be found by its address: PyTorch makes tensors of an address alone where it pickles a
// storage or takes a DLPack capsule. That is rare, so finding may be slow; the list costs the others little.
struct ListedCell : Cell {
  void* address;
  ListedCell *next = nullptr, *previous = nullptr;
};

std::mutex list_mutex;  // taken last: nothing is called under it
ListedCell* first_cell = nullptr;

void delete_cell(void* pointer) {
  if (forked()) return;  // a thread that is gone may hold the mutex
  auto* cell = static_cast<ListedCell*>(static_cast<Cell*>(pointer));
  {
    std::lock_guard guard(list_mutex);
    (cell->previous ? cell->previous->next : first_cell) = cell->next;
    if (cell->next) cell->next->previous = cell->previous;
  }
  delete cell;
}

Cell* find_cell(const void* address) {
  std::lock_guard guard(list_mutex);
  for (ListedCell* cell = first_cell; cell; cell = cell->next)
    if (cell->address == address) return cell;
  return nullptr;
}

c10::DataPtr make_pointer(Chip& chip, size_t bytes, hlo::Type made_as, ArrayRef array) {
  auto* cell = new ListedCell{{&chip, std::move(array), std::move(made_as)}, take_address(bytes)};
  {
    std::lock_guard guard(list_mutex);
    cell->next = first_cell;
    if (first_cell) first_cell->previous = cell;
    first_cell = cell;
  }
  return {cell->address, static_cast<Cell*>(cell), &delete_cell,
          c10::Device(kDevice, static_cast<c10::DeviceIndex>(chip.index()))};
}

struct CellAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    return make_pointer(chip(current_chip()), bytes, {hlo::DType::kU8, {static_cast<int64_t>(bytes)}}, {});
  }
  c10::DeleterFnPtr raw_deleter() const override { return nullptr; }
  void copy_data(void*, const void*, std::size_t) const override {
    TORCH_CHECK(false, "tpu: raw memory can't be copied by address");
  }
};

}  // namespace

c10::Allocator* allocator() {
  static auto* instance = new CellAllocator;
  return instance;
}

c10::Storage make_storage(Chip& chip, size_t bytes, hlo::Type made_as, ArrayRef array) {
  return c10::Storage(c10::make_intrusive<c10::StorageImpl>(
      c10::StorageImpl::use_byte_size_t(), bytes,
      make_pointer(chip, bytes, std::move(made_as), std::move(array)), allocator(), /*resizable=*/true));
}

at::Tensor make_tensor(c10::Storage storage, c10::ScalarType dtype, c10::IntArrayRef sizes,
                       c10::IntArrayRef strides, int64_t offset) {
  auto tensor = at::detail::make_tensor<c10::TensorImpl>(std::move(storage),
                                                         c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                         c10::scalarTypeToTypeMeta(dtype));
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(sizes, strides, offset);
  return tensor;
}

hlo::Type memory_type(c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
  std::vector<size_t> order(sizes.size());
  std::iota(order.begin(), order.end(), 0);
  bool sorted = true;
  for (size_t i = 1; i < strides.size(); ++i) sorted &= strides[i - 1] >= strides[i];
  if (!sorted)
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return strides[a] > strides[b]; });
  hlo::Type type{lower::dtype_of(dtype), {}};
  int64_t expected = 1, span = 1;
  bool dense = true, empty = false;
  for (size_t i = order.size(); i-- > 0;) {
    const int64_t size = sizes[order[i]];
    empty |= size == 0;
    if (size > 1) {
      dense &= strides[order[i]] == expected;
      span += (size - 1) * strides[order[i]];
    }
    expected *= size;
  }
  if (dense || empty) {
    for (size_t d : order) type.dims.push_back(sizes[d]);
  } else {
    type.dims = {span};
  }
  return type;
}

at::Tensor make_tensor(Chip& chip, c10::ScalarType dtype, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                       ArrayRef array) {
  hlo::Type type = array ? array->type() : memory_type(dtype, sizes, strides);
  const size_t bytes = type.bytes();
  return make_tensor(make_storage(chip, bytes, std::move(type), std::move(array)), dtype, sizes, strides);
}

Cell& cell_of(const c10::Storage& storage) {
  const c10::DataPtr& pointer = storage.data_ptr();
  if (pointer.get_deleter() == &delete_cell) [[likely]]
    return *static_cast<Cell*>(pointer.get_context());
  Cell* cell = pointer.device().type() == kDevice ? find_cell(pointer.get()) : nullptr;
  TORCH_CHECK(cell, "tpu: expected a storage of this device, got one on ", pointer.device(),
              " at an address that is no storage's beginning");
  return *cell;
}

Cell& cell_of(const at::Tensor& tensor) { return cell_of(tensor.storage()); }

Chip& chip_of(const at::Tensor& tensor) { return *cell_of(tensor).chip; }

hlo::Type array_type(const Cell& cell, size_t storage_bytes) {
  if (cell.array) return cell.array->type();
  if (cell.made_as.bytes() == storage_bytes) return cell.made_as;
  return {hlo::DType::kU8, {static_cast<int64_t>(storage_bytes)}};
}

bool is_whole(const at::Tensor& tensor, const Cell& cell) {
  if (!cell.array || tensor.storage_offset() != 0 || !tensor.is_contiguous()) return false;
  const hlo::Type& type = cell.array->type();
  const c10::IntArrayRef sizes = tensor.sizes();
  return sizes.size() == type.dims.size() && std::equal(sizes.begin(), sizes.end(), type.dims.begin()) &&
         lower::dtype_of(tensor.scalar_type()) == type.dtype;
}

View view_of(const at::Tensor& tensor, const hlo::Type& type) {
  const hlo::DType dtype = lower::dtype_of(tensor.scalar_type());
  const hlo::Dims dims = bit_cast_dims(type, dtype);
  View view = resolve(tensor.sizes(), tensor.strides(), tensor.storage_offset(), dims);
  if (hlo::Type{dtype, dims}.bytes() != type.bytes()) view.covers = view.plain = false;
  return view;
}

void resize_storage(const c10::Storage& storage, size_t bytes) {
  std::lock_guard guard(lock());
  Cell& cell = cell_of(storage);
  const size_t before = storage.nbytes();
  storage.unsafeGetStorageImpl()->set_nbytes(bytes);
  if (!cell.array || before == bytes) return;
  // The prefix stays, what is new is undefined (here: zero). The array becomes flat.
  Recording recording(*cell.chip);
  hlo::Value old = bit_cast(recording.value_of(cell.array), hlo::DType::kU8);
  hlo::Value flat = hlo::reshape(old, {static_cast<int64_t>(before)});
  const auto now = static_cast<int64_t>(bytes), then = static_cast<int64_t>(before);
  hlo::Value result =
      now <= then
          ? hlo::slice(flat, {0}, {now})
          : hlo::pad(flat, hlo::constant(recording.program(), {hlo::DType::kU8, {}}, 0), {0}, {now - then});
  const hlo::DType dtype = cell.array->type().dtype;
  if (dtype != hlo::DType::kPred && bytes % hlo::byte_width(dtype) == 0) result = bit_cast(result, dtype);
  ArrayRef array = recording.wrap(result);
  recording.launch("resize_");
  cell.array = std::move(array);
}

}  // namespace tpu::runtime
