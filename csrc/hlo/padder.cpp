// SPDX-License-Identifier: Apache-2.0
// The frame of pad_program: numbers, layouts, masks.
#include "hlo/padder.h"

#include <algorithm>

namespace tpu::hlo {

bool is_padded(const PaddedDim& dim) {
  return std::ranges::any_of(dim, [](const Factor& f) { return !f.size.fixed(); });
}

PaddedDim merged(const PaddedDim& a, const PaddedDim& b) {
  if (!is_padded(a) && !is_padded(b)) return a;
  const auto anything = [](const PaddedDim& dim) {
    return std::ranges::all_of(dim, [](const Factor& f) { return f.free || f.size == Affine{0, 1}; });
  };
  if (anything(a)) return b;
  if (anything(b)) return a;
  const bool same = std::ranges::equal(a, b, {}, &Factor::size, &Factor::size);
  if (!same) throw Unpaddable("operands whose padding lies differently");
  PaddedDim both = a;
  for (size_t i = 0; i < both.size(); ++i) both[i].free &= b[i].free;
  return both;
}

// One factor for n and the fixed ones within: padding behind n rows of 4 is padding behind 4n.
PaddedDim packed(const PaddedDim& dim) {
  PaddedDim result;
  for (const Factor& factor : dim) {
    const int64_t times = factor.size.fixed() ? factor.size.offset : 0;
    if (times == 1) continue;
    if (times > 0 && !result.empty()) {
      Factor& outer = result.back();
      outer.size = {outer.size.scale * times, outer.size.offset * times};
      outer.free &= factor.free;
    } else {
      result.push_back(factor);
    }
  }
  if (result.empty()) result.push_back({{0, 1}, false});
  return result;
}

PaddedDims reshaped(const PaddedDims& from, const std::vector<Affine>& to) {
  std::vector<Factor> factors;  // innermost last; taken from the front
  for (const PaddedDim& dim : from)
    for (const Factor& factor : dim)
      if (factor.size != Affine{0, 1}) factors.push_back(factor);
  std::ranges::reverse(factors);
  PaddedDims result;
  for (Affine target : to) {
    PaddedDim dim;
    while (target != Affine{0, 1}) {
      if (factors.empty()) throw Unpaddable("a reshape that moves padding");
      const Factor factor = factors.back();
      const Affine size = factor.size;
      factors.pop_back();
      // target / size, or size / target, as a whole number.
      const auto quotient = [](Affine a, Affine b) -> int64_t {
        const int64_t x = b.scale ? b.scale : b.offset, y = b.scale ? a.scale : a.offset;
        if (x == 0 || y % x != 0) return 0;
        return Affine{b.scale * (y / x), b.offset * (y / x)} == a ? y / x : 0;
      };
      if (const int64_t times = quotient(target, size); times > 0) {
        dim.push_back(factor);
        target = {0, times};
      } else if (const int64_t more = quotient(size, target); more > 0) {
        // A size splits: 12 into 4 and 3; 4n into n and 4 (but not into 4 and n).
        dim.push_back({target, factor.free});
        factors.push_back({{0, more}, factor.free});
        target = {0, 1};
      } else if (size.fixed() && !target.fixed() && size.offset > 0 && target.scale % size.offset == 0 &&
                 target.offset % size.offset == 0) {
        dim.push_back(factor);
        target = {target.scale / size.offset, target.offset / size.offset};
      } else if (!size.fixed() && target.fixed() && factor.free && target.offset > 0 &&
                 size.scale % target.offset == 0 && size.offset % target.offset == 0) {
        dim.push_back({target, true});
        factors.push_back({{size.scale / target.offset, size.offset / target.offset}, true});
        target = {0, 1};
      } else {
        throw Unpaddable("a reshape that moves padding");
      }
    }
    result.push_back(packed(dim));
  }
  if (!factors.empty()) throw Unpaddable("a reshape that moves padding");
  return result;
}

Padder::Padder(const Program& program, const Fit& fit, int64_t bound)
    : original_(program), fit_(fit), bound_(bound), items_(program.op_count()) {
  size_t next = 0;
  for (int32_t i = 0; i < program.op_count(); ++i) {
    numbers_.push_back(next);
    const Op& op = program.op(i);
    for (const Type& type : op.results) next += type.dims.size();
    scan_attributes(sizes_in(op), [&](int64_t) { ++next; }, [](std::string_view) {});
  }
  if (next != fit.numbers.size()) throw Unpaddable("numbers that do not belong to the program");
}

std::vector<Affine> Padder::dims(Value value) const {
  const Op& op = original_.op(value.op());
  size_t at = numbers_[value.op()];
  for (int32_t r = 0; r < value.result(); ++r) at += op.results[r].dims.size();
  const auto first = fit_.numbers.begin() + static_cast<int64_t>(at);
  return {first, first + op.results[value.result()].rank()};
}

Type Padder::type_at_bound(Value value) const {
  Type type{original_.op(value.op()).results[value.result()].dtype, {}};
  for (Affine affine : dims(value)) type.dims.push_back(affine.at(bound_));
  return type;
}

void Padder::parameter(int32_t op, const Type& type) {
  Value value = made_->parameter(type);
  const Value original(nullptr, op, 0);
  const Type inside = type_at_bound(original);
  if (inside.dims != type.dims) value = hlo::slice(value, Dims(type.dims.size(), 0), inside.dims);
  items_[op] = {{value, simple(dims(original))}};
}

void Padder::end_parameters() { n_ = made_->parameter({DType::kS32, {}}); }

Value Padder::output(Value value, const Type& type) {
  const Item& made = item(value);
  for (const PaddedDim& dim : made.layout)
    if (is_padded(dim) && dim.size() > 1 && !std::ranges::all_of(dim, &Factor::free))
      throw Unpaddable("a result with padding inside of a dim");
  if (made.value.dims() == type.dims) return made.value;
  Dims high;
  for (int i = 0; i < type.rank(); ++i) high.push_back(type.dims[i] - made.value.dim(i));
  return hlo::pad(made.value, hlo::constant(*made_, {type.dtype, {}}, 0), Dims(high.size(), 0), high);
}

void Padder::add(int32_t index) {
  const Op& op = original_.op(index);
  size_t attributes = numbers_[index];
  for (const Type& type : op.results) attributes += type.dims.size();
  now_ = {&op, index, attributes};
  if (auto found = handlers().find(op.name); depends_on_n() && found != handlers().end()) {
    (this->*found->second)();
  } else {
    if (depends_on_n()) refuse("is not known to work on padded dims");
    std::vector<Value> operands;
    for (const Value& value : op.operands) operands.push_back(item(value).value);
    std::vector<PaddedDims> layouts;
    for (size_t r = 0; r < op.results.size(); ++r) layouts.push_back(simple(result_dims(r)));
    emit(std::move(operands), std::move(layouts));
  }
}

bool Padder::depends_on_n() const {
  const size_t end = now_.index + 1 < original_.op_count() ? numbers_[now_.index + 1] : fit_.numbers.size();
  for (size_t i = numbers_[now_.index]; i < end; ++i)
    if (!fit_.numbers[i].fixed()) return true;
  for (const Value& value : now_.op->operands)
    if (std::ranges::any_of(item(value).layout, is_padded)) return true;
  return false;
}

namespace {

// Where the value of attribute `name` begins and ends; nothing if it is not there.
std::string_view find_attribute(std::string_view text, std::string_view name) {
  for (size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const size_t value = at + name.size() + 3;
    if ((at != 0 && text[at - 1] != ' ' && text[at - 1] != '<') || text.substr(at + name.size(), 3) != " = ")
      continue;
    const char first = text[value];
    const size_t end = first == '['                   ? text.find(']', value)
                       : first == 'a' || first == 'd' ? text.find('>', value)
                                                      : text.find_first_of(",>", value);
    return text.substr(value, end == std::string_view::npos ? end : end - value);
  }
  return {};
}

size_t count_numbers(std::string_view text) {
  size_t count = 0;
  scan_attributes(text, [&](int64_t) { ++count; }, [](std::string_view) {});
  return count;
}

}  // namespace

std::vector<Affine> Padder::attribute(const char* name) const {
  const std::string_view text = now_.op->attributes, sizes = sizes_in(*now_.op);
  const std::string_view found = find_attribute(text, name);
  std::vector<Affine> result;
  if (!found.data()) return result;
  if (found.data() < sizes.data() || found.data() >= sizes.data() + sizes.size()) {
    scan_attributes(found, [&](int64_t number) { result.push_back({0, number}); }, [](std::string_view) {});
    return result;
  }
  const size_t before = count_numbers(sizes.substr(0, static_cast<size_t>(found.data() - sizes.data())));
  const auto first = fit_.numbers.begin() + static_cast<int64_t>(now_.numbers + before);
  return {first, first + static_cast<int64_t>(count_numbers(found))};
}

std::vector<int> Padder::fixed(const char* name) const {
  std::vector<int> result;
  for (Affine affine : attribute(name)) {
    if (!affine.fixed()) refuse("has an attribute that depends on the size");
    result.push_back(static_cast<int>(affine.offset));
  }
  return result;
}

std::string Padder::attributes_at_bound() const {
  const std::string_view whole = now_.op->attributes, sizes = sizes_in(*now_.op);
  const auto from = static_cast<size_t>(sizes.data() - whole.data());
  std::string text(whole.substr(0, from));
  size_t next = now_.numbers;
  scan_attributes(
      sizes, [&](int64_t) { append_int(text, fit_.numbers[next++].at(bound_)); },
      [&](std::string_view rest) { text += rest; });
  if (std::string_view(now_.op->name) == "stablehlo.constant") {
    text += " : ";
    type_at_bound({nullptr, now_.index, 0}).append_to(text);
  } else {
    text += whole.substr(from + sizes.size());
  }
  return text;
}

void Padder::emit(std::vector<Value> operands, std::vector<PaddedDims> layouts) {
  Op op{now_.op->name, std::move(operands), attributes_at_bound(), now_.op->regions, {}};
  for (size_t r = 0; r < now_.op->results.size(); ++r)
    op.results.push_back(type_at_bound({nullptr, now_.index, static_cast<int32_t>(r)}));
  const Value first = made_->add(std::move(op));
  for (size_t r = 0; r < layouts.size(); ++r)
    items_[now_.index].push_back({{made_.get(), first.op(), static_cast<int32_t>(r)}, std::move(layouts[r])});
}

void Padder::put(Value value, PaddedDims layout) { items_[now_.index].push_back({value, std::move(layout)}); }

PaddedDims Padder::simple(const std::vector<Affine>& dims, bool free) const {
  PaddedDims layout;
  for (Affine affine : dims) layout.push_back({{affine, free}});
  return layout;
}

Value Padder::size(Affine affine) {
  const Type type{DType::kS32, {}};
  if (affine.fixed()) return hlo::constant(*made_, type, affine.offset);
  Value result = n_;
  if (affine.scale != 1) result = hlo::multiply(result, hlo::constant(*made_, type, affine.scale));
  if (affine.offset != 0) result = hlo::add(result, hlo::constant(*made_, type, affine.offset));
  return result;
}

Value Padder::whole(Value fill, const Dims& dims) { return hlo::broadcast_in_dim(fill, dims, {}); }

Value Padder::mask(const Item& item, const std::vector<int>& dims) {
  Value result;
  for (int dim : dims) {
    const PaddedDim& factors = item.layout[dim];
    if (!is_padded(factors)) continue;
    const Type index{DType::kS32, {item.value.dim(dim)}};
    const auto number = [&](int64_t x) { return hlo::constant(*made_, index, x); };
    int64_t inner = 1;
    for (size_t f = factors.size(); f-- > 0; inner *= factors[f].size.at(bound_)) {
      const Affine extent = factors[f].size;
      if (extent.fixed()) continue;
      Value place = hlo::iota(*made_, index, 0);
      if (inner > 1) place = hlo::divide(place, number(inner));
      if (f > 0) place = hlo::remainder(place, number(extent.at(bound_)));
      Value ok = hlo::compare(place, whole(size(extent), index.dims), Direction::kLt);
      ok = hlo::broadcast_in_dim(ok, item.value.dims(), {dim});
      result = result ? hlo::and_(result, ok) : ok;
    }
  }
  return result;
}

Value Padder::masked(const Item& item, const std::vector<int>& dims, Value fill) {
  const Value ok = mask(item, dims);
  return ok ? hlo::select(ok, item.value, whole(fill, item.value.dims())) : item.value;
}

Value Padder::take(Value x, int dim, Value start, int64_t extent) {
  // XLA would move a start for which the slice reaches over the end.
  Dims high(x.dims().size(), 0);
  high[dim] = extent;
  x = hlo::pad(x, hlo::constant(*made_, {x.dtype(), {}}, 0), Dims(high.size(), 0), high);
  std::vector<Value> starts(x.dims().size(), hlo::constant(*made_, {DType::kS32, {}}, 0));
  starts[dim] = hlo::convert(start, DType::kS32);
  Dims sizes = x.dims();
  sizes[dim] = extent;
  return hlo::dynamic_slice(x, starts, sizes);
}

void Padder::refuse(const char* why) const { throw Unpaddable(std::string(now_.op->name) + " " + why); }

int64_t margin_of(const Program& program, std::span<const Value> outputs, const Fit& fit) {
  const Padder padder(program, fit, 0);
  int64_t margin = 0;
  const auto see = [&](const Value& value) {
    for (Affine affine : padder.dims(value))
      if (affine.scale == 1) margin = std::max(margin, affine.offset);
  };
  for (int32_t i = 0; i < program.op_count(); ++i)
    if (parameter_at(program, i) >= 0) see({nullptr, i, 0});
  for (const Value& output : outputs) see(output);
  return margin;
}

Padded pad_program(const Program& program, std::span<const Value> outputs, const Fit& fit, int64_t bound) {
  Padder padder(program, fit, bound);
  // Of a roll by n, say: at the bound such a dim has fewer elements than for n.
  for (int32_t i = 0; i < program.op_count(); ++i)
    for (int32_t r = 0; r < static_cast<int32_t>(program.op(i).results.size()); ++r)
      for (Affine affine : padder.dims({nullptr, i, r}))
        if (affine.scale < 0) throw Unpaddable("a dim that shrinks as another one grows");
  // All dims of one scale at the border get one size, so that a result fits as the next call's argument.
  std::unordered_map<int64_t, int64_t> offsets;
  const auto parameter = [&](int32_t i) { return parameter_at(program, i) >= 0; };
  const auto see = [&](const Value& value) {
    for (Affine affine : padder.dims(value))
      if (!affine.fixed()) offsets[affine.scale] = std::max(offsets[affine.scale], affine.offset);
  };
  const auto border = [&](const Value& value) {
    Type type = padder.type_at_bound(value);
    const std::vector<Affine> dims = padder.dims(value);
    for (int i = 0; i < type.rank(); ++i)
      if (!dims[i].fixed()) type.dims[i] = Affine{dims[i].scale, offsets[dims[i].scale]}.at(bound);
    return type;
  };
  for (int32_t i = 0; i < program.op_count(); ++i)
    if (parameter(i)) see({nullptr, i, 0});
  for (const Value& output : outputs) see(output);

  Padded result;
  for (int32_t i = 0; i < program.op_count(); ++i)
    if (parameter(i)) {
      result.parameter_types.push_back(border({nullptr, i, 0}));
      padder.parameter(i, result.parameter_types.back());
    }
  padder.end_parameters();
  for (int32_t i = 0; i < program.op_count(); ++i)
    if (!parameter(i)) padder.add(i);
  for (const Value& output : outputs) {
    result.output_types.push_back(border(output));
    result.outputs.push_back(padder.output(output, result.output_types.back()));
  }
  result.program = padder.take();
  return result;
}

}  // namespace tpu::hlo
