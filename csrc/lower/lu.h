// SPDX-License-Identifier: Apache-2.0
// Factorizations of batches of matrices in plain HLO: the plugins of virtual chips have no calls for them.
#pragma once

#include "lower/rule.h"

namespace tpu::lower {

// a [b, m, n] with rows exchanged (partial pivoting) = L U, both in one matrix.
struct Lu {
  Value matrix;       // [b, m, n]
  Value pivots;       // kS32 [b, min(m, n)]: row k was exchanged with row pivots[k], counted from 1
  Value permutation;  // kS32 [b, m]: the row of a that row i of L U is
  Value info;         // kS32 [b]: the first k, counted from 1, with U[k, k] == 0; else 0
};
Lu lu(Value a, bool pivot);

// Householder: the reflections I - tau v v^H that make a [b, m, n] upper triangular, as LAPACK has them.
struct Reflectors {
  Value upper;    // [b, m, n]
  Value vectors;  // [b, m, min(m, n)]: the v, with a one on the diagonal and zeros above
  Value scales;   // [b, min(m, n)]: the tau
};
Reflectors reflectors(Value a);

// a [b, m, n] = Q R with Q [b, m, columns], R [b, columns, n].
struct Qr {
  Value q, r;
};
Qr qr(Value a, int64_t columns);

// The eigenvalues [b, n], ascending, and eigenvectors [b, n, n] of the symmetric or Hermitian a.
struct Eigen {
  Value values, vectors;
};
Eigen eigh(Value a);

// a [b, m, n] = left right^H, m >= n: `left` has orthogonal columns of lengths `values`, descending; right
// [b, n, n] is unitary.
struct Svd {
  Value left, values, right;
};
Svd svd(Value a);

Value eye(hlo::Program& p, DType dtype, Dims dims);
Value adjoint(Value x);                         // conjugate transpose of the last two dims
Value diagonal_of(Value a);                     // [b, min(m, n)]
Value permutation_of(Value pivots, int64_t m);  // of the pivots of an Lu: its `permutation`

}  // namespace tpu::lower
