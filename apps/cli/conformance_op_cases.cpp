// Op cases: one op, its inputs and the cotangent of its output are traced together with the
// vector-Jacobian products, and run as one forward program.
#include <filesystem>
#include <memory>

#include "conformance_case.hpp"
#include "conformance_ops.hpp"
#include "tensorgrad/autograd.hpp"
#include "tensorgrad/compile.hpp"

namespace tensorgrad::conformance {

namespace {

// Where a case does not say.
constexpr double kTolerance = 2e-5;
constexpr double kOpGradientTolerance = 1e-4;

/// A tensor of a case: `{"name": "add.0.in0", "dtype": "f32"}`, or its name alone.
struct TensorRef {
  std::string name, dtype;
};

TensorRef tensor_ref(const Json& json, const std::string& what) {
  if (json.is_string()) return {json.get<std::string>(), ""};
  const Attrs attrs(json, what);
  TensorRef ref{attrs.text({"name"}, ""), attrs.text({"dtype"}, "")};
  if (ref.name.empty()) throw Error(what + " has no name.");
  return ref;
}

struct GradientRef {
  std::size_t input = 0;
  std::string name;
};

struct OpCase {
  std::string op;
  std::vector<TensorRef> inputs;
  TensorRef output;
  std::string gout;  // empty if the op has no gradient
  std::vector<GradientRef> gradients;
  Json attrs;
  double tolerance = kTolerance, gradient_tolerance = kOpGradientTolerance;
};

OpCase parse(const Json& json, const std::string& id) {
  const Attrs fields(json, "case " + id);
  OpCase result;
  result.op = fields.text({"op"}, "");
  if (result.op.empty()) throw Error("the case names no op");
  result.attrs = fields.raw({"attrs"});
  for (const Json& input : fields.raw({"inputs"})) {
    result.inputs.push_back(tensor_ref(input, "an input of case " + id));
  }
  result.output = tensor_ref(fields.raw({"output"}), "the output of case " + id);
  if (fields.has({"gout"})) {
    result.gout = tensor_ref(fields.raw({"gout"}), "gout of case " + id).name;
  }
  for (const Json& gradient : fields.raw({"grads"})) {
    const Attrs attrs(gradient, "a gradient of case " + id);
    GradientRef ref{static_cast<std::size_t>(attrs.integer({"input"})), attrs.text({"name"}, "")};
    if (ref.input >= result.inputs.size()) {
      throw Error("the gradient " + ref.name + " is of input " + std::to_string(ref.input) +
                  ", which the case does not have");
    }
    result.gradients.push_back(ref);
  }
  if (!result.gradients.empty() && result.gout.empty()) {
    throw Error("the case has gradients but no gout");
  }
  result.tolerance = fields.number({"tol"}, kTolerance);
  result.gradient_tolerance = fields.number({"tol_grad"}, kOpGradientTolerance);
  return result;
}

DType input_dtype(const TensorRef& ref, const SafetensorsFile& file) {
  if (ref.dtype.empty()) return Array::read(file, ref.name).is_float ? f32 : i32;
  if (ref.dtype == "f32" || ref.dtype == "float32") return f32;
  if (ref.dtype == "i32" || ref.dtype == "int32" || ref.dtype == "i64") return i32;
  if (ref.dtype == "bool") return boolean;
  throw Error("the dtype \"" + ref.dtype + "\" of " + ref.name + " is not supported");
}

void run_op_case(const Json& json, const std::string& id, const SafetensorsFile& file,
                 const Device& device, Report& report) {
  const OpCase op_case = parse(json, id);
  const OpFn op = find_op(op_case.op);
  if (!op) {
    report.fail("unknown op \"" + op_case.op + "\"");
    return;
  }
  const Attrs attrs(op_case.attrs, "the attributes");

  std::vector<Array> values;
  std::vector<std::string> names;  // of the program's inputs; feeds point into them
  ProgramRequest request;
  request.device = device;
  const auto add_input = [&](const std::string& name, const TensorRef& ref) {
    const DType dtype = input_dtype(ref, file);
    values.push_back(dtype == f32 ? Array::read_f32(file, ref.name)
                                  : Array::read_i32(file, ref.name));
    names.push_back(name);
    request.inputs.push_back({name, InputDecl(Shape(values.back().shape), dtype)});
  };
  for (std::size_t i = 0; i < op_case.inputs.size(); ++i) {
    add_input("in" + std::to_string(i), op_case.inputs[i]);
  }
  if (!op_case.gradients.empty()) add_input("gout", {op_case.gout, "f32"});

  std::vector<bool> reached(op_case.gradients.size(), false);
  request.trace = [&](const Inputs& in, std::vector<MaterializedParam>&) {
    std::vector<Tensor> inputs;
    for (std::size_t i = 0; i < op_case.inputs.size(); ++i) inputs.push_back(in[names[i]]);
    const Tensor out = op(Call(op_case.op, inputs, attrs));
    Outputs outputs{{"out", out}};
    if (op_case.gradients.empty()) return outputs;
    const Tensor gout = in["gout"];
    if (out.type() != gout.type()) {
      report.fail("the output is " + out.type().to_string() + ", but its cotangent is " +
                  gout.type().to_string());
      return outputs;
    }
    std::vector<Tensor> wrt;
    for (const GradientRef& ref : op_case.gradients) wrt.push_back(inputs[ref.input]);
    const std::vector<Tensor> gradients = append_vjp(current_graph(), {out}, {gout}, wrt);
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      reached[i] = gradients[i].valid();
      if (reached[i]) outputs.items.emplace_back("grad" + std::to_string(i), gradients[i]);
    }
    return outputs;
  };
  Runner runner(std::move(request));

  std::vector<FeedItem> feed;
  for (std::size_t i = 0; i < values.size(); ++i) feed.push_back({names[i], values[i].feed()});
  const RunResult result = runner.run(feed, {});

  report.check(file, op_case.output.name, Array::of(result["out"]), op_case.tolerance);
  for (std::size_t i = 0; i < op_case.gradients.size(); ++i) {
    const GradientRef& ref = op_case.gradients[i];
    // Where nothing flows back the gradient is zero.
    const Array& input = values[ref.input];
    Array gradient = Array::of(input.shape, std::vector<float>(input.size()));
    if (reached[i]) gradient = Array::of(result["grad" + std::to_string(i)]);
    report.check(file, ref.name, std::move(gradient), op_case.gradient_tolerance);
  }
  if (report.passed()) return;
  for (const std::string& name : attrs.unused()) {
    report.fail("the attribute \"" + name + "\" was not used");
  }
}

}  // namespace

std::vector<Case> op_cases(const std::string& json_path) {
  Json list = read_json(json_path);
  if (list.is_object() && list.contains("cases")) list = Json(list["cases"]);
  if (!list.is_array()) throw IoError(json_path + " should hold a list of cases.");
  const std::filesystem::path path(json_path);
  const auto file = std::make_shared<const SafetensorsFile>(
      SafetensorsFile::open(std::filesystem::path(path).replace_extension("safetensors").string()));
  std::vector<Case> cases;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string number = "case " + std::to_string(i) + " of " + json_path;
    const Attrs fields(list[i], number);
    const std::string id = fields.text({"id", "name"}, "");
    if (id.empty()) throw IoError(number + " has no id.");
    const Json json = list[i];
    cases.push_back({id, fields.text({"set"}, "core"), false,
                     [json, id, file](const Device& device, Report& report) {
                       run_op_case(json, id, *file, device, report);
                     }});
  }
  return cases;
}

}  // namespace tensorgrad::conformance
