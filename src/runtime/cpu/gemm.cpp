// How a product is cut into tasks and blocks, and which implementation runs it.
#include "runtime/cpu/gemm.hpp"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string>

#include "ir/ceil_div.hpp"
#include "tensorgrad/error.hpp"

namespace tensorgrad::cpu {
namespace {

// The i-th cut of [0, size) into `parts`, at multiples of `tile`.
int64_t cut(int64_t size, int64_t parts, int64_t i, int64_t tile = 1) {
  return std::min(size, ceil_div(size, tile) * i / parts * tile);
}

// Workers worth waking for this product: each should have a few microseconds of work.
int64_t useful_tasks(const GemmShape& s, int threads) {
  constexpr double kLeast = 1 << 16;  // multiply-adds, with an element of C as 4 of them
  const double work = static_cast<double>(s.batch) * static_cast<double>(s.m) *
                      static_cast<double>(s.n) * static_cast<double>(s.k + 4);
  return std::clamp<int64_t>(static_cast<int64_t>(work / kLeast), 1, std::max(1, threads));
}

// How many parts to cut rows into; columns take the rest of the workers.
int64_t row_parts(const GemmShape& s, bool whole_rows, int64_t workers, int64_t row_tile,
                  int64_t col_tile) {
  const int64_t col_tiles = ceil_div(s.n, col_tile);
  int64_t best = 1;
  double best_cost = 0;
  for (int64_t parts = 1; parts <= std::min(workers, ceil_div(s.m, row_tile)); ++parts) {
    const int64_t col_parts = whole_rows ? 1 : std::min(workers / parts, col_tiles);
    const double rows = static_cast<double>(ceil_div(s.m, parts));
    const double cols = static_cast<double>(ceil_div(col_tiles, col_parts) * col_tile);
    // A multiply-add for each pair, and some for fetching and packing each row and column.
    const double cost = rows * cols + 6 * (rows + cols);
    if (parts == 1 || cost <= best_cost) {  // rows if in doubt: C and A stay apart
      best = parts;
      best_cost = cost;
    }
  }
  return best;
}

// The blocks of one task.
std::vector<GemmBlock> cut_into_blocks(const GemmShape& s, int64_t block_bytes, int64_t min_rows,
                                       const GemmBlock& all) {
  std::vector<GemmBlock> blocks;
  const auto add = [&](GemmBlock block) {
    block.c_offset = block.batch_begin * s.c_batch + block.row_begin * s.ldc + block.col_begin;
    blocks.push_back(block);
  };
  const int64_t row_bytes = all.cols() * 4, item_bytes = row_bytes * all.rows();
  const int64_t items = all.batch_end - all.batch_begin;
  if (items > 1) {
    const int64_t at_once = std::max<int64_t>(1, block_bytes / item_bytes);
    const int64_t parts = ceil_div(items, at_once);
    for (int64_t p = 0; p < parts; ++p) {
      GemmBlock block = all;
      block.batch_begin = all.batch_begin + items * p / parts;
      block.batch_end = all.batch_begin + items * (p + 1) / parts;
      add(block);
    }
    return blocks;
  }
  const int64_t at_once = std::max({block_bytes / row_bytes, min_rows, int64_t{1}});
  const int64_t parts = std::max<int64_t>(1, all.rows() / at_once);
  for (int64_t p = 0; p < parts; ++p) {
    GemmBlock block = all;
    block.row_begin = all.row_begin + cut(all.rows(), parts, p);
    block.row_end = all.row_begin + cut(all.rows(), parts, p + 1);
    add(block);
  }
  return blocks;
}

}  // namespace

GemmShape fold_batch(const GemmShape& shape) {
  GemmShape s = shape;
  const bool even = s.b_batch == 0 && s.a_batch == s.m * s.a_row && s.c_batch == s.m * s.ldc;
  if (s.batch > 1 && even) {
    s.m *= s.batch;
    s.batch = 1;
    s.a_batch = s.c_batch = 0;
  }
  return s;
}

std::vector<std::vector<GemmBlock>> cut_into_tasks(const GemmShape& s, const GemmOptions& options,
                                                   int64_t row_tile, int64_t col_tile,
                                                   int64_t min_rows) {
  std::vector<std::vector<GemmBlock>> tasks;
  if (s.batch <= 0 || s.m <= 0 || s.n <= 0) return tasks;
  const int64_t workers = useful_tasks(s, options.threads);
  const auto append = [&](const GemmBlock& all) {
    tasks.push_back(cut_into_blocks(s, options.block_bytes, min_rows, all));
  };
  GemmBlock all{.batch_end = s.batch, .row_end = s.m, .col_end = s.n};

  // Many small items go together, a share for each worker.
  if (s.batch >= 2 * workers && s.m * s.n * 4 <= options.block_bytes) {
    for (int64_t p = 0; p < workers; ++p) {
      all.batch_begin = s.batch * p / workers;
      all.batch_end = s.batch * (p + 1) / workers;
      append(all);
    }
    return tasks;
  }
  // Else each item has tasks of its own, as many as deal out evenly.
  const int64_t parts = s.batch >= 8 * workers ? 1 : workers / std::gcd(workers, s.batch);
  const int64_t rows = row_parts(s, options.whole_rows, parts, row_tile, col_tile);
  const int64_t cols =
      options.whole_rows ? 1 : std::clamp<int64_t>(parts / rows, 1, ceil_div(s.n, col_tile));
  for (int64_t item = 0; item < s.batch; ++item) {
    all.batch_begin = item;
    all.batch_end = item + 1;
    for (int64_t r = 0; r < rows; ++r) {
      all.row_begin = cut(s.m, rows, r);
      all.row_end = cut(s.m, rows, r + 1);
      for (int64_t c = 0; c < cols; ++c) {
        all.col_begin = cut(s.n, cols, c, col_tile);
        all.col_end = cut(s.n, cols, c + 1, col_tile);
        append(all);
      }
    }
  }
  return tasks;
}

void Gemm::run_task(size_t task, const float* a, const float* b, float* c, void* scratch) const {
  prepare(task, a, b, scratch);
  for (const GemmBlock& block : tasks_[task]) run(task, block, a, b, c + block.c_offset, scratch);
}

// On Zen 4 our own kernels are as fast as oneDNN's for large products and faster for small,
// batched and vector ones, with AVX-512 and with AVX2; so they are the default.
std::unique_ptr<Gemm> make_gemm(const GemmShape& shape, const GemmOptions& options) {
  if (options.kind == GemmKind::Dnnl) return make_gemm_dnnl(shape, options);
  const char* wish = std::getenv("TENSORGRAD_GEMM");
  if (options.kind == GemmKind::Automatic && wish != nullptr && *wish != '\0') {
    const std::string name = wish;
    if (name == "dnnl") {
      if (auto gemm = make_gemm_dnnl(shape, options)) return gemm;
    } else if (name != "portable") {
      throw Error("TENSORGRAD_GEMM is \"" + name + "\"; expected \"dnnl\" or \"portable\".");
    }
  }
  return make_gemm_portable(shape, options);
}

}  // namespace tensorgrad::cpu
