// The blocking calls on top of the completion-based ones.
#include "runtime/backend.hpp"

#include <atomic>

namespace tensorgrad {

void Backend::run_steps(Program& program, const StepBatch& batch) {
  for (std::int64_t i = 0; i < batch.count; ++i) {
    if (batch.inputs)
      write(*batch.inputs, 0, batch.words, DType::I32, batch.data + i * batch.words);
    run(program, Phases::All);
    float number = 0;
    read_now(*this, {{batch.result, batch.result_offset, 1, DType::F32, &number}});
    write(*batch.results, i, 1, DType::F32, &number);
  }
}

void read_now(Backend& backend, const std::vector<ReadRequest>& requests) {
  struct State {
    std::atomic<bool> done{false};  // another thread's poll may complete this read
    std::exception_ptr error;
  } state;
  const Completion completion{[](void* context, std::exception_ptr error) {
                                auto* s = static_cast<State*>(context);
                                s->error = std::move(error);
                                s->done = true;
                              },
                              &state};
  backend.read(requests, completion);
  while (!state.done) backend.poll();
  if (state.error) std::rethrow_exception(state.error);
}

}  // namespace tensorgrad
