// Matrix products by oneDNN: primitives made once, each run by one thread.
//
// oneDNN in Debian is built on OpenMP. Its team and our spinning pool would fight for the
// cores, so every primitive is made and executed with one OpenMP thread, and our pool splits
// the work. The number of threads is a setting of the calling thread; it is put back.
#include "runtime/cpu/gemm.hpp"

#ifdef TENSORGRAD_WITH_DNNL

#include <algorithm>
#include <array>
#include <deque>
#include <dnnl.hpp>

// libgomp comes with libdnnl; weak, so that a oneDNN without OpenMP works too.
extern "C" void omp_set_num_threads(int) __attribute__((weak));
extern "C" int omp_get_max_threads() __attribute__((weak));

namespace tensorgrad::cpu {
namespace {

class OneOmpThread {
 public:
  OneOmpThread() {
    if (omp_get_max_threads != nullptr) before_ = omp_get_max_threads();
    set(1);
  }
  ~OneOmpThread() { set(before_); }
  OneOmpThread(const OneOmpThread&) = delete;
  OneOmpThread& operator=(const OneOmpThread&) = delete;

 private:
  static void set(int threads) {
    if (omp_set_num_threads != nullptr) omp_set_num_threads(threads);
  }
  int before_ = 1;
};

const dnnl::engine& cpu_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

// The product of blocks of one size, and the memory objects of one task for it. The objects
// have no memory of their own: run() sets their addresses.
struct Primitive {
  int64_t items, rows, cols;
  dnnl::matmul primitive;
  dnnl::memory a, b, c, scratch;
};

class DnnlGemm final : public Gemm {
 public:
  DnnlGemm(const GemmShape& shape, const GemmOptions& options) : Gemm(shape) {
    const OneOmpThread one;
    constexpr int64_t kMinRows = 64;  // a call costs about a microsecond
    tasks_ = cut_into_tasks(shape, options, 16, 64, kMinRows);
    for (const auto& blocks : tasks_) {
      Task& task = primitives_.emplace_back(Task{{}, dnnl::stream(cpu_engine())});
      for (const GemmBlock& block : blocks) {
        if (find(task, block) == nullptr) task.primitives.push_back(make(block));
      }
    }
  }

  const char* name() const override { return "dnnl"; }

  void prepare(size_t, const float*, const float*, void*) const override {}

  void run(size_t task, const GemmBlock& block, const float* a, const float* b, float* c,
           void* scratch, const GemmBeside&) const override {
    const OneOmpThread one;
    const GemmShape& s = shape_;
    Task& own = primitives_[task];
    const Primitive& p = *find(own, block);
    const float* a_block = a + block.batch_begin * s.a_batch + block.row_begin * s.a_row;
    const float* b_block = b + block.batch_begin * s.b_batch + block.col_begin * s.b_col;
    const std::array args = {
        argument(DNNL_ARG_SRC, p.a, a_block), argument(DNNL_ARG_WEIGHTS, p.b, b_block),
        argument(DNNL_ARG_DST, p.c, c), argument(DNNL_ARG_SCRATCHPAD, p.scratch, scratch)};
    // The C interface: the one of C++ wants a map.
    dnnl::error::wrap_c_api(dnnl_primitive_execute(p.primitive.get(), own.stream.get(),
                                                   static_cast<int>(args.size()), args.data()),
                            "oneDNN could not execute a matrix product");
  }

 private:
  struct Task {
    std::deque<Primitive> primitives;
    dnnl::stream stream;
  };

  static dnnl_exec_arg_t argument(int which, const dnnl::memory& memory, const void* data) {
    dnnl::error::wrap_c_api(dnnl_memory_set_data_handle(memory.get(), const_cast<void*>(data)),
                            "oneDNN could not set the address of a matrix");
    return {which, memory.get()};
  }

  static const Primitive* find(const Task& task, const GemmBlock& block) {
    const int64_t items = block.batch_end - block.batch_begin;
    for (const Primitive& p : task.primitives) {
      if (p.items == items && p.rows == block.rows() && p.cols == block.cols()) return &p;
    }
    return nullptr;
  }

  Primitive make(const GemmBlock& block) {
    using Dims = dnnl::memory::dims;
    const GemmShape& s = shape_;
    const int64_t items = block.batch_end - block.batch_begin;
    const auto describe = [&](int64_t rows, int64_t cols, int64_t batch_stride, int64_t row_stride,
                              int64_t col_stride) {
      const auto f32 = dnnl::memory::data_type::f32;
      if (items == 1) {
        return dnnl::memory::desc(Dims{rows, cols}, f32, Dims{row_stride, col_stride});
      }
      // Broadcasting is a dimension of 1.
      return dnnl::memory::desc(
          Dims{batch_stride == 0 ? 1 : items, rows, cols}, f32,
          Dims{batch_stride == 0 ? rows * cols : batch_stride, row_stride, col_stride});
    };
    const auto a = describe(block.rows(), s.k, s.a_batch, s.a_row, s.a_col);
    const auto b = describe(s.k, block.cols(), s.b_batch, s.b_row, s.b_col);
    const auto c = describe(block.rows(), block.cols(), s.c_batch, s.ldc, 1);
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::matmul::primitive_desc description(dnnl::matmul::desc(a, b, c), attributes,
                                                   cpu_engine());
    scratch_bytes_ = std::max(scratch_bytes_, description.scratchpad_desc().get_size());
    const auto memory = [](const dnnl::memory::desc& d) {
      return dnnl::memory(d, cpu_engine(), DNNL_MEMORY_NONE);
    };
    return {items,     block.rows(), block.cols(), dnnl::matmul(description),
            memory(a), memory(b),    memory(c),    memory(description.scratchpad_desc())};
  }

  // One entry for each task. Only the worker that runs a task touches its entry.
  mutable std::deque<Task> primitives_;
};

// oneDNN wants one stride of each operand to be 1 and no element twice.
bool fits(const GemmShape& s) {
  const auto operand = [](int64_t rows, int64_t cols, int64_t row, int64_t col) {
    return (col == 1 && row >= cols) || (row == 1 && col >= rows);
  };
  const bool sizes = s.batch > 0 && s.m > 0 && s.n > 0 && s.k > 0;
  const bool batched = s.batch == 1 || (s.c_batch > 0 && s.a_batch >= 0 && s.b_batch >= 0);
  return sizes && batched && operand(s.m, s.k, s.a_row, s.a_col) &&
         operand(s.k, s.n, s.b_row, s.b_col) && s.ldc >= s.n;
}

}  // namespace

std::unique_ptr<Gemm> make_gemm_dnnl(const GemmShape& shape, const GemmOptions& options) {
  if (!fits(shape)) return nullptr;
  try {
    return std::make_unique<DnnlGemm>(shape, options);
  } catch (const dnnl::error&) {
    return nullptr;  // no implementation for these strides
  }
}

}  // namespace tensorgrad::cpu

#else

namespace tensorgrad::cpu {

std::unique_ptr<Gemm> make_gemm_dnnl(const GemmShape&, const GemmOptions&) { return nullptr; }

}  // namespace tensorgrad::cpu

#endif
