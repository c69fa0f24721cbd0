// The blocking calls on top of the completion-based ones.
#include "runtime/backend.hpp"

#include <atomic>

namespace tensorgrad {

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
