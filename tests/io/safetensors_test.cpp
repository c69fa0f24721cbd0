// Reading: every dtype, every way a file can be wrong (with the words of the error), sharded
// models.
#include "tensorgrad/safetensors.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>

#include "io/error_of.hpp"
#include "io/safetensors_support.hpp"
#include "io/temporary_folder.hpp"

namespace tensorgrad {
namespace {

using test::Bytes;
using test::bytes_of;
using test::entry;
using test::error_of;
using test::file_with;
using test::raw;
using test::TemporaryFolder;

constexpr float kInf = std::numeric_limits<float>::infinity();

/// The message of the IoError that `action` must throw.
/// The sentence with which a file is refused; what follows it is checked here.
std::string refusal(Bytes bytes, const std::string& tensor = "") {
  const std::string text =
      error_of([&] { SafetensorsFile::from_bytes(std::move(bytes), "bad.safetensors"); });
  const std::string start = "safetensors: ";
  const std::string end = (tensor.empty() ? "" : "\n  in tensor \"" + tensor + "\"") +
                          std::string("\n  in file bad.safetensors");
  EXPECT_EQ(text.substr(0, start.size()), start);
  if (text.size() < start.size() + end.size()) return text;
  EXPECT_EQ(text.substr(text.size() - end.size()), end);
  return text.substr(start.size(), text.size() - start.size() - end.size());
}

/// A file of one tensor `w`, and its data.
Bytes one(std::string_view dtype, std::string_view shape, std::string_view offsets,
          std::string_view data) {
  return file_with("{" + entry("w", dtype, shape, offsets) + "}", data);
}

SafetensorsFile one_tensor(const std::string& dtype, std::size_t count, const std::string& data) {
  return SafetensorsFile::from_bytes(one(dtype, "[" + std::to_string(count) + "]",
                                         "[0," + std::to_string(data.size()) + "]", data),
                                     "one");
}

template <class Stored>
std::vector<float> as_f32(const std::string& dtype, const std::vector<Stored>& values) {
  return one_tensor(dtype, values.size(), raw(values)).read_f32("w");
}

template <class Stored>
std::vector<std::int32_t> as_i32(const std::string& dtype, const std::vector<Stored>& values) {
  return one_tensor(dtype, values.size(), raw(values)).read_i32("w");
}

using F = std::vector<float>;
using I = std::vector<std::int32_t>;

// ---- What a good file says
// ------------------------------------------------------------------------

TEST(SafetensorsFile, ShowsNamesInfoAndMetadataInFileOrder) {
  const TemporaryFolder folder;
  const auto path =
      folder.put("m.safetensors", file_with(R"({"__metadata__":{"format":"pt","é":"\u0001"},)" +
                                                entry("z", "F32", "[2,1]", "[4,12]") + "," +
                                                entry("a", "I32", "[]", "[0,4]") + "}  ",
                                            raw<std::int32_t>({-5}) + raw<float>({1.5f, 2.5f})));
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.path(), path);
  EXPECT_EQ(file.names(), (std::vector<std::string>{"z", "a"}));
  EXPECT_TRUE(file.has("a"));
  EXPECT_FALSE(file.has("b"));
  EXPECT_FALSE(file.has("__metadata__"));
  EXPECT_EQ(file.info("z").dtype, FileDType::F32);
  EXPECT_EQ(file.info("z").shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(file.info("z").bytes.size(), 8u);
  EXPECT_EQ(file.info("a").shape, std::vector<std::int64_t>{});
  EXPECT_EQ(file.info("a").elements(), 1);
  EXPECT_EQ(file.read_f32("z"), (F{1.5f, 2.5f}));
  EXPECT_EQ(file.read_i32("a"), I{-5});
  EXPECT_EQ(file.metadata(), (std::map<std::string, std::string>{{"format", "pt"}, {"é", "\1"}}));
}

TEST(SafetensorsFile, TakesAFileWithoutTensors) {
  EXPECT_TRUE(SafetensorsFile::from_bytes(file_with("{}"), "x").tensors().empty());
  EXPECT_TRUE(
      SafetensorsFile::from_bytes(file_with("{\"__metadata__\":{}} "), "x").tensors().empty());
}

TEST(SafetensorsFile, TakesEmptyTensorsBetweenOthers) {
  const auto file = SafetensorsFile::from_bytes(
      file_with("{" + entry("b", "F32", "[1]", "[0,4]") + "," +
                    entry("e", "F32", "[3,0]", "[4,4]") + "," + entry("d", "F32", "[0]", "[0,0]") +
                    "," + entry("c", "U8", "[1]", "[4,5]") + "}",
                raw<float>({2.0f}) + "\7"),
      "x");
  EXPECT_EQ(file.read_f32("e"), F{});
  EXPECT_EQ(file.read_f32("d"), F{});
  EXPECT_EQ(file.read_i32("c"), I{7});
}

TEST(SafetensorsFile, ReadsDataAtAnyAlignment) {
  const auto file = SafetensorsFile::from_bytes(
      file_with("{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "F64", "[2]", "[1,17]") +
                    "," + entry("c", "I64", "[1]", "[17,25]") + "}",
                "\x09" + raw<double>({0.5, -8}) + raw<std::int64_t>({-3})),
      "x");
  EXPECT_EQ(file.read_f32("b"), (F{0.5f, -8.0f}));
  EXPECT_EQ(file.read_i32("c"), I{-3});
}

TEST(SafetensorsFile, OutlivesTheHandleItWasCopiedFrom) {
  const TemporaryFolder folder;
  const auto path = folder.put("m", one("F32", "[1]", "[0,4]", raw<float>({4.0f})));
  auto first = std::make_unique<SafetensorsFile>(SafetensorsFile::open(path));
  const SafetensorsFile second = std::move(*first);
  EXPECT_EQ(first->read_f32("w"), F{4.0f});  // moving is copying: a handle is never empty
  first.reset();
  EXPECT_EQ(second.read_f32("w"), F{4.0f});
}

// ---- Dtypes
// ---------------------------------------------------------------------------------------

TEST(SafetensorsFile, ReadsEveryDTypeAsFloat) {
  EXPECT_EQ(as_f32<double>("F64", {1.5, -1e300, 0.1}), (F{1.5f, -kInf, 0.1f}));
  EXPECT_EQ(as_f32<float>("F32", {1.5f, -0.0f, 1e-45f}), (F{1.5f, -0.0f, 1e-45f}));
  EXPECT_EQ(as_f32<std::int64_t>("I64", {-3, std::int64_t{1} << 40}), (F{-3, 1099511627776.0f}));
  EXPECT_EQ(as_f32<std::int32_t>("I32", {-3, 16777217}), (F{-3, 16777216.0f}));
  EXPECT_EQ(as_f32<std::int16_t>("I16", {-32768, 5}), (F{-32768, 5}));
  EXPECT_EQ(as_f32<std::int8_t>("I8", {-128, 127}), (F{-128, 127}));
  EXPECT_EQ(as_f32<std::uint64_t>("U64", {~std::uint64_t{0}, 1}), (F{18446744073709551616.0f, 1}));
  EXPECT_EQ(as_f32<std::uint32_t>("U32", {4294967295u, 2}), (F{4294967296.0f, 2}));
  EXPECT_EQ(as_f32<std::uint16_t>("U16", {65535, 0}), (F{65535, 0}));
  EXPECT_EQ(as_f32<std::uint8_t>("U8", {255, 0}), (F{255, 0}));
  EXPECT_EQ(as_f32<std::uint8_t>("BOOL", {0, 1, 2}), (F{0, 1, 1}));
}

TEST(SafetensorsFile, ReadsHalfFloatsExactly) {
  // 1, -2, largest, smallest normal, smallest and largest subnormal, infinities.
  EXPECT_EQ(as_f32<std::uint16_t>("F16",
                                  {0x3c00, 0xc000, 0x7bff, 0x0400, 0x0001, 0x83ff, 0x7c00, 0xfc00}),
            (F{1, -2, 65504, 0x1p-14f, 0x1p-24f, -1023 * 0x1p-24f, kInf, -kInf}));
  EXPECT_TRUE(std::isnan(as_f32<std::uint16_t>("F16", {0x7e00})[0]));
  EXPECT_TRUE(std::signbit(as_f32<std::uint16_t>("F16", {0x8000})[0]));
  EXPECT_EQ(as_f32<std::uint16_t>("BF16", {0x3f80, 0xc000, 0x7f80, 0x0001}),
            (F{1, -2, kInf, 0x1p-133f}));
  EXPECT_TRUE(std::isnan(as_f32<std::uint16_t>("BF16", {0x7fc0})[0]));
}

TEST(SafetensorsFile, ReadsEightBitFloatsExactly) {
  // 1, largest finite, smallest subnormal, smallest normal; E4M3 has no infinity.
  EXPECT_EQ(as_f32<std::uint8_t>("F8_E4M3", {0x38, 0x7e, 0x01, 0x88}),
            (F{1, 448, 0x1p-9f, -0x1p-6f}));
  EXPECT_EQ(as_f32<std::uint8_t>("F8_E4M3", {0x77, 0x78}), (F{240, 256}));
  EXPECT_TRUE(std::isnan(as_f32<std::uint8_t>("F8_E4M3", {0xff})[0]));
  EXPECT_EQ(as_f32<std::uint8_t>("F8_E5M2", {0x3c, 0x7b, 0x01, 0xfc}),
            (F{1, 57344, 0x1p-16f, -kInf}));
  EXPECT_TRUE(std::isnan(as_f32<std::uint8_t>("F8_E5M2", {0x7d})[0]));
}

TEST(SafetensorsFile, ReadsEveryIntegerDTypeAsInt) {
  constexpr std::int32_t kMin = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t kMax = std::numeric_limits<std::int32_t>::max();
  EXPECT_EQ(as_i32<std::int64_t>("I64", {kMin, kMax}), (I{kMin, kMax}));
  EXPECT_EQ(as_i32<std::int32_t>("I32", {kMin, kMax}), (I{kMin, kMax}));
  EXPECT_EQ(as_i32<std::int16_t>("I16", {-32768, 5}), (I{-32768, 5}));
  EXPECT_EQ(as_i32<std::int8_t>("I8", {-128, 5}), (I{-128, 5}));
  EXPECT_EQ(as_i32<std::uint64_t>("U64", {2147483647u, 5}), (I{kMax, 5}));
  EXPECT_EQ(as_i32<std::uint32_t>("U32", {2147483647u, 5}), (I{kMax, 5}));
  EXPECT_EQ(as_i32<std::uint16_t>("U16", {65535, 5}), (I{65535, 5}));
  EXPECT_EQ(as_i32<std::uint8_t>("U8", {255, 5}), (I{255, 5}));
  EXPECT_EQ(as_i32<std::uint8_t>("BOOL", {0, 1, 255}), (I{0, 1, 1}));
}

// Written by Python's safetensors package, each dtype at the edges of its range, with what numpy
// makes of the values as floats: tests/fixtures/make_pytorch_weights.py.
TEST(SafetensorsFile, ReadsEveryDTypeThatPythonWrites) {
  const std::string folder =
      std::string(TENSORGRAD_SOURCE_DIR) + "/tests/fixtures/pytorch_weights/";
  const auto file = SafetensorsFile::open(folder + "dtypes.safetensors");
  const auto expected = SafetensorsFile::open(folder + "expected.safetensors");
  EXPECT_EQ(file.tensors().size(), 13u);
  for (const FileTensor& tensor : file.tensors()) {
    EXPECT_EQ(raw(file.read_f32(tensor.name)), raw(expected.read_f32("as_f32." + tensor.name)))
        << tensor.name;
  }
}

TEST(SafetensorsFile, RefusesIntegersThatDoNotFit) {
  EXPECT_EQ(error_of([] {
              as_i32<std::int64_t>("I64", {1, -2147483649});
            }),
            "safetensors: element 1 of I64[2] is -2147483649, expected a value from -2147483648 to "
            "2147483647.\n  in tensor \"w\"\n  in file one");
  EXPECT_NE(error_of([] { as_i32<std::int64_t>("I64", {2147483648}); }).find("is 2147483648,"),
            std::string::npos);
  EXPECT_NE(error_of([] { as_i32<std::uint32_t>("U32", {2147483648u}); }).find("is 2147483648,"),
            std::string::npos);
  EXPECT_NE(error_of([] {
              as_i32<std::uint64_t>("U64", {~std::uint64_t{0}});
            }).find("is 18446744073709551615,"),
            std::string::npos);
}

TEST(SafetensorsFile, RefusesToReadFloatsAsIntegers) {
  for (const char* dtype : {"F16", "BF16"}) {
    EXPECT_EQ(error_of([&] { as_i32<std::uint16_t>(dtype, {0}); }),
              "safetensors: expected integers or BOOL, but the tensor is " + std::string(dtype) +
                  "[1].\n  in tensor \"w\"\n  in file one");
  }
}

TEST(SafetensorsFile, RefusesAnUnknownNameAndRoomOfTheWrongSize) {
  const auto file = one_tensor("F32", 2, raw<float>({1, 2}));
  EXPECT_EQ(error_of([&] { file.info("v\n"); }),
            "safetensors: there is no tensor \"v\\x0a\" among the 1 of the file.\n  in file one");
  F room(3);
  EXPECT_EQ(error_of([&] { file.read_f32("w", room); }),
            "safetensors: F32[2] has 2 elements, but is to be read into room for 3.\n"
            "  in tensor \"w\"\n  in file one");
}

// ---- Files that are not safetensors at all
// --------------------------------------------------------

TEST(HostileFile, CannotBeOpened) {
  const TemporaryFolder folder;
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder / "none"); }),
            "Cannot open the file for reading: No such file or directory (errno 2).\n"
            "  in file " +
                folder / "none");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder.path()); }),
            "Expected a file, but this is a folder.\n  in file " + folder.path());
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder / "pipe"); }),
            "Expected a regular file, but this is a pipe, socket or device.\n"
            "  in file " +
                folder / "pipe");
  EXPECT_EQ(error_of([] { SafetensorsFile::open(std::string("a\0b", 3)); }),
            "The path has a zero byte in it.\n  in file a\\x00b");
}

