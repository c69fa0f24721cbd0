#include "conformance.hpp"

#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <optional>

#include "conformance_case.hpp"
#include "conformance_json.hpp"

namespace tensorgrad::conformance {

namespace {

namespace fs = std::filesystem;

constexpr const char* kHelp =
    R"(usage: tensorgrad conformance DIR [--device D] [--set NAME] [--only GLOB] [--skip GLOB]
                              [--dump FILE]

Runs the reference values in DIR on a device and compares. DIR may hold
  ops.json + ops.safetensors      op cases: the output and every gradient
  NAME.json + NAME.safetensors    training trajectories: losses, gradients, final parameters
  NAME/ with config.json          models in Hugging Face form, with expected.safetensors: logits,
                                  loss, gradients and greedy tokens

  --device D    best (the default), cpu, webgpu or reference
  --set NAME    only cases of this set
  --only GLOB   only cases whose id matches: add.0, 'matmul.*', gpt_adamw, mamba
  --skip GLOB   not the cases whose id matches
  --dump FILE   write every computed tensor to a safetensors file under the expected tensor's
                name; those of trajectories and models have the case's id before it
                (gpt_adamw.final.tok.weight, gpt_adamw.losses, mamba.logits)
--set, --only and --skip may be given several times.

Sets: op cases and trajectories name theirs in the field "set" (core if there is none). Models of
type mamba and mamba2 are in the set state-space, all others in the set inference. Without --set,
all sets run except inference, whose models are taken only if --set inference is given or --only
matches them.

A line for each case that fails says where and by how much: the error is
max|got - want| / max|want|, or max|got - want| where all expected values are zero. At the end
stands the number of cases passed and failed. Exit status: 0 if all passed, 1 if one failed, 2 if
nothing could be run.
)";

/// What is wrong with the command line.
struct UsageError : Error {
  using Error::Error;
};

struct Options {
  std::string folder;
  std::string device = "best";
  std::vector<std::string> sets, only, skip;
  std::string dump;
  bool help = false;
};

Options parse(const std::vector<std::string>& args) {
  Options options;
  for (std::size_t i = 0; i < args.size(); ++i) {
    std::string name = args[i];
    if (name == "--help" || name == "-h") {
      options.help = true;
      return options;
    }
    if (name.empty() || name[0] != '-') {
      if (!options.folder.empty()) {
        throw UsageError("two folders are given: " + options.folder + " and " + name + ".");
      }
      options.folder = name;
      continue;
    }
    std::optional<std::string> joined;  // --device=cpu
    if (const std::size_t equals = name.find('='); equals != std::string::npos) {
      joined = name.substr(equals + 1);
      name.resize(equals);
    }
    const auto value = [&]() -> std::string {
      if (!joined && i + 1 == args.size()) throw UsageError(name + " needs a value.");
      return joined ? *joined : args[++i];
    };
    if (name == "--device") {
      options.device = value();
    } else if (name == "--set") {
      options.sets.push_back(value());
    } else if (name == "--only") {
      options.only.push_back(value());
    } else if (name == "--skip") {
      options.skip.push_back(value());
    } else if (name == "--dump") {
      options.dump = value();
    } else {
      throw UsageError("there is no option " + name + ".");
    }
  }
  if (options.folder.empty()) throw UsageError("no folder is given.");
  return options;
}

Device open_device(const std::string& name) {
  if (name == "null") {
    throw UsageError(
        "the null device computes nothing to compare; choose best, webgpu, cpu or reference.");
  }
  return Device::named(name);
}

// ---- finding cases

/// A file that cannot be read is a case that fails, so that the others still run.
Case unreadable(const std::string& id, const std::string& reason) {
  return {id, "", false, [reason](const Device&, Report& report) { report.fail(reason); }};
}

std::vector<Case> cases_of_file(const fs::path& path) {
  const Json json = read_json(path.string());
  if (json.is_array() || json.contains("cases")) return op_cases(path.string());
  if (json.contains("kind") && json.contains("losses")) return {training_case(path.string())};
  std::fprintf(stderr,
               "tensorgrad conformance: %s holds neither op cases nor a trajectory; ignored.\n",
               path.c_str());
  return {};
}

bool is_model(const fs::path& folder) { return fs::exists(folder / "config.json"); }

std::vector<Case> find_cases(const std::string& folder) {
  fs::path root = fs::path(folder).lexically_normal();
  if (!root.has_filename()) root = root.parent_path();  // `fixtures/` is `fixtures`
  if (!fs::exists(root)) throw IoError("There is no folder " + folder + ".");
  if (!fs::is_directory(root)) throw IoError(folder + " is no folder.");
  std::vector<fs::path> paths;
  if (is_model(root)) {
    paths = {root};
  } else {
    for (const fs::directory_entry& entry : fs::directory_iterator(root)) paths.push_back(entry);
    std::sort(paths.begin(), paths.end());
  }
  std::vector<Case> cases;
  for (const fs::path& path : paths) {
    try {
      if (fs::is_directory(path)) {
        if (is_model(path)) cases.push_back(model_case(path.string()));
      } else if (path.extension() == ".json") {
        for (Case& found : cases_of_file(path)) cases.push_back(std::move(found));
      }
    } catch (const std::exception& error) {
      cases.push_back(unreadable(path.stem().string(), error.what()));
    }
  }
  return cases;
}

bool matches(const std::vector<std::string>& globs, const std::string& id) {
  return std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
    return fnmatch(glob.c_str(), id.c_str(), 0) == 0;
  });
}

