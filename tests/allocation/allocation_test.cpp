// A step on the CPU allocates nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

#include "tensorgrad/tensorgrad.hpp"

namespace {
std::atomic<bool> counting{false};
std::atomic<int> allocations{0};

void* allocate(std::size_t size, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), std::max<std::size_t>(size, 1)) !=
      0)
    throw std::bad_alloc();
  return memory;
}
}  // namespace

// Not inlined, because GCC then takes the pair of a new and a free for a mistake.
#define COUNTED __attribute__((noinline))

COUNTED void* operator new(std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
COUNTED void* operator new[](std::size_t size) { return allocate(size, alignof(std::max_align_t)); }
COUNTED void* operator new(std::size_t size, std::align_val_t align) {
  return allocate(size, static_cast<std::size_t>(align));
}
COUNTED void* operator new[](std::size_t size, std::align_val_t align) {
  return allocate(size, static_cast<std::size_t>(align));
}
COUNTED void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, alignof(std::max_align_t));
}
COUNTED void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return allocate(size, alignof(std::max_align_t));
}
COUNTED void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
COUNTED void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory) noexcept { std::free(memory); }
COUNTED void operator delete[](void* memory) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
COUNTED void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
COUNTED void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
COUNTED void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
COUNTED void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace tensorgrad::test {
namespace {

template <class Model, class Loss>
int allocations_in_a_step(Model model, Loss loss, const CompileOptions& options, const Feed& feed) {
  auto train = compile(std::move(model), loss, options);
  for (int i = 0; i < 3; ++i) train.step(feed);
  allocations = 0;
  counting = true;
  for (int i = 0; i < 10; ++i) train.step(feed);
  counting = false;
  return allocations;
}

struct Mlp {
  nn::Linear l1{1, 64}, l2{64, 64}, l3{64, 1};
  Tensor operator()(const Tensor& x) const { return l3(relu(l2(relu(l1(x))))); }
};

TEST(Allocation, AStepOfTheSineMlpMakesNone) {
  const std::vector<float> x(256, 0.5f), y(256, 0.25f);
  EXPECT_EQ(
      allocations_in_a_step(
          Mlp{}, [](const Mlp& m, const Inputs& in) { return mean(square(m(in["x"]) - in["y"])); },
          {.inputs = {{"x", {256, 1}}, {"y", {256, 1}}},
           .optimizer = AdamW{.clip_norm = 1.0},
           .device = Device::cpu()},
          {{"x", x}, {"y", y}}),
      0);
}

struct Transformer {
  nn::Embedding tokens{13, 32};
  nn::TransformerBlock block{32, 4};
  nn::Linear head{32, 13, {.bias = false}};
};

int allocations_of_a_transformer(std::int64_t batch, std::int64_t time) {
  const std::vector<std::int32_t> ids(static_cast<std::size_t>(batch * time), 3);
  return allocations_in_a_step(
      Transformer{},
      [](const Transformer& m, const Inputs& in) {
        return cross_entropy(m.head(m.block(m.tokens(in["ids"]))), in["ids"]);
      },
      {.inputs = {{"ids", {{batch, time}, i32}}}, .optimizer = Adam{}, .device = Device::cpu()},
      {{"ids", ids}});
}

TEST(Allocation, AStepOfATransformerMakesNone) {
  EXPECT_EQ(allocations_of_a_transformer(8, 12), 0);
}

TEST(Allocation, AStepWithAttentionAsOneKernelMakesNone) {
  EXPECT_EQ(allocations_of_a_transformer(1, 300), 0);
}

}  // namespace
}  // namespace tensorgrad::test