TEST(HostileFile, IsTruncated) {
  EXPECT_EQ(
      refusal({}),
      "the file is truncated: it has 0 bytes, expected at least 8 for the length of the header.");
  EXPECT_EQ(
      refusal(bytes_of("1234567")),
      "the file is truncated: it has 7 bytes, expected at least 8 for the length of the header.");
  const TemporaryFolder folder;
  EXPECT_NE(
      error_of([&] { SafetensorsFile::open(folder.put("empty", {})); }).find("it has 0 bytes"),
      std::string::npos);
}

TEST(HostileFile, IsTruncatedAtAnyByte) {
  for (const Bytes& whole : test::valid_files()) {
    ASSERT_TRUE(test::read_everything(whole));
    for (std::size_t size = 0; size < whole.size(); ++size) {
      EXPECT_FALSE(test::read_everything(Bytes(whole.begin(), whole.begin() + size))) << size;
    }
  }
}

TEST(HostileFile, HasAHeaderOfAbsurdSize) {
  EXPECT_EQ(refusal(bytes_of(raw<std::uint64_t>({100'000'001}) + "{}")),
            "the header is said to have 100000001 bytes, expected at most 100000000.");
  EXPECT_EQ(refusal(bytes_of(raw<std::uint64_t>({~std::uint64_t{0}}) + "{}")),
            "the header is said to have 18446744073709551615 bytes, expected at most 100000000.");
  EXPECT_EQ(
      refusal(bytes_of(raw<std::uint64_t>({3}) + "{}")),
      "the file is truncated: the header is said to have 3 bytes, but only 2 follow its length.");
}

