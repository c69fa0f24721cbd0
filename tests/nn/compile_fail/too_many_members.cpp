// expect: the members of this struct cannot be counted; use std::array if it has a C array
#include "walk.hpp"

struct Model {
  Tensor m00, m01, m02, m03, m04, m05, m06;
  Tensor m10, m11, m12, m13, m14, m15, m16;
  Tensor m20, m21, m22, m23, m24, m25, m26;
  Tensor m30, m31, m32, m33, m34, m35, m36;
  Tensor m40, m41, m42, m43, m44, m45, m46;
  Tensor m50, m51, m52, m53, m54, m55, m56;
  Tensor m60, m61, m62, m63, m64, m65, m66;
};

void test(Model& model) { walk(model); }
