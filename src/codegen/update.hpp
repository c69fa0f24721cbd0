// The optimizer's kernels over the flat arenas: one for all parameters of a segment, and two for
// the gradients' norm.
#pragma once

#include "codegen/lower.hpp"

namespace tensorgrad {

/// The part of an arena segment that an update works on.
struct UpdateRange {
  std::int64_t elements = 0, decayed = 0;
};

/// Bindings in order: parameters, gradients, [states...], scalars, [norm].
LoweredKernel lower_update(OpKind op, const UpdateAttr& attrs, const UpdateRange& range);

/// Sums of squares of `parts` pieces of a gradient segment. Bindings: gradients, partial sums.
LoweredKernel lower_norm_partial(std::int64_t elements, std::int64_t parts);
/// The root of their sum. Bindings: partial sums, norm.
LoweredKernel lower_norm_final(std::int64_t parts);

}  // namespace tensorgrad
