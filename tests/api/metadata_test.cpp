// What a caller may put beside the parameters in a checkpoint.
#include <gtest/gtest.h>

#include <filesystem>
#include <tensorgrad/tensorgrad.hpp>

namespace tensorgrad::test {
namespace {

TEST(Metadata, AnyKeyIsTheCallersButTheLibrarysOwn) {
  auto train = compile(nn::Linear(2, 1),
                       [](const nn::Linear& m, const Inputs& in) { return mean(m(in["x"])); },
                       {.inputs = {{"x", {1, 2}}}, .device = Device::reference()});
  const std::string path =
      std::filesystem::temp_directory_path() / "tensorgrad-metadata-test.safetensors";
  const std::map<std::string, std::string> metadata = {{"note", "ü"},
                                                       {"tensorgrad.example", "chars"}};
  train.save(path, metadata);
  EXPECT_EQ(train.load(path), metadata);
  for (const char* key :
       {"tensorgrad.checkpoint", "tensorgrad.step", "tensorgrad.seed", "tensorgrad.lr"}) {
    EXPECT_THROW(train.save(path, {{key, "1"}}), Error) << key;
  }
  EXPECT_EQ(train.load(path), metadata) << "a refused save changes nothing";
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace tensorgrad::test