TEST(HostileFile, ShrinksWhileOpen) {
  const TemporaryFolder folder;
  const auto path = folder.put("m", one("F32", "[1]", "[0,4]", raw<float>({4.0f})));
  const auto file = SafetensorsFile::open(path);
  const auto size = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(error_of([&] { file.read_f32("w"); }), "The file was cut short while open: it had " +
                                                       std::to_string(size) +
                                                       " bytes and now has 10.\n  in file " + path);
}

// ---- Bad JSON
// -------------------------------------------------------------------------------------

TEST(HostileHeader, IsNotJson) {
  EXPECT_EQ(refusal(file_with("")),
            "expected the header to be an object that begins with '{', but it is empty.");
  EXPECT_EQ(refusal(file_with("[]")),
            "expected the header to be an object that begins with '{', but it begins with \"[\".");
  EXPECT_EQ(
      refusal(file_with("\xef\xbb\xbf{}")),
      "expected the header to be an object that begins with '{', but it begins with \"\\xef\".");
  EXPECT_EQ(refusal(file_with("{\"a\":}"))
                .rfind("the header is not valid JSON at its byte 6: parse error", 0),
            0u);
  for (const char* bad : {"{", "{\"a", "{}{}", "{} x", "{\"a\":1e999}", "{'a':1}", "{\"\xff\":1}",
                          "{,}", "{\"w\":{\"shape\":[01]}}", "{\"a\":\"\\ud800\"}", "{/**/}"}) {
    EXPECT_EQ(refusal(file_with(bad)).rfind("the header is not valid JSON at its byte ", 0), 0u)
        << bad;
  }
}

