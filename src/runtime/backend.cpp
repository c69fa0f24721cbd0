// The blocking calls on top of the completion-based ones.
#include "runtime/backend.hpp"

#include <thread>

namespace tensorgrad {

void read_now(Backend& backend, const std::vector<ReadRequest>& requests) {
  struct State {
    bool done = false;
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
