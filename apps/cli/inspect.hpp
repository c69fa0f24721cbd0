// The two kinds of things that `tensorgrad inspect` takes apart, each in a file of its own: an
// example's program (inspect_example.cpp) and a file with tensors (inspect_file.cpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "example.hpp"
#include "options.hpp"

namespace tensorgrad::cli {

struct InspectOptions {
  std::string subject;
  std::string device = "best", show, draw = "kernels", svg, dot;
  std::int64_t batch = 0;
};

void inspect_example(const Example& example, const InspectOptions& options);
void inspect_file(const InspectOptions& options);

/// Rows of help: what --show can be given.
std::string example_sections();
std::string file_sections();

/// A part of the report on a `Subject`.
template <class Subject>
struct Section {
  const char* name;
  const char* title;
  bool usual;  ///< shown unless --show says
  void (*print)(const Subject& subject);
};

template <class Subject>
std::string section_rows(std::span<const Section<Subject>> sections) {
  std::string rows;
  for (const auto& section : sections) rows += help_row(section.name, 9, section.title);
  return rows;
}

/// The sections that `list` names, separated by commas; the usual ones if it is empty.
template <class Subject>
std::vector<const Section<Subject>*> chosen_sections(std::span<const Section<Subject>> sections,
                                                     const std::string& list) {
  std::vector<const Section<Subject>*> chosen;
  std::string known;
  for (const auto& section : sections) {
    if (list.empty() && section.usual) chosen.push_back(&section);
    known += std::string(section.name) + ", ";
  }
  for (std::size_t start = 0; !list.empty() && start <= list.size();) {
    const std::size_t comma = std::min(list.find(',', start), list.size());
    const std::string name = list.substr(start, comma - start);
    start = comma + 1;
    const std::size_t before = chosen.size();
    for (const auto& section : sections) {
      if (name == section.name || name == "all") chosen.push_back(&section);
    }
    if (chosen.size() == before) {
      throw UsageError("There is no section named \"" + name + "\" to show; there are: " + known +
                       "all. See `tensorgrad inspect --help`.");
    }
  }
  return chosen;
}

}  // namespace tensorgrad::cli