TEST(HostileHeader, EndsInZeroBytesInsteadOfSpaces) {
  EXPECT_EQ(refusal(file_with(std::string_view("{}\0\0rubbish", 11))),
            "the header is not valid JSON at its byte 2: it has a zero byte there.");
}

TEST(HostileHeader, NestsDeeply) {
  const std::string deep(1'000'000, '[');
  EXPECT_EQ(refusal(file_with("{\"a\":" + deep), "a"),
            "expected an object with dtype, shape and data_offsets, but found an array.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"shape\":" + deep), "w"),
            "expected dimensions to be whole numbers from 0 to 2^63 - 1, but found an array.");
  std::string objects;
  for (int i = 0; i < 100'000; ++i) objects += "{\"dtype\":";
  EXPECT_EQ(refusal(file_with("{\"w\":" + objects), "w"),
            "expected dtype to be a string, but found an object.");
}

TEST(HostileHeader, HasTheWrongStructure) {
  EXPECT_EQ(refusal(file_with("{\"w\":null}"), "w"),
            "expected an object with dtype, shape and data_offsets, but found null.");
  EXPECT_EQ(refusal(file_with("{\"w\":{}}"), "w"), "the field dtype is missing.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"dtype\":\"F32\"}}"), "w"), "the field shape is missing.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"dtype\":\"F32\",\"shape\":[]}}"), "w"),
            "the field data_offsets is missing.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"kind\":\"F32\"}}"), "w"),
            "expected the fields dtype, shape and data_offsets, but there is \"kind\".");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}"), "w"),
            "the field dtype is given twice.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"dtype\":5}}"), "w"),
            "expected dtype to be a string, but found 5.");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"shape\":\"3\"}}"), "w"),
            "expected shape to be an array of whole numbers, but found the string \"3\".");
  EXPECT_EQ(refusal(file_with("{\"w\":{\"data_offsets\":7}}"), "w"),
            "expected data_offsets to be an array of two whole numbers, but found 7.");
  EXPECT_EQ(refusal(one("F32", "[]", "[0]", ""), "w"),
            "data_offsets has 1 numbers: expected [begin, end].");
  EXPECT_EQ(refusal(one("F32", "[]", "[0,4,8]", "abcd"), "w"),
            "data_offsets has more than two numbers: expected [begin, end].");
}

