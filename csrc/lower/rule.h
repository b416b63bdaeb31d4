// SPDX-License-Identifier: Apache-2.0
// What a lowering rule is, and how it sees its arguments.
//
// A rule gives the meaning of one ATen overload: operands and attributes in, values out.
//
//   {"silu", [](Args& a) { Value x = a.floating(0); return x * logistic(x); }},
//
// The rule runs when the op is called. What it records *is* the program, its types and its cache key, so a
// rule states no shape, no result dtype and no key. Dispatch derives the in-place and out= forms from the
// schema: the rule is always the functional form. It also converts each result to the dtype that the op's
// schema and PyTorch's meta kernel ask for, so a rule may return f32 where bf16 is wanted, or kPred for a
// comparison; it may not return another shape.
//
// Three kinds of arguments, by how a change of them acts on the cached program:
//   - tensors: the program depends on dtype and shape;
//   - Scalar and float arguments, and 0-d CPU tensors: run-time operands. The program depends on their kind
//   (bool, int,
//     float, complex) only, and on whether the argument has its schema default (`is_default`). A rule that
//     needs the number itself to choose its ops says `constant(i)`; from then on the program depends on the
//     number;
//   - everything else (int, int[], bool, str, dtype, ...): attributes. The program depends on their value.
#pragma once

#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>

#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "hlo/math.h"

namespace c10 {
struct FunctionSchema;
}

namespace tpu::lower {

using hlo::Dims;
using hlo::DType;
using hlo::Type;
using hlo::Value;

DType dtype_of(c10::ScalarType type);  // raises NotImplementedError for what has no StableHLO type
c10::ScalarType scalar_type_of(DType dtype);

// Where values come from: the recorder in a running process, plain parameters in ahead-of-time checks.
class Source {
 public:
  virtual ~Source() = default;
  virtual hlo::Program& program() = 0;
  // The elements that a tensor sees, as a value of its sizes and dtype. A 0-d CPU tensor becomes an operand.
  virtual Value tensor(const at::Tensor& tensor) = 0;
  // A 0-d run-time operand. `arg` is the argument's place in the schema, `element` its place in a Scalar[] or
  // float[].
  virtual Value scalar(const c10::IValue& number, size_t arg, size_t element, DType dtype) = 0;
  // Tells that the program depends on the value of argument `arg`.
  virtual void depends_on(size_t arg) = 0;
  // kU64[2] (seed, offset) for rng_bit_generator; the generator (may be none: the default one) moves on by
  // `count`.
  virtual Value rng_state(const c10::IValue& generator, uint64_t count) = 0;
  // `ok` (kPred, 0-d) must be true at run time; else `message` is raised as an IndexError (`what` = "index")
  // or RuntimeError.
  virtual void require(Value ok, const char* what, const std::string& message) = 0;
};

// The arguments of one call, in the order of the schema of the functional form.
class Args {
 public:
  Args(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments, Source& source);

  size_t size() const { return arguments_.size(); }
  hlo::Program& program() const { return source_.program(); }
  Source& source() const { return source_; }
  const c10::IValue& ivalue(size_t i) const { return arguments_[i]; }
  bool has(size_t i) const;  // not None, and not an undefined tensor

  // ---- tensors
  Value operator[](size_t i) const;  // as it is; a Scalar argument becomes a 0-d operand of its own kind
  std::optional<Value> maybe(size_t i) const;                    // Tensor?
  std::vector<Value> list(size_t i) const;                       // Tensor[]
  std::vector<std::optional<Value>> maybe_list(size_t i) const;  // Tensor?[]
  DType dtype(size_t i) const;                                   // of tensor argument i, without reading it
  Dims dims(size_t i) const;  // sizes of tensor argument i, without reading it

