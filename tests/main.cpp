// The main function of every test program. Unless the tests are to run on a real GPU
// (TENSORGRAD_TEST_GPU=1) or somebody chose a driver, WebGPU gets SwiftShader, the Vulkan driver
// that runs on the CPU: results are then the same on every machine.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

int main(int argc, char** argv) {
  const char* gpu = std::getenv("TENSORGRAD_TEST_GPU");
  const bool real_gpu = gpu != nullptr && std::string_view(gpu) == "1";
  const bool chosen = std::getenv("VK_ICD_FILENAMES") || std::getenv("VK_DRIVER_FILES");
  if (!real_gpu && !chosen) {
    // The loader's old and new name for the same thing.
    setenv("VK_ICD_FILENAMES", TENSORGRAD_SWIFTSHADER_ICD, 1);
    setenv("VK_DRIVER_FILES", TENSORGRAD_SWIFTSHADER_ICD, 1);
  }
  // Nothing of a test is left in the user's cache, or comes out of it.
  if (std::getenv("TENSORGRAD_CACHE") == nullptr) setenv("TENSORGRAD_CACHE", "off", 1);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