TEST(HostileHeader, HasMetadataThatIsNotStrings) {
  EXPECT_EQ(refusal(file_with("{\"__metadata__\":3}")),
            "expected \"__metadata__\" to be an object of strings, but found 3.");
  EXPECT_EQ(refusal(file_with("{\"__metadata__\":{\"a\":true}}")),
            "expected the metadata \"a\" to be a string, but found true.");
  EXPECT_EQ(refusal(file_with("{\"__metadata__\":{\"a\":{}}}")),
            "expected the metadata \"a\" to be a string, but found an object.");
}

TEST(HostileHeader, SaysSomethingTwice) {
  EXPECT_EQ(refusal(file_with("{" + entry("w", "U8", "[1]", "[0,1]") + "," +
                                  entry("\\u0077", "U8", "[1]", "[1,2]") + "}",
                              "ab"),
                    "w"),
            "the header names the same tensor twice.");
  EXPECT_EQ(refusal(file_with("{\"__metadata__\":{\"a\":\"1\",\"a\":\"2\"}}")),
            "the metadata has the key \"a\" twice.");
  EXPECT_EQ(refusal(file_with("{\"__metadata__\":{},\"__metadata__\":{}}")),
            "the header has \"__metadata__\" twice.");
}

// ---- Bad numbers
// ----------------------------------------------------------------------------------

TEST(HostileHeader, HasAnUnknownDType) {
  EXPECT_EQ(
      refusal(one("f32", "[1]", "[0,4]", "abcd"), "w"),
      "unknown dtype \"f32\": expected one of F64, F32, F16, BF16, F8_E4M3, F8_E5M2, I64, I32, "
      "I16, I8, U64, U32, U16, U8, BOOL.");
}

TEST(HostileHeader, HasDimensionsThatAreNotSizes) {
  const std::string expected =
      "expected dimensions to be whole numbers from 0 to 2^63 - 1, but found ";
  EXPECT_EQ(refusal(one("F32", "[-1]", "[0,4]", "abcd"), "w"), expected + "-1.");
  EXPECT_EQ(refusal(one("F32", "[1.0]", "[0,4]", "abcd"), "w"), expected + "1.0.");
  EXPECT_EQ(refusal(one("F32", "[null]", "[0,4]", "abcd"), "w"), expected + "null.");
  EXPECT_EQ(refusal(one("F32", "[\"1\"]", "[0,4]", "abcd"), "w"), expected + "the string \"1\".");
  EXPECT_EQ(refusal(one("F32", "[9223372036854775808]", "[0,4]", "abcd"), "w"),
            expected + "9223372036854775808.");
  EXPECT_EQ(refusal(one("F32", "[99999999999999999999]", "[0,4]", "abcd"), "w"),
            expected + "99999999999999999999.");
}

