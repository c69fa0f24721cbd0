#include "support/sample_kernels.hpp"

#include <limits>
#include <random>
#include <string>

#include "support/kernel_builder.hpp"

namespace tensorgrad::testing {

namespace {

// ---- elementwise

// relu(a[i, j] + b[j])
Kernel add_relu(std::int64_t rows, std::int64_t columns) {
  KernelBuilder b("add_relu_" + std::to_string(rows) + "x" + std::to_string(columns));
  const Index i = b.outer(rows), j = b.outer(columns);
  const int x = b.input(rows * columns), bias = b.input(columns), y = b.output(rows * columns);
  const ExprId sum = b.op(OpKind::Add, {b.load(x, i * columns + j), b.load(bias, j)});
  b.store(y, i * columns + j, b.op(OpKind::Relu, {sum}));
  return b.done();
}

// Every op on f32, one output each, in one kernel with three inputs.
Kernel float_ops(const std::string& name, const std::vector<OpKind>& ops) {
  KernelBuilder b(name);
  const Index i = b.outer(70);
  const int inputs[] = {b.input(70), b.input(70)};
  const ExprId x = b.load(inputs[0], i), y = b.load(inputs[1], i);
  for (OpKind op : ops) {
    std::vector<ExprId> args{x};
    if (op_arity(op) == 2) args.push_back(y);
    const bool positive =
        op == OpKind::Sqrt || op == OpKind::Rsqrt || op == OpKind::Log || op == OpKind::Log1p;
    if (positive) args[0] = b.op(OpKind::Add, {b.op(OpKind::Abs, {x}), b.constant(0.25)});
    b.store(b.output(70), i, b.op(op, args));
  }
  return b.done();
}

Kernel integer_ops() {
  KernelBuilder b("integer_ops");
  const Index i = b.outer(33);
  const int p = b.input(33, i32), q = b.input(33, i32);
  const ExprId x = b.load(p, i), y = b.load(q, i);
  ExprId total = b.op(OpKind::Add, {x, y});
  for (OpKind op : {OpKind::Sub, OpKind::Mul, OpKind::Div, OpKind::Minimum, OpKind::Maximum}) {
    total = b.op(OpKind::Add, {b.op(OpKind::Mul, {total, b.constant(31, i32)}), b.op(op, {x, y})});
  }
  for (OpKind op : {OpKind::Neg, OpKind::Abs, OpKind::Sign, OpKind::Relu}) {
    total = b.op(OpKind::Sub, {b.op(OpKind::Mul, {total, b.constant(-17, i32)}), b.op(op, {x})});
  }
  b.store(b.output(33, i32), i, total);
  b.store(b.output(33), i, b.op(OpKind::Cast, {x}, f32));
  return b.done();
}

Kernel bool_ops() {
  KernelBuilder b("bool_ops");
  const Index i = b.outer(40);
  const int p = b.input(40), q = b.input(40, i32), r = b.input(40, boolean),
            s = b.input(40, boolean);
  const ExprId x = b.load(p, i), n = b.load(q, i), t = b.load(r, i), u = b.load(s, i);
  const ExprId less = b.op(OpKind::Less, {x, b.constant(0.5)}, boolean);
  const ExprId even = b.op(OpKind::Equal, {n, b.constant(2, i32)}, boolean);
  const ExprId both = b.op(OpKind::LogicalAnd, {b.op(OpKind::LogicalNot, {t}), less});
  const ExprId nonzero = b.op(OpKind::Cast, {n}, boolean);
  const ExprId any = b.op(OpKind::LogicalOr, {both, b.op(OpKind::Where, {less, even, nonzero})});
  b.store(b.output(40, boolean), i, any);
  const ExprId below = b.op(OpKind::Less, {t, u}, boolean),
               most = b.op(OpKind::LessEqual, {t, u}, boolean);
  const ExprId same = b.op(OpKind::Equal, {below, most}, boolean);
  b.store(b.output(40, i32), i, b.op(OpKind::Cast, {same}, i32));
  const ExprId chosen = b.op(OpKind::Where, {any, x, b.op(OpKind::Cast, {n}, f32)});
  b.store(b.output(40), i, chosen);
  b.store(b.output(40, i32), i,
          b.op(OpKind::Cast, {b.op(OpKind::Mul, {x, b.constant(2147483648.0)})}, i32));
  return b.done();
}

// What a compiler would refuse if it folded it: infinities, overflow, division by zero.
Kernel constants() {
  KernelBuilder b("constants");
  const Index i = b.outer(3);
  const int x = b.input(3);
  constexpr double inf = std::numeric_limits<double>::infinity();
  const ExprId big = b.op(OpKind::Mul, {b.constant(3e38), b.constant(10)});
  const ExprId wrapped = b.op(OpKind::Add, {b.constant(2147483647, i32), b.constant(1, i32)});
  const ExprId largest = b.constant(std::numeric_limits<float>::max());
  b.store(b.output(3), i, b.op(OpKind::Minimum, {big, b.load(x, i)}));
  b.store(b.output(3), i, b.op(OpKind::Maximum, {b.constant(-inf), b.load(x, i)}));
  b.store(b.output(3), i, b.op(OpKind::Minimum, {largest, b.constant(inf)}));
  b.store(b.output(3, i32), i, wrapped);
  b.store(b.output(3, i32), i, b.op(OpKind::Div, {b.position(i), b.constant(0, i32)}));
  b.store(b.output(3), i, b.op(OpKind::Cast, {b.position(i + 1)}, f32));
  return b.done();
}

// ---- index maps

// x padded by 2 in front and 3 behind with -1.5, the gaps between elements too.
Kernel pad() {
  KernelBuilder b("pad");
  const std::int64_t rows = 4, columns = 5, step = 3, wide = 2 + (columns - 1) * step + 1 + 3;
  const Index i = b.outer(rows + 2), j = b.outer(wide);
  const int x = b.input(rows * columns), y = b.output((rows + 2) * wide);
  const std::vector<Guard> guards{{i, 1, 1 + rows, 1, false, -1},
                                  {j, 2, 2 + (columns - 1) * step + 1, step, false, -1}};
  const ExprId value = b.load(x, (i - 1) * columns + (j - 2).div(step), guards);
  b.store(y, i * wide + j, b.op(OpKind::Where, {b.test(guards), value, b.constant(-1.5)}));
  return b.done();
}

// Rows of a table at indices, some of them out of range.
Kernel gather() {
  KernelBuilder b("gather");
  const Index i = b.outer(9), j = b.outer(6);
  const int table = b.input(5 * 6), indices = b.input(9, i32), y = b.output(9 * 6);
  const Index row = Index::data(b.load(indices, i), 5);
  b.store(y, i * 6 + j, b.load(table, row * 6 + j, {{row, 0, 5, 1, true, -1}}));
  return b.done();
}

// concat([x[:, ::-1], y], axis 1), read back through a reshape to [n].
Kernel flip_concat() {
  KernelBuilder b("flip_concat");
  const Index n = b.outer(3 * 11);
  const Index i = n.div(11), j = n.mod(11);
  const int x = b.input(3 * 4), y = b.input(3 * 7), z = b.output(3 * 11);
  const std::vector<Guard> first{{j, 0, 4, 1, false, -1}}, second{{j, 4, 11, 1, false, -1}};
  const ExprId left = b.load(x, i * 4 + Index(3) - j, first),
               right = b.load(y, i * 7 + j - 4, second);
  b.store(z, n, b.op(OpKind::Where, {b.test(first), left, right}));
  return b.done();
}

// y[a, b, c] = x[c, a, b]: nothing can be made one variable but (a, b).
Kernel permute() {
  KernelBuilder b("permute");
  const Index i = b.outer(3), j = b.outer(4), k = b.outer(5);
  const int x = b.input(60), y = b.output(60);
  b.store(y, i * 20 + j * 5 + k, b.load(x, k * 12 + i * 4 + j));
  return b.done();
}

// y[a, b] = relu(x[a, b] + bias[b])·z[b, a], large enough to go by quads, but not z.
Kernel quads(std::int64_t rows) {
  constexpr std::int64_t columns = 256;
  KernelBuilder b("quads_" + std::to_string(rows));
  const Index i = b.outer(rows), j = b.outer(columns);
  const int x = b.input(rows * columns), bias = b.input(columns), z = b.input(rows * columns),
            y = b.output(rows * columns), sum = b.output(rows * columns);
  const ExprId added = b.op(OpKind::Add, {b.load(x, i * columns + j), b.load(bias, j)});
  b.store(y, i * columns + j,
          b.op(OpKind::Mul, {b.op(OpKind::Relu, {added}), b.load(z, j * rows + i)}));
  b.store(sum, j * rows + i, added);
  return b.done();
}

// x *= 2 in place, and y = x from another part of the same buffer.
Kernel in_place() {
  KernelBuilder b("in_place");
  const Index i = b.outer(50);
  const int x = b.input(50), x_out = b.output(50), other = b.input(50), y = b.output(50);
  b.binding(x_out).buffer = b.binding(x).buffer;
  b.binding(other).buffer = b.binding(x).buffer;
  b.binding(other).offset = 128;
  const ExprId value = b.load(x, i);
  b.store(x_out, i, b.op(OpKind::Add, {value, value}));
  b.store(y, i, b.op(OpKind::Sub, {b.load(other, i), value}));
  return b.done();
}

// ---- rows

Kernel softmax(std::int64_t rows, std::int64_t columns) {
  KernelBuilder b("softmax_" + std::to_string(rows) + "x" + std::to_string(columns));
  const Index i = b.outer(rows), j = b.inner(columns);
  const int x = b.input(rows * columns), y = b.output(rows * columns);
  const ExprId value = b.load(x, i * columns + j);
  const ExprId highest = b.reduce(ReduceKind::Max, value);
  const ExprId power = b.op(OpKind::Exp, {b.op(OpKind::Sub, {value, highest})});
  const ExprId total = b.reduce(ReduceKind::Sum, power);
  b.store(y, i * columns + j, b.op(OpKind::Div, {power, total}));
  return b.done();
}

// (x - mean) * rsqrt(var + eps) * gain, with the mean and a copy of x + 1 stored too; in place.
Kernel layer_norm(std::int64_t rows, std::int64_t columns) {
  KernelBuilder b("layer_norm_" + std::to_string(rows) + "x" + std::to_string(columns));
  const Index i = b.outer(rows), j = b.inner(columns);
  const int x = b.input(rows * columns), gain = b.input(columns), y = b.output(rows * columns);
  const int means = b.output(rows), copy = b.output(rows * columns);
  b.binding(y).buffer = b.binding(x).buffer;
  const ExprId value = b.load(x, i * columns + j);
  const ExprId scale = b.constant(1.0 / static_cast<double>(columns));
  const ExprId mean = b.op(OpKind::Mul, {b.reduce(ReduceKind::Sum, value), scale});
  const ExprId centred = b.op(OpKind::Sub, {value, mean});
  const ExprId squares = b.reduce(ReduceKind::Sum, b.op(OpKind::Mul, {centred, centred}));
  const ExprId spread = b.op(OpKind::Add, {b.op(OpKind::Mul, {squares, scale}), b.constant(1e-5)});
  const ExprId normal = b.op(OpKind::Mul, {centred, b.op(OpKind::Rsqrt, {spread})});
  b.store(y, i * columns + j, b.op(OpKind::Mul, {normal, b.load(gain, j)}));
  b.store(means, i, mean);
  b.store(copy, i * columns + j, b.op(OpKind::Add, {value, b.constant(1)}));
  return b.done();
}

// All reductions of one row, and argmax of its integers.
Kernel reductions(std::int64_t rows, std::int64_t columns) {
  KernelBuilder b("reductions_" + std::to_string(rows) + "x" + std::to_string(columns));
  const Index i = b.outer(rows), j = b.inner(columns);
  const int x = b.input(rows * columns), n = b.input(rows * columns, i32);
  const ExprId value = b.load(x, i * columns + j), whole = b.load(n, i * columns + j);
  for (ReduceKind kind : {ReduceKind::Max, ReduceKind::ArgMax, ReduceKind::ArgMin}) {
    const bool position = kind != ReduceKind::Max;
    b.store(b.output(rows, position ? i32 : f32), i, b.reduce(kind, value));
  }
  for (ReduceKind kind : {ReduceKind::ArgMax, ReduceKind::ArgMin, ReduceKind::Sum}) {
    b.store(b.output(rows, i32), i, b.reduce(kind, whole));
  }
  return b.done();
}

// Products and minima, of few elements so that they stay finite.
Kernel products() {
  KernelBuilder b("products");
  const Index i = b.outer(6), j = b.inner(9);
  const int x = b.input(54), n = b.input(54, i32);
  const ExprId value = b.load(x, i * 9 + j);
  b.store(b.output(6), i, b.reduce(ReduceKind::Prod, value));
  b.store(b.output(6), i, b.reduce(ReduceKind::Min, value));
  b.store(b.output(6, i32), i, b.reduce(ReduceKind::Prod, b.load(n, i * 9 + j)));
  b.store(b.output(6, i32), i, b.reduce(ReduceKind::Max, b.load(n, i * 9 + j)));
  b.store(b.output(6, i32), i, b.reduce(ReduceKind::Min, b.load(n, i * 9 + j)));
  return b.done();
}

// Sums down the columns of a matrix.
Kernel column_sum(std::int64_t rows, std::int64_t columns) {
  KernelBuilder b("column_sum_" + std::to_string(rows) + "x" + std::to_string(columns));
  const Index j = b.outer(columns), i = b.inner(rows);
  const int x = b.input(rows * columns), y = b.output(columns);
  const ExprId value = b.load(x, i * columns + j);
  b.store(y, j, b.reduce(ReduceKind::Sum, b.op(OpKind::Mul, {value, value})));
  b.store(b.output(columns, i32), j, b.reduce(ReduceKind::ArgMax, value));
  return b.done();
}

// max over axes 0 and 2 of [a, b, c], guarded as a padded window would be.
Kernel window_max() {
  KernelBuilder b("window_max");
  const Index j = b.outer(7), i = b.inner(5), k = b.inner(3);
  const int x = b.input(5 * 7 * 4), y = b.output(7);
  const Index at = k * 2 - 1;
  const std::vector<Guard> inside{{at, 0, 4, 1, false, -1}};
  const ExprId value = b.load(x, i * 28 + j * 4 + at, inside);
  const ExprId padded = b.op(OpKind::Where, {b.test(inside), value, b.constant(-1e30)});
  b.store(y, j, b.reduce(ReduceKind::Max, padded));
  b.store(b.output(7, i32), j, b.reduce(ReduceKind::ArgMin, padded));
  return b.done();
}

// ---- scatter

// y[v, d] = x[v, d] + sum over i of [indices(i) = v] * source[i, d] * 2, with `rows` before
// `columns` or after.
Kernel scatter(std::int64_t rows, std::int64_t columns, std::int64_t count, bool rows_last) {
  KernelBuilder b("scatter_" + std::to_string(rows) + "x" + std::to_string(columns) +
                  (rows_last ? "_last" : ""));
  Index v, d;
  if (rows_last) {
    d = b.outer(columns), v = b.outer(rows);
  } else {
    v = b.outer(rows), d = b.outer(columns);
  }
  const Index i = b.inner(count);
  const int x = b.input(rows * columns), indices = b.input(count, i32),
            source = b.input(count * columns);
  const int y = b.output(rows * columns);
  const Index at = rows_last ? d * rows + v : v * columns + d;
  const ExprId index = b.load(indices, i);
  const ExprId term = b.op(
      OpKind::Mul, {b.load(source, rows_last ? d * count + i : i * columns + d), b.constant(2)});
  const ExprId hit = b.op(OpKind::Equal, {index, b.position(v)}, boolean);
  const ExprId sum = b.reduce(ReduceKind::Sum, b.op(OpKind::Where, {hit, term, b.constant(0)}));
  b.store(y, at, b.op(OpKind::Add, {b.load(x, at), sum}));
  b.kernel().scatter = ScatterHint{sum, index, term, rows_last ? 1 : 0};
  return b.done();
}

}  // namespace

Kernel matmul_kernel(const MatMulSample& s) {
  std::string name =
      "matmul_" + std::to_string(s.m) + "x" + std::to_string(s.n) + "x" + std::to_string(s.k);
  if (s.batch > 1) name += "_batch" + std::to_string(s.batch);
  if (s.transpose_lhs) name += "_tn";
  if (s.transpose_rhs) name += "_nt";
  if (s.shared_lhs) name += "_one_lhs";
  if (s.shared_rhs) name += "_one_rhs";
  if (s.epilogue) name += "_add_relu";
  KernelBuilder b(name);
  const Index batch = b.outer(s.batch), m = b.outer(s.m), n = b.outer(s.n), k = b.inner(s.k);
  const int lhs = b.input((s.shared_lhs ? 1 : s.batch) * s.m * s.k);
  const int rhs = b.input((s.shared_rhs ? 1 : s.batch) * s.n * s.k);
  const Index lhs_at = (s.shared_lhs ? Index(0) : batch * (s.m * s.k)) +
                       (s.transpose_lhs ? k * s.m + m : m * s.k + k);
  const Index rhs_at = (s.shared_rhs ? Index(0) : batch * (s.n * s.k)) +
                       (s.transpose_rhs ? n * s.k + k : k * s.n + n);
  const ExprId left = b.load(lhs, lhs_at), right = b.load(rhs, rhs_at);
  const ExprId acc = b.reduce(ReduceKind::Sum, b.op(OpKind::Mul, {left, right}));
  b.kernel().matmul = MatMulHint{left, right, acc};
  const Index at = batch * (s.m * s.n) + m * s.n + n;
  ExprId result = acc;
  if (s.epilogue) {
    const int bias = b.input(s.n), residual = b.input(s.batch * s.m * s.n);
    const ExprId active = b.op(OpKind::Relu, {b.op(OpKind::Add, {acc, b.load(bias, n)})});
    result = b.op(OpKind::Add, {active, b.load(residual, at)});
    b.store(b.output(s.batch * s.m * s.n), at, active);
  }
  b.store(b.output(s.batch * s.m * s.n), at, result);
  return b.done();
}

std::vector<Kernel> sample_kernels() {
  std::vector<Kernel> kernels{add_relu(5, 7), add_relu(1, 300), add_relu(300, 300)};
  kernels.push_back(float_ops("arithmetic", {OpKind::Neg, OpKind::Abs, OpKind::Sub, OpKind::Mul,
                                             OpKind::Div, OpKind::Minimum}));
  kernels.push_back(float_ops("rounding", {OpKind::Maximum, OpKind::Floor, OpKind::Sign,
                                           OpKind::Relu, OpKind::Sqrt, OpKind::Rsqrt}));
  kernels.push_back(float_ops("exponentials", {OpKind::Exp, OpKind::Expm1, OpKind::Tanh,
                                               OpKind::Erf, OpKind::Sigmoid, OpKind::Softplus}));
  kernels.push_back(
      float_ops("logarithms", {OpKind::Log, OpKind::Log1p, OpKind::Sin, OpKind::Cos}));
  for (Kernel k : {integer_ops(), bool_ops(), constants(), pad(), gather(), flip_concat(),
                   permute(), in_place(), quads(516), quads(520)}) {
    kernels.push_back(std::move(k));
  }
  for (const auto& [rows, columns] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 1}, {70, 3}, {5, 10}, {3, 64}, {20, 128}, {2, 1000}, {130, 33}}) {
    kernels.push_back(softmax(rows, columns));
    kernels.push_back(layer_norm(rows, columns));
    kernels.push_back(reductions(rows, columns));
    kernels.push_back(column_sum(rows, columns));
  }
  kernels.push_back(column_sum(300, 2));
  kernels.push_back(column_sum(40, 100));
  kernels.push_back(column_sum(700, 5));
  kernels.push_back(softmax(2, 2500));
  kernels.push_back(layer_norm(2, 2048));
  kernels.push_back(reductions(2, 2100));
  for (Kernel k : {products(), window_max()}) kernels.push_back(std::move(k));
  for (const MatMulSample& s : std::vector<MatMulSample>{
           // in tiles
           {64, 64, 64, 1, false, false, false, false, true},
           {33, 40, 27, 1, true, false, false, false, true},
           {33, 40, 28, 1, false, true},
           {40, 36, 32, 1, true, true, false, false, true},
           {12, 70, 44, 1, false, false, false, false, true},
           {70, 12, 41, 1, true, true},
           {33, 31, 37, 3, false, true, false, false, true},
           {40, 33, 32, 2, false, false, true, false, false},
           {34, 36, 30, 2, true, false, false, true, true},
           {20, 36, 30, 3, false, false, false, true, true},  // one tall matrix
           {1, 40, 36, 30, false, false, false, true, true},  // rows that make a matrix
           // in slices of k
           {20, 24, 300, 1, false, false, false, false, true},
           {30, 12, 170, 2, true, true},
           // as rows
           {8, 8, 8},
           {9, 11, 13, 3, false, true, false, false, true},
           {1, 50, 40},
           {50, 1, 40},
           {20, 30, 1, 1, false, false, false, false, true},
           {4, 4, 300}}) {
    kernels.push_back(matmul_kernel(s));
  }
  kernels.push_back(scatter(10, 5, 7, false));
  kernels.push_back(scatter(6, 300, 40, false));
  kernels.push_back(scatter(12, 33, 600, true));
  kernels.push_back(scatter(3, 1100, 300, false));
  return kernels;
}

HostBuffers sample_buffers(const Kernel& kernel, std::uint32_t seed) {
  std::mt19937 random(seed);
  HostBuffers buffers;
  for (const Binding& b : kernel.bindings) {
    std::vector<double>& data = buffers[b.buffer];
    const auto end = static_cast<std::size_t>(b.offset + b.elements);
    for (std::size_t i = data.size(); i < end; ++i) {
      const double u = static_cast<double>(random() % 4096) / 4096;
      switch (b.dtype) {
        case DType::F32:
          data.push_back(u * 4 - 2 + 1.0 / 8192);
          break;
        case DType::I32:
          data.push_back(static_cast<double>(random() % 9) - 2);
          break;
        case DType::Bool:
          data.push_back(random() % 2);
          break;
      }
    }
  }
  return buffers;
}

}  // namespace tensorgrad::testing
