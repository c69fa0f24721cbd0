#include "codegen/wgsl/fold.hpp"

#include "tensorgrad/error.hpp"

namespace tensorgrad::wgsl {

const char* reduce_name(ReduceKind kind) {
  switch (kind) {
    case ReduceKind::Sum:
      return "sum";
    case ReduceKind::Prod:
      return "prod";
    case ReduceKind::Max:
      return "max";
    case ReduceKind::Min:
      return "min";
    case ReduceKind::ArgMax:
      return "argmax";
    case ReduceKind::ArgMin:
      return "argmin";
  }
  return "?";
}

bool is_arg(ReduceKind kind) { return kind == ReduceKind::ArgMax || kind == ReduceKind::ArgMin; }

std::string start_of(ReduceKind kind, DType dtype, std::set<std::string>& prelude) {
  const bool is_float = dtype == DType::F32;
  switch (kind) {
    case ReduceKind::Sum:
      return is_float ? "0.0" : "0";
    case ReduceKind::Prod:
      return is_float ? "1.0" : "1";
    case ReduceKind::Max:
      if (!is_float) return "i32(-2147483648)";
      prelude.insert("tg_inf");
      return "-tg_inf()";
    case ReduceKind::Min:
      if (!is_float) return "2147483647";
      prelude.insert("tg_inf");
      return "tg_inf()";
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      return is_float ? "0.0" : "0";
  }
  return "?";
}

std::string joined(ReduceKind kind, DType dtype, const std::string& a, const std::string& b,
                   std::set<std::string>& prelude) {
  const auto call = [&](const std::string& name) {
    const std::string function = dtype == DType::F32 ? "tg_" + name : name;
    if (dtype == DType::F32) prelude.insert(function);
    return function + "(" + a + ", " + b + ")";
  };
  switch (kind) {
    case ReduceKind::Sum:
      return a + " + " + b;
    case ReduceKind::Prod:
      return a + " * " + b;
    case ReduceKind::Max:
      return call("max");
    case ReduceKind::Min:
      return call("min");
    case ReduceKind::ArgMax:
    case ReduceKind::ArgMin:
      break;
  }
  throw InternalError("wgsl: positions are joined in pairs");
}

std::string first_function(ReduceKind kind, DType dtype, std::set<std::string>& prelude) {
  std::string name = kind == ReduceKind::ArgMax ? "tg_first_max" : "tg_first_min";
  if (dtype == DType::I32) name += "_i32";
  prelude.insert(name);
  return name;
}

}  // namespace tensorgrad::wgsl