TEST(HostileHeader, HasAShapeWhoseProductOverflows) {
  const std::string end = " overflows: expected at most 4 bytes, the data of the file.";
  // 2^32 · 2^32 elements come to 0 in 64 bits; 2^62 elements of 4 bytes come to 0 as well.
  EXPECT_EQ(refusal(one("U8", "[4294967296,4294967296]", "[0,4]", "abcd"), "w"),
            "the size of U8[4294967296, 4294967296]" + end);
  EXPECT_EQ(refusal(one("F32", "[4611686018427387904]", "[0,0]", "abcd"), "w"),
            "the size of F32[4611686018427387904]" + end);
  EXPECT_EQ(refusal(one("U8", "[0,4294967296,4294967296]", "[0,0]", "abcd"), "w"),
            "the size of U8[0, 4294967296, 4294967296]" + end);
}

TEST(HostileHeader, HasTooManyDimensions) {
  std::string shape = "[1";
  for (int i = 1; i < 32; ++i) shape += ",1";
  EXPECT_TRUE(test::read_everything(one("U8", shape + "]", "[0,1]", "a")));
  EXPECT_EQ(refusal(one("U8", shape + ",1]", "[0,1]", "a"), "w"),
            "the shape has more than 32 dimensions.");
}

TEST(HostileHeader, HasOffsetsOutOfRange) {
  EXPECT_EQ(refusal(one("F32", "[2]", "[0,8]", "abcdefg"), "w"),
            "data_offsets [0, 8] are out of range: the file has 7 bytes of data.");
  EXPECT_EQ(
      refusal(one("F32", "[1]", "[18446744073709551612,18446744073709551615]", "abcd"), "w"),
      "data_offsets [18446744073709551612, 18446744073709551615] are out of range: the file has "
      "4 bytes of data.");
  EXPECT_EQ(refusal(one("F32", "[1]", "[4,0]", "abcd"), "w"),
            "data_offsets [4, 0] end before they begin.");
  EXPECT_EQ(refusal(one("F32", "[1]", "[-4,0]", "abcd"), "w"),
            "expected data_offsets to be whole numbers from 0 to 2^64 - 1, but found -4.");
  EXPECT_EQ(refusal(one("F32", "[1]", "[0,4e0]", "abcd"), "w"),
            "expected data_offsets to be whole numbers from 0 to 2^64 - 1, but found 4e0.");
}

TEST(HostileHeader, HasALengthThatDoesNotMatchTheShape) {
  EXPECT_EQ(refusal(one("F32", "[2, 3]", "[0,16]", "0123456789abcdef"), "w"),
            "data_offsets [0, 16] hold 16 bytes, but F32[2, 3] needs 24.");
  EXPECT_EQ(refusal(one("F16", "[]", "[0,4]", "abcd"), "w"),
            "data_offsets [0, 4] hold 4 bytes, but F16[] needs 2.");
}

TEST(HostileHeader, HasTensorsThatOverlap) {
  EXPECT_EQ(refusal(file_with("{" + entry("b", "U8", "[3]", "[2,5]") + "," +
                                  entry("a", "U8", "[3]", "[0,3]") + "}",
                              "abcde"),
                    "b"),
            "data_offsets [2, 5] overlap those of tensor \"a\", [0, 3].");
  EXPECT_EQ(refusal(file_with("{" + entry("a", "U8", "[3]", "[0,3]") + "," +
                                  entry("e", "U8", "[0]", "[1,1]") + "}",
                              "abc"),
                    "e"),
            "data_offsets [1, 1] overlap those of tensor \"a\", [0, 3].");
}

TEST(HostileHeader, LeavesHoles) {
  EXPECT_EQ(
      refusal(file_with("{" + entry("b", "U8", "[1]", "[4,5]") + "," +
                            entry("a", "U8", "[3]", "[0,3]") + "}",
                        "abcde"),
              "b"),
      "data_offsets [4, 5] leave a hole: expected them to begin at 3, where tensor \"a\" ends.");
  EXPECT_EQ(
      refusal(one("U8", "[1]", "[1,2]", "ab"), "w"),
      "data_offsets [1, 2] leave a hole: expected them to begin at 0, the start of the data.");
}

TEST(HostileHeader, LeavesTrailingBytes) {
  EXPECT_EQ(refusal(one("U8", "[1]", "[0,1]", "abc")),
            "the file has 2 trailing bytes: its tensors end at byte 1 of the data, which has 3.");
  EXPECT_EQ(refusal(file_with("{}", "x")),
            "the file has 1 trailing bytes: its tensors end at byte 0 of the data, which has 1.");
}

