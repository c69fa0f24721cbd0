// docs/ops.md: every op with what it takes, whether it has a gradient, and on which devices its
// cases agree with the reference interpreter. Made from the public headers and the table of op
// cases, which run for it; TENSORGRAD_UPDATE_GOLDEN=1 writes it anew.
#include <gtest/gtest.h>

#include <regex>
#include <set>
#include <sstream>

#include "devices/case_results.hpp"
#include "docs/document.hpp"

namespace tensorgrad::test {
namespace {

// ---- what the headers say

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

/// The functions that a header declares, by its headings `// ---- title: note`.
class Header {
 public:
  explicit Header(const std::string& name) : text_(source_file("include/tensorgrad/" + name)) {
    const std::regex start(R"(^(Tensor|std::vector<Tensor>|ScanResult|void) \w+\()");
    sections_.emplace_back();  // what comes before the first heading
    std::istringstream lines(text_);
    std::string comment, declaration;
    for (std::string line; std::getline(lines, line);) {
      if (line.rfind("// ---- ", 0) == 0) {
        const std::size_t cut = line.find_first_of(":,");
        sections_.push_back({line.substr(8, cut - 8), "", {}});
        if (cut != std::string::npos) sections_.back().note = line.substr(cut + 2);
      } else if (line.rfind("/// ", 0) == 0 && declaration.empty()) {
        comment += (comment.empty() ? "" : " ") + line.substr(4);
      } else if (!declaration.empty() || std::regex_search(line, start)) {
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

  const Declared& op(const std::string& name) const {
    for (const Section& section : sections_) {
      for (const Declared& op : section.ops) {
        if (op.name == name) return op;
      }
    }
    throw std::out_of_range(name);
  }

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

  const std::string text_;
  std::vector<Section> sections_;
};

/// The sections of ops.hpp, with what a forward function can call from elsewhere.
std::vector<Section> declared_ops() {
  std::vector<Section> sections = Header("ops.hpp").sections();
  const Header trace("trace.hpp"), mamba("mamba.hpp");
  for (Section& section : sections) {
    std::vector<Declared>& ops = section.ops;
    if (section.title == "leaves") {
      for (const char* name : {"tensor_input", "param_input", "state_input"}) {
        ops.push_back(trace.op(name));
      }
    } else if (section.title == "state space") {
      ops.push_back(mamba.op("chunked_scan"));
      ops.back().call = "nn::" + ops.back().call;
    } else if (section.title == "control") {
      for (const char* name : {"capture", "write_back"}) ops.push_back(trace.op(name));
    }
  }
  std::erase_if(sections, [](const Section& section) { return section.ops.empty(); });
  return sections;
}

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
    std::set<OpKind> leaves;
    for (const InputSpec& input : op_case.inputs) {
      support.dtypes.insert(input.dtype);
      found[to_string(input.leaf)].dtypes.insert(input.dtype);
      leaves.insert(input.leaf);
    }
    for (const OpKind leaf : leaves) ++found[to_string(leaf)].cases;
    for (const NamedTensor& output : made.graph->outputs) {
      if (output.name.rfind("grad", 0) == 0) support.gradient = true;
      if (op_case.inputs.empty()) support.dtypes.insert(made.graph->type(output.tensor).dtype);
    }
  }
  for (const std::string& device : kDevices) {
    for (const CaseResult& result : case_results(Device::named(device))) {
      Support& support = found[result.op_case->op];
      support.right[device] += result.difference.empty();
      std::set<std::string> leaves;
      for (const InputSpec& input : result.op_case->inputs) leaves.insert(to_string(input.leaf));
      for (const std::string& leaf : leaves) found[leaf].right[device] += result.difference.empty();
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

std::string section_text(const Section& section, std::map<std::string, Support>& support) {
  std::string text = "\n## " + section.title + "\n\n";
  if (!section.note.empty()) text += "(" + section.note + ")\n\n";
  text += "| op | | dtypes | gradient | CPU | WebGPU |\n|---|---|---|---|---|---|\n";
  for (const Declared& op : section.ops) {
    const auto found = support.find(op.name);
    EXPECT_NE(found, support.end()) << op.name << " has no case";
    if (found == support.end()) continue;
    text += row(op, found->second);
    support.erase(found);
  }
  return text;
}

constexpr const char* kPreface =
    R"(# The ops

Everything a forward function can call and where it works. This table is not written by hand:
`tests/devices/ops_document_test.cpp` reads the public headers, runs every case of
`tests/support/op_table.cpp`, with its gradients, on each device and compares with the reference
interpreter, which defines what an op means. "yes" means that every case agrees.
`TENSORGRAD_UPDATE_GOLDEN=1 build/release/bin/test_devices --gtest_filter='OpsDocument*'` renews it.

Binary ops take tensors and numbers on either side and broadcast as NumPy does. Axes may be
negative. Options are given by name: `sum(x, {.axes = {0, 2}, .keepdims = true})`.
)";

std::string document() {
  std::map<std::string, Support> support = measured();
  std::string text = kPreface;
  for (const Section& section : declared_ops()) text += section_text(section, support);
  text += section_text({"optimizers",
                        "made by a compile with an optimizer; the cases are training graphs",
                        {Header("optim.hpp").op("append_optimizer")}},
                       support);
  for (const auto& [name, rest] : support) ADD_FAILURE() << name << " is declared nowhere";
  return text;
}

TEST(OpsDocument, SaysWhatTheOpsReallyDo) { check_text("docs/ops.md", document()); }

}  // namespace
}  // namespace tensorgrad::test
