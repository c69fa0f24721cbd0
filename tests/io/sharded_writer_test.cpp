// Writing a model as shards: what is written reads back as one, and is refused where it would
// hide, or be hidden by, another model.
#include <gtest/gtest.h>

#include "io/error_of.hpp"
#include "io/temporary_folder.hpp"
#include "tensorgrad/safetensors.hpp"

namespace tensorgrad {
namespace {

using test::error_of;
using test::TemporaryFolder;
using Names = std::set<std::string>;

struct Model {
  std::vector<std::vector<float>> values;
  std::vector<FileTensor> tensors;

  /// Tensors t0, t1, … of so many floats, each filled with its number.
  explicit Model(const std::vector<std::size_t>& sizes) {
    values.reserve(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      values.emplace_back(sizes[i], static_cast<float>(i));
      tensors.push_back(FileTensor::f32("t" + std::to_string(i),
                                        {static_cast<std::int64_t>(sizes[i])}, values.back()));
    }
  }
};

TEST(WriteSafetensorsModel, CutsBetweenTensorsAndReadsBackAsOne) {
  const TemporaryFolder folder;
  const Model model({2, 2, 1, 9, 3, 0, 1});  // shards of four floats: 2 2 | 1 | 9 | 3 0 1
  write_safetensors_model(folder / "new/m", model.tensors, 16, {{"by", "us"}});
  EXPECT_EQ(std::filesystem::exists(folder / "new/m/model.safetensors"), false);
  const auto whole = SafetensorsFile::open_model(folder / "new/m");
  ASSERT_EQ(whole.tensors().size(), 7u);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(whole.tensors()[i].name, model.tensors[i].name);
    EXPECT_EQ(whole.read_f32(model.tensors[i].name), model.values[i]);
  }
  EXPECT_EQ(whole.metadata(), (std::map<std::string, std::string>{{"by", "us"}}));
  const auto shard = [&](const char* name) {
    return SafetensorsFile::open(folder / "new/m/" + name).names();
  };
  EXPECT_EQ(shard("model-00001-of-00004.safetensors"), (std::vector<std::string>{"t0", "t1"}));
  EXPECT_EQ(shard("model-00002-of-00004.safetensors"), (std::vector<std::string>{"t2"}));
  EXPECT_EQ(shard("model-00003-of-00004.safetensors"), (std::vector<std::string>{"t3"}));
  EXPECT_EQ(shard("model-00004-of-00004.safetensors"),
            (std::vector<std::string>{"t4", "t5", "t6"}));
}

TEST(WriteSafetensorsModel, WritesOneFileIfAllFits) {
  const TemporaryFolder folder;
  const Model model({3, 1});
  write_safetensors_model(folder.path(), model.tensors, 16);
  EXPECT_EQ(folder.files(), Names{"model.safetensors"});
  EXPECT_EQ(SafetensorsFile::open_model(folder.path()).read_f32("t1"), std::vector<float>{1});
}

TEST(WriteSafetensorsModel, RefusesAFolderThatHoldsAModel) {
  const TemporaryFolder folder;
  const Model model({3, 3});
  write_safetensors_model(folder.path(), model.tensors, 12);
  const Names before = folder.files();
  EXPECT_EQ(error_of([&] { write_safetensors_model(folder.path(), model.tensors, 1000); }),
            "safetensors: the folder holds model.safetensors.index.json already: expected a folder "
            "without a model.\n  in file " +
                folder.path());
  EXPECT_EQ(folder.files(), before);
}

TEST(WriteSafetensorsModel, LeavesNoIndexIfAShardCannotBeWritten) {
  const TemporaryFolder folder;
  Model model({3, 3});
  model.tensors[1].shape = {4};
  EXPECT_NE(error_of([&] {
              write_safetensors_model(folder.path(), model.tensors, 12);
            }).find("got 12 bytes to write, but F32[4] needs 16"),
            std::string::npos);
  EXPECT_EQ(folder.files().count("model.safetensors.index.json"), 0u);
  model.tensors[1] = model.tensors[0];
  EXPECT_NE(error_of([&] {
              write_safetensors_model(folder.path(), model.tensors, 12);
            }).find("the model names the same tensor twice"),
            std::string::npos);
}

TEST(WriteSafetensorsModel, SaysThatTheFolderIsAFile) {
  const TemporaryFolder folder;
  folder.put("taken", {});
  const Model model({1});
  EXPECT_NE(
      error_of([&] { write_safetensors_model(folder / "taken", model.tensors, 4); }).find("taken"),
      std::string::npos);
  EXPECT_NE(error_of([&] {
              write_safetensors_model(folder / "taken/below", model.tensors, 4);
            }).find("Cannot make the folder"),
            std::string::npos);
}

}  // namespace
}  // namespace tensorgrad