TEST(HostileHeader, IsNotShownRaw) {
  EXPECT_EQ(error_of([] {
              SafetensorsFile::from_bytes(file_with("{\"\\u001b[2J\\u009b\":1}"), "\x1b[31m\xff");
            }),
            "safetensors: expected an object with dtype, shape and data_offsets, but found 1.\n"
            "  in tensor \"\\x1b[2J\\xc2\\x9b\"\n  in file \\x1b[31m\\xff");
  const std::string long_name(1'000'000, 'x');
  const std::string text =
      error_of([&] { SafetensorsFile::from_bytes(file_with("{\"" + long_name + "\":1}"), "f"); });
  EXPECT_LT(text.size(), 400u);
  EXPECT_NE(text.find("x... (1000000 bytes)\""), std::string::npos);
  EXPECT_LT(refusal(file_with("{\"a\" " + long_name + "}")).size(), 500u);
}

TEST(HostileHeader, CannotHoldMoreEntriesThanAMillion) {
  std::string header = "{\"__metadata__\":{";
  for (int i = 0; i <= 1'000'000; ++i) {
    if (i > 0) header += ',';
    header += '"' + std::to_string(i) + "\":\"\"";
  }
  EXPECT_EQ(refusal(file_with(header + "}}")),
            "the header has more than 1000000 metadata entries.");
}

// ---- Sharded models
// -------------------------------------------------------------------------------

class ShardedModel : public testing::Test {
 protected:
  void SetUp() override {
    folder_.put("m-1.safetensors", file_with(R"({"__metadata__":{"format":"pt","shard":"1"},)" +
                                                 entry("a", "F32", "[1]", "[0,4]") + "," +
                                                 entry("unlisted", "F32", "[1]", "[4,8]") + "}",
                                             raw<float>({1, 2})));
    folder_.put("m-2.safetensors", file_with(R"({"__metadata__":{"shard":"2","more":"x"},)" +
                                                 entry("b", "I32", "[1]", "[0,4]") + "}",
                                             raw<std::int32_t>({3})));
  }

  std::string index(const std::string& text) {
    return folder_.put("model.safetensors.index.json", bytes_of(text));
  }
  std::string refusal(const std::string& text) {
    const std::string path = index(text);
    const std::string error = error_of([&] { SafetensorsFile::open_model(path); });
    const std::string end = "\n  in file " + path;
    EXPECT_EQ(error.substr(error.size() - std::min(error.size(), end.size())), end);
    return error.substr(0, error.size() - std::min(error.size(), end.size()));
  }

  TemporaryFolder folder_;
};

TEST_F(ShardedModel, IsOneViewOfItsShards) {
  const auto path =
      index(R"({"metadata":{"total_size":8,"weight_map":[{}]},)"
            R"("weight_map":{"b":"m-2.safetensors","a":"m-1.safetensors"},"later":[1,[2.5]]})");
  for (const std::string& given : {path, folder_.path(), folder_.path() + "/"}) {
    const auto model = SafetensorsFile::open_model(given);
    EXPECT_EQ(model.path(), given);
    EXPECT_EQ(model.names(), (std::vector<std::string>{"b", "a"}));
    EXPECT_FALSE(model.has("unlisted"));
    EXPECT_EQ(model.read_f32("a"), F{1});
    EXPECT_EQ(model.read_i32("b"), I{3});
    EXPECT_EQ(model.metadata(), (std::map<std::string, std::string>{
                                    {"format", "pt"}, {"more", "x"}, {"shard", "2"}}));
  }
}

TEST_F(ShardedModel, NamesTheShardInErrors) {
  index(R"({"weight_map":{"a":"m-1.safetensors"}})");
  const auto model = SafetensorsFile::open_model(folder_.path());
  EXPECT_NE(error_of([&] { model.read_i32("a"); }).find("in file " + folder_ / "m-1.safetensors"),
            std::string::npos);
}

TEST_F(ShardedModel, MayBeASingleFile) {
  EXPECT_EQ(SafetensorsFile::open_model(folder_ / "m-1.safetensors").tensors().size(), 2u);
  index("not used");
  folder_.put("model.safetensors", one("F32", "[1]", "[0,4]", raw<float>({9})));
  EXPECT_EQ(SafetensorsFile::open_model(folder_.path()).read_f32("w"), F{9});
}

TEST_F(ShardedModel, IsNotThere) {
  EXPECT_EQ(error_of([&] { SafetensorsFile::open_model(folder_.path()); }),
            "safetensors: expected the folder to hold model.safetensors or "
            "model.safetensors.index.json, but it has neither.\n  in file " +
                folder_.path());
  EXPECT_NE(error_of([&] { SafetensorsFile::open_model(folder_ / "x.json"); }).find("errno 2"),
            std::string::npos);
  EXPECT_NE(error_of([&] { SafetensorsFile::open_model(folder_ / "x"); }).find("errno 2"),
            std::string::npos);
}