bool is_selected(const Case& c, const Options& options) {
  const bool named = matches(options.only, c.id);
  if (!options.only.empty() && !named) return false;
  if (matches(options.skip, c.id)) return false;
  if (options.sets.empty()) return !c.optional || named;
  return c.set.empty() ||
         std::find(options.sets.begin(), options.sets.end(), c.set) != options.sets.end();
}

// ---- running them

/// The case at work, on a terminal.
class Progress {
 public:
  explicit Progress(std::size_t total) : total_(total), shown_(isatty(STDERR_FILENO) != 0) {}
  ~Progress() { clear(); }
  void show(std::size_t i, const std::string& id) const {
    if (shown_) std::fprintf(stderr, "\r\033[K[%zu/%zu] %s", i + 1, total_, id.c_str());
  }
  void clear() const {
    if (shown_) std::fputs("\r\033[K", stderr);
  }

 private:
  std::size_t total_;
  bool shown_;
};

void write_dump(const std::string& path, const std::map<std::string, Array>& arrays) {
  std::vector<FileTensor> tensors;
  for (const auto& [name, array] : arrays) {
    tensors.push_back(array.is_float ? FileTensor::f32(name, array.shape, array.floats)
                                     : FileTensor::i32(name, array.shape, array.ints));
  }
  write_safetensors(path, tensors);
}

int run(const Options& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::vector<Case> found = find_cases(options.folder);
  std::vector<Case> cases;
  std::copy_if(found.begin(), found.end(), std::back_inserter(cases),
               [&](const Case& c) { return is_selected(c, options); });
  if (cases.empty()) {
    throw Error("no case is selected: " + options.folder + " has " + std::to_string(found.size()) +
                (found.size() == 1 ? " case." : " cases."));
  }
  const Device device = open_device(options.device);
  std::map<std::string, Array> computed;
  std::size_t failed = 0;
  const Progress progress(cases.size());
  for (std::size_t i = 0; i < cases.size(); ++i) {
    progress.show(i, cases[i].id);
    Report report;
    try {
      cases[i].run(device, report);
    } catch (const std::exception& error) {
      report.fail(error.what());
    } catch (...) {
      report.fail("an unknown exception was thrown");
    }
    if (!options.dump.empty()) computed.merge(report.computed());
    if (report.passed()) continue;
    ++failed;
    progress.clear();
    std::cout << "FAIL " << cases[i].id << ": " << report.text() << std::endl;
  }
  progress.clear();
  if (!options.dump.empty()) write_dump(options.dump, computed);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::fprintf(stderr, "%.1f s on %s (%s)\n", seconds.count(), device.name().c_str(),
               device.description().c_str());
  std::cout << cases.size() - failed << " passed, " << failed << " failed" << std::endl;
  return failed > 0 ? 1 : 0;
}

}  // namespace

}  // namespace tensorgrad::conformance

int run_conformance(const std::vector<std::string>& args) {
  using namespace tensorgrad::conformance;
  try {
    const Options options = parse(args);
    if (options.help) {
      std::cout << kHelp << std::flush;
      return 0;
    }
    return run(options);
  } catch (const UsageError& error) {
    std::cerr << "tensorgrad conformance: " << error.what()
              << " `tensorgrad conformance --help` tells more.\n";
  } catch (const std::exception& error) {
    std::cerr << "tensorgrad conformance: " << error.what() << '\n';
  }
  return 2;
}
