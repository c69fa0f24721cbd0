// docs/ops.md: every op with what it takes, whether it has a gradient, and on which devices its
// cases agree with the reference interpreter. Made from ops.hpp and the table of op cases, which
// run for it; TENSORGRAD_UPDATE_GOLDEN=1 writes it anew.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "devices/case_results.hpp"
#include "docs/document.hpp"

namespace tensorgrad::test {
namespace {

// ---- what ops.hpp says

struct Declared {
  std::string name, call, note;
  bool takes_tensors = false;
};

struct Section {
  std::string title, note;
  std::vector<Declared> ops;
};

/// Cut at the commas that are in no bracket.
std::vector<std::string> split_parameters(const std::string& list) {
  std::vector<std::string> parts{""};
  int depth = 0;
  for (const char c : list) {
    if (std::string("(<{").find(c) != std::string::npos) ++depth;
    if (std::string(")>}").find(c) != std::string::npos) --depth;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

class Header {
 public:
  explicit Header(const std::string& text) : text_(text) {
    std::istringstream lines(text);
    std::string comment, declaration;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("// ---- ", 0) == 0) {
        const std::size_t cut = line.find_first_of(":,");
        sections_.push_back({line.substr(8, cut - 8), "", {}});
        if (cut != std::string::npos) sections_.back().note = line.substr(cut + 2);
      } else if (line.rfind("/// ", 0) == 0 && declaration.empty()) {
        comment += (comment.empty() ? "" : " ") + line.substr(4);
      } else if (!declaration.empty() || line.rfind("Tensor ", 0) == 0 ||
                 line.rfind("std::vector<Tensor> ", 0) == 0) {
        declaration += (declaration.empty() ? "" : " ") + line;
        if (declaration.find(';') == std::string::npos) continue;
        add(declaration, comment);
        declaration.clear();
        comment.clear();
      } else {
        comment.clear();
      }
    }
  }

  const std::vector<Section>& sections() const { return sections_; }

 private:
  void add(const std::string& declaration, std::string note) {
    const std::size_t open = declaration.find('('), end = declaration.find(");");
    const std::string before = declaration.substr(0, open);
    const std::string name = before.substr(before.rfind(' ') + 1);
    const std::size_t trailing = declaration.find("///< ");
    if (trailing != std::string::npos) note = declaration.substr(trailing + 5);
    std::string call = name + "(";
    for (const std::string& parameter :
         split_parameters(declaration.substr(open + 1, end - open - 1))) {
      const std::string shown = parameter_text(parameter);
      if (!shown.empty()) call += (call.back() == '(' ? "" : ", ") + shown;
    }
    std::vector<Declared>& ops = sections_.back().ops;
    if (!ops.empty() && ops.back().name == name) return;  // another form of the same op
    const bool takes_tensors =
        std::regex_search(declaration.substr(open), std::regex("Operand|const Tensor&|<Tensor>"));
    ops.push_back({name, call + ")", note, takes_tensors});
  }

  /// The parameter's name; of a struct of options, its fields; nothing for the call site.
  std::string parameter_text(const std::string& parameter) const {
    const std::string declared = parameter.substr(0, parameter.find(" = "));
    std::smatch match;
    const std::regex shape(R"((?:(\w+Options) )?(\w+)\s*$)");
    if (!std::regex_search(declared, match, shape) || match[2] == "site") return "";
    if (!match[1].matched) return match[2];
    const std::size_t begin = text_.find("struct " + match[1].str() + " {");
    const std::string fields = text_.substr(begin, text_.find("\n}", begin) - begin);
    std::string list;
    const std::regex field(R"((\w+) = )");
    for (auto at = std::sregex_iterator(fields.begin(), fields.end(), field);
         at != std::sregex_iterator(); ++at) {
      list += (list.empty() ? "." : ", .") + (*at)[1].str();
    }
    return "{" + list + "}";
  }

  const std::string& text_;
  std::vector<Section> sections_;
};

// ---- what the cases say

struct Support {
  int cases = 0;
  bool gradient = false;
  std::set<DType> dtypes;
  std::map<std::string, int> right;  // cases, by device
};

const std::vector<std::string> kDevices = {"cpu", "webgpu"};

std::map<std::string, Support> measured() {
  std::map<std::string, Support> found;
  for (const OpCase& op_case : op_cases()) {
    Support& support = found[op_case.op];
    const CaseGraph made = build_case(op_case);
    ++support.cases;
    for (const InputSpec& input : op_case.inputs) support.dtypes.insert(input.dtype);
    for (const NamedTensor& output : made.graph->outputs) {
      if (output.name.rfind("grad", 0) == 0) support.gradient = true;
      if (op_case.inputs.empty()) support.dtypes.insert(made.graph->type(output.tensor).dtype);
    }
  }
  for (const std::string& device : kDevices) {
    for (const CaseResult& result : case_results(Device::named(device))) {
      Support& support = found[result.op_case->op];
      support.right[device] += result.difference.empty();
    }
  }
  return found;
}

// ---- the document

std::string escaped(const std::string& text) {
  return std::regex_replace(text, std::regex(R"(\|)"), "\\|");
}

std::string row(const Declared& op, const Support& support) {
  std::string dtypes;
  for (const DType dtype : support.dtypes) {
    dtypes += (dtypes.empty() ? "" : ", ") + std::string(to_string(dtype));
  }
  // A case may have a gradient that goes past the op; past stop_gradient it always does.
  const bool gradient = support.gradient && op.name != "stop_gradient";
  std::string text = "| `" + escaped(op.call) + "` | " + escaped(op.note) + " | " + dtypes + " | " +
                     (!op.takes_tensors ? ""
                      : gradient        ? "yes"
                                        : "no");
  for (const std::string& device : kDevices) {
    const int right = support.right.at(device);
    text += " | ";
    text += right == support.cases
                ? std::string("yes")
                : std::to_string(right) + " of " + std::to_string(support.cases) + " cases";
  }
  return text + " |\n";
}

constexpr const char* kHead =
    "| op | | dtypes | gradient | CPU | WebGPU |\n|---|---|---|---|---|---|\n";

std::string document() {
  const std::string header = source_file("include/tensorgrad/ops.hpp");
  const Header parsed(header);
  std::map<std::string, Support> support = measured();
  std::string text =
      "# The ops\n\n"
      "Everything a forward function can call, from `include/tensorgrad/ops.hpp`, and where it "
      "works.\n"
      "This table is not written by hand: `tests/devices/ops_document_test.cpp` runs every case "
      "of\n"
      "`tests/support/op_table.cpp`, with its gradients, on each device and compares with the "
      "reference\n"
      "interpreter, which defines what an op means. \"yes\" means that every case agrees.\n"
      "`TENSORGRAD_UPDATE_GOLDEN=1 build/release/bin/test_devices --gtest_filter='OpsDocument*'` "
      "renews it.\n\n"
      "Binary ops take tensors and numbers on either side and broadcast as NumPy does. Axes may "
      "be\n"
      "negative. Options are given by name: `sum(x, {.axes = {0, 2}, .keepdims = true})`.\n";
  for (const Section& section : parsed.sections()) {
    text += "\n## " + section.title + "\n\n";
    if (!section.note.empty()) text += "(" + section.note + ")\n\n";
    text += kHead;
    for (const Declared& op : section.ops) {
      const auto found = support.find(op.name);
      EXPECT_NE(found, support.end()) << op.name << " has no case";
      if (found == support.end()) continue;
      text += row(op, found->second);
      support.erase(found);
    }
  }
  text +=
      "\n## other\n\nDeclared in `trace.hpp` or made by the optimizers.\n\n" + std::string(kHead);
  for (const auto& [name, rest] : support) text += row({name, name, "", true}, rest);
  return text;
}

TEST(OpsDocument, SaysWhatTheOpsReallyDo) { check_text("docs/ops.md", document()); }

}  // namespace
}  // namespace tensorgrad::test