  // ---- promotion (PyTorch's rules: dims beat 0-d beat wrapped numbers; a Scalar counts as a wrapped number)
  DType result_type(std::initializer_list<size_t> args) const;
  DType default_float() const;     // torch.get_default_dtype()
  Value floating(size_t i) const;  // integral and bool become the default float; f16/bf16 become f32 (opmath)
  std::vector<Value> promoted(std::initializer_list<size_t> args) const;  // common dtype, broadcast together
  std::vector<Value> promoted_floating(
      std::initializer_list<size_t> args) const;  // ... and at least a float, widened to opmath
  // Common dtype, widened to opmath (f16, bf16 -> f32), broadcast together: for arithmetic of several steps.
  std::vector<Value> promoted_wide(std::initializer_list<size_t> args) const;

  // ---- run-time operands
  Value scalar(size_t i, DType dtype) const;   // Scalar, float, int or bool argument as a 0-d operand
  Value scalar_like(size_t i, Value x) const;  // ... of x's dtype, broadcast to x's dims
  std::vector<Value> scalars(size_t i, DType dtype) const;  // Scalar[] or float[]
  bool is_default(size_t i) const;  // the Scalar or float argument equals the schema's default

  // ---- attributes
  double constant(size_t i) const;  // Scalar or float whose number decides which ops are used
  int64_t integer(size_t i) const;
  int64_t integer_or(size_t i, int64_t other) const;  // int?
  bool flag(size_t i) const;
  std::string string(size_t i) const;
  int dim(size_t i, int rank) const;                // int dim, wrapped; raises IndexError with PyTorch's text
  std::vector<int> dims(size_t i, int rank) const;  // int[]? dim, wrapped, sorted; None or empty: all of them
  Dims ints(size_t i) const;                        // int[] as given
  Dims ints(size_t i, size_t count) const;          // int[], a single one repeated to `count`
  std::optional<DType> maybe_dtype(size_t i) const;  // ScalarType?

 private:
  const c10::FunctionSchema& schema_;
  at::ArrayRef<c10::IValue> arguments_;
  Source& source_;
};

int wrap_dim(int64_t dim,
             int rank);  // raises IndexError: "Dimension out of range (expected to be in range of ...)"

// What a rule returns: one value, or several in the order of the schema's returns. An empty Value is an
// undefined tensor. For a Tensor[] return the values are its elements.
using Results = std::vector<Value>;

class Rule {
 public:
  Rule() = default;
  template <class F>
    requires std::is_invocable_v<F, class Args&>
  Rule(F f)  // NOLINT: a row holds a lambda as it is
      : call_([f](Args& a) -> Results {
          using R = std::invoke_result_t<F, Args&>;
          if constexpr (std::is_same_v<R, Value>)
            return {f(a)};
          else
            return f(a);
        }) {}
  Results operator()(Args& a) const { return call_(a); }

 private:
  std::function<Results(Args&)> call_;
};

enum Flags : unsigned {
  kNone = 0,
  kRandom = 1,      // draws from a generator
  kNoMeta = 2,      // PyTorch has no usable meta kernel: shapes and dtypes are what the rule returns
  kKeepsDtype = 4,  // with kNoMeta: results keep the dtype that the rule returns
  // PyTorch's meta kernel refuses what the op takes: kNoMeta for calls with such a tensor.
  kNoMetaOfEmpty = 8,
  kNoMetaOfGaps = 16,
};

struct Row {
  const char* op;  // an ATen overload without namespace: "add.Tensor", "relu"
  Rule rule;
  unsigned flags = kNone;
};
using Table = std::vector<Row>;

// ---- combinators: rules for regular ops. The op's tensors are arguments 0 (and 1, and 2).
Rule unary(Value (*f)(Value));            // in x's own dtype
Rule floating(Value (*f)(Value));         // Args::floating
Rule promoted(Value (*f)(Value, Value));  // Args::promoted
Rule promoted_floating(Value (*f)(Value, Value));
Rule comparison(hlo::Direction direction);  // promoted operands, kPred result

}  // namespace tpu::lower