TEST_F(ShardedModel, RefusesAnIndexThatIsWrong) {
  EXPECT_EQ(refusal("[]"), "safetensors: expected the index to be an object, but found an array.");
  EXPECT_EQ(refusal("3"), "safetensors: expected the index to be an object, but found 3.");
  EXPECT_EQ(refusal("{}"), "safetensors: the index has no \"weight_map\".");
  EXPECT_EQ(refusal("").rfind("safetensors: the index is not valid JSON at its byte ", 0), 0u);
  EXPECT_EQ(refusal(R"({"weight_map":["a"]})"),
            "safetensors: expected \"weight_map\" to be an object, but found an array.");
  EXPECT_EQ(refusal(R"({"weight_map":{},"weight_map":{}})"),
            "safetensors: the index has \"weight_map\" twice.");
  EXPECT_EQ(refusal(R"({"weight_map":{"a":1}})"),
            "safetensors: expected the name of a shard, but found 1.\n  in tensor \"a\"");
  EXPECT_EQ(refusal(R"({"weight_map":{"a":{"b":"c"}}})"),
            "safetensors: expected the name of a shard, but found an object.\n  in tensor \"a\"");
  EXPECT_EQ(refusal(R"({"weight_map":{"a":"m-1.safetensors","a":"m-2.safetensors"}})"),
            "safetensors: the weight_map names the same tensor twice.\n  in tensor \"a\"");
  EXPECT_EQ(refusal("{\"metadata\":" + std::string(1'000'000, '[')),
            "safetensors: the index nests deeper than 32 levels.");
}

TEST_F(ShardedModel, RefusesShardsThatLieElsewhere) {
  for (const char* shard : {"../m", "/etc/passwd", "a/b", "..", ".", "", "a\\\\b", "m\\u0000"}) {
    EXPECT_EQ(
        refusal(std::string(R"({"weight_map":{"a":")") + shard + "\"}}")
            .rfind("safetensors: expected the name of a file beside the index, but found \"", 0),
        0u)
        << shard;
  }
}

TEST_F(ShardedModel, RefusesAShardThatIsMissingOrLacksItsTensor) {
  EXPECT_EQ(
      refusal(R"({"weight_map":{"unlisted":"m-2.safetensors"}})"),
      "safetensors: the index places the tensor in \"m-2.safetensors\", but that file does not "
      "have it.\n  in tensor \"unlisted\"");
  EXPECT_EQ(
      refusal(R"({"weight_map":{"a":"m-3.safetensors"}})"),
      "safetensors: the index places the tensor in \"m-3.safetensors\", but there is no such file "
      "beside the index.\n  in tensor \"a\"");
  folder_.put("m-3.safetensors", bytes_of("rubbish"));
  index(R"({"weight_map":{"a":"m-3.safetensors"}})");
  EXPECT_EQ(
      error_of([&] { SafetensorsFile::open_model(folder_.path()); }),
      "safetensors: the file is truncated: it has 7 bytes, expected at least 8 for the length "
      "of the header.\n  in file " +
          folder_ / "m-3.safetensors");
}

TEST_F(ShardedModel, RefusesATensorInTwoShards) {
  folder_.put("m-3.safetensors", file_with("{" + entry("a", "F32", "[1]", "[0,4]") + "," +
                                               entry("c", "F32", "[1]", "[4,8]") + "}",
                                           raw<float>({5, 6})));
  EXPECT_EQ(refusal(R"({"weight_map":{"a":"m-1.safetensors","c":"m-3.safetensors"}})"),
            "safetensors: the index places the tensor in \"m-1.safetensors\", but "
            "\"m-3.safetensors\" has it too.\n  in tensor \"a\"");
}

// As in a cache of downloads, where a model's folder is made of links.
TEST_F(ShardedModel, MayBeMadeOfLinks) {
  std::filesystem::create_directory(folder_ / "blobs");
  std::filesystem::rename(folder_ / "m-1.safetensors", folder_ / "blobs/0123abcd");
  std::filesystem::create_symlink("blobs/0123abcd", folder_ / "m-1.safetensors");
  index(R"({"weight_map":{"a":"m-1.safetensors"}})");
  EXPECT_EQ(SafetensorsFile::open_model(folder_.path()).read_f32("a"), F{1});
}

}  // namespace
}  // namespace tensorgrad
