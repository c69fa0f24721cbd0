// The report on a file with tensors: a checkpoint or any model in safetensors form. Nothing in it
// is trusted, not even to be fit for a terminal.
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>

#include "inspect.hpp"
#include "terminal.hpp"

namespace tensorgrad::cli {

namespace {

constexpr std::size_t kLongest = 1000;  // bytes of a metadata value that are shown

/// Control characters escaped, long text cut. The reader has made sure that it is UTF-8.
std::string printable(const std::string& text, std::size_t limit = kLongest) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool starts_character = (byte & 0xc0) != 0x80;
    if (starts_character && i >= limit) {
      return out + "... (" + with_commas(static_cast<std::int64_t>(text.size())) + " bytes)";
    }
    // C1 codes are two bytes, c2 80 to c2 9f.
    const bool c1 =
        byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0;
    if (byte >= 0x20 && byte != 0x7f && !c1) {
      out += text[i];
      continue;
    }
    char code[8];
    std::snprintf(code, sizeof code, "\\x%02x", c1 ? static_cast<unsigned char>(text[++i]) : byte);
    out += code;
  }
  return out;
}

bool is_checkpoint(const SafetensorsFile& file) {
  return file.metadata().count("tensorgrad.checkpoint") > 0;
}

std::string type_of(const FileTensor& tensor) {
  std::string text = std::string(to_string(tensor.dtype)) + "[";
  for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
    text += (i ? ", " : "") + std::to_string(tensor.shape[i]);
  }
  return text + "]";
}

struct Amount {
  std::int64_t tensors = 0, elements = 0, bytes = 0;
  std::set<std::string> dtypes;

  void add(const FileTensor& tensor) {
    ++tensors;
    elements += tensor.elements();
    bytes += static_cast<std::int64_t>(tensor.bytes.size());
    dtypes.insert(to_string(tensor.dtype));
  }
  std::string text() const {
    std::string kinds;
    for (const std::string& dtype : dtypes) kinds += (kinds.empty() ? "" : ", ") + dtype;
    return with_commas(elements) + " in " + with_commas(tensors) +
           (tensors == 1 ? " tensor" : " tensors") + ", " + human_bytes(bytes) +
           (kinds.empty() ? "" : ", " + kinds);
  }
};

void print_row(const char* name, const std::string& text) {
  std::printf("%s", help_row(name, 10, text).c_str());
}

/// Settings as `batch 64, lr 0.001`; what is no JSON object, as it is.
std::string settings_text(const std::string& config) {
  const auto json = nlohmann::ordered_json::parse(config, nullptr, false);
  if (!json.is_object()) return printable(config);
  std::string text;
  for (const auto& [key, value] : json.items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += (text.empty() ? "" : ", ") + key + " " + shown;
  }
  return printable(text);
}

void print_example(const SafetensorsFile& file, const std::string& name) {
  for (const Example& example : examples()) {
    if (example.name != name) continue;
    print_row("example", name + ": " + example.summary + "\n`tensorgrad train " + name +
                             " --resume " + file.path() +
                             "` goes on with it,\n`tensorgrad inspect " + name +
                             "` shows what it runs");
    return;
  }
  print_row("example", printable(name) + ", which is none of this program's");
}

/// What the file is, whose it is, and how much is in it.
void print_summary(const SafetensorsFile& file) {
  const auto& metadata = file.metadata();
  const auto value = [&](const char* key) {
    const auto found = metadata.find(key);
    return found == metadata.end() ? std::string() : found->second;
  };
  print_row("file",
            file.path() + (is_checkpoint(file) ? ", a checkpoint of tensorgrad" : ", safetensors"));
  if (const std::string name = value("tensorgrad.example"); !name.empty())
    print_example(file, name);
  for (const char* key : {"step", "seed", "lr"}) {
    const std::string text = value((std::string("tensorgrad.") + key).c_str());
    if (!text.empty()) print_row(key, printable(text));
  }
  if (const std::string config = value("tensorgrad.config"); !config.empty()) {
    print_row("settings", settings_text(config));
  }
  Amount params, states;
  for (const FileTensor& tensor : file.tensors()) {
    const bool state = is_checkpoint(file) && tensor.name.rfind("state.", 0) == 0;
    (state ? states : params).add(tensor);
  }
  print_row(is_checkpoint(file) ? "parameters" : "elements", params.text());
  if (states.tensors > 0) print_row("states", states.text());
}

/// What a tensor's elements are like. Infinities and NaN are counted apart.
struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low, sum = 0;
  std::int64_t finite = 0, infinite = 0, nan = 0;

  explicit Range(const std::vector<float>& values) {
    for (const float value : values) {
      if (std::isnan(value)) {
        ++nan;
      } else if (std::isinf(value)) {
        ++infinite;
      } else {
        ++finite;
        low = std::min<double>(low, value);
        high = std::max<double>(high, value);
        sum += value;
      }
    }
  }
  std::string trouble() const {
    std::string text;
    if (nan > 0) text = with_commas(nan) + " NaN";
    if (infinite > 0) text += (text.empty() ? "" : ", ") + with_commas(infinite) + " infinite";
    return text;
  }
};

void print_tensors(const SafetensorsFile& file) {
  std::size_t name_width = 4, type_width = 4;
  for (const FileTensor& tensor : file.tensors()) {
    name_width = std::max(name_width, printable(tensor.name, 60).size());
    type_width = std::max(type_width, type_of(tensor).size());
  }
  const auto n = static_cast<int>(name_width), t = static_cast<int>(type_width);
  std::printf("%-*s  %-*s %12s %12s %12s\n", n, "name", t, "type", "min", "mean", "max");
  for (const FileTensor& tensor : file.tensors()) {
    std::printf("%-*s  %-*s", n, printable(tensor.name, 60).c_str(), t, type_of(tensor).c_str());
    const Range range(file.read_f32(tensor.name));
    if (range.finite > 0) {
      std::printf(" %12s %12s %12s", number(range.low).c_str(),
                  number(range.sum / static_cast<double>(range.finite)).c_str(),
                  number(range.high).c_str());
    }
    const std::string trouble = range.trouble();
    std::printf("%s%s\n", trouble.empty() ? "" : "  ", styled(Style::Red, trouble).c_str());
  }
}

void print_metadata(const SafetensorsFile& file) {
  std::size_t width = 0;
  for (const auto& [key, value] : file.metadata())
    width = std::max(width, printable(key, 40).size());
  for (const auto& [key, value] : file.metadata()) {
    std::printf("  %-*s  %s\n", static_cast<int>(width), printable(key, 40).c_str(),
                printable(value).c_str());
  }
  if (file.metadata().empty()) std::printf("  none\n");
}

constexpr std::array<Section<SafetensorsFile>, 3> kFileSections = {{
    {"summary", "what the file is", true, print_summary},
    {"tensors", "the tensors, with the range of their elements", true, print_tensors},
    {"metadata", "the metadata", true, print_metadata},
}};

}  // namespace

std::string file_sections() { return section_rows<SafetensorsFile>(kFileSections); }

void inspect_file(const InspectOptions& asked) {
  const auto sections = chosen_sections<SafetensorsFile>(kFileSections, asked.show);
  const SafetensorsFile file = SafetensorsFile::open_model(asked.subject);
  for (const auto* section : sections) {
    std::printf("%s\n", styled(Style::Bold, std::string("== ") + section->title).c_str());
    section->print(file);
    std::printf("\n");
  }
}

}  // namespace tensorgrad::cli
