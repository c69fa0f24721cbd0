#include "tensorgrad/python_json.hpp"

#include <gtest/gtest.h>

namespace tensorgrad::test {
namespace {

TEST(PythonJson, NumbersThatJsonDoesNotHaveBecomeTexts) {
  EXPECT_EQ(strict_json(R"({"a": NaN, "b": [Infinity, -Infinity]})"),
            R"({"a": "nan", "b": ["inf", "-inf"]})");
}

TEST(PythonJson, TextsStayAsTheyAre) {
  for (const char* text : {R"({"NaN": "Infinity"})", R"("a \" NaN")", R"("\\")", R"("\)", "",
                           "[1, -2, null]", R"("x\")"}) {
    EXPECT_EQ(strict_json(text), text);
  }
  EXPECT_EQ(strict_json(R"(["\\", NaN])"), R"(["\\", "nan"])");
}

}  // namespace
}  // namespace tensorgrad::test
