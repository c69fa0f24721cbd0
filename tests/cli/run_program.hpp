// Starts a built program and keeps what it prints: in files, or on a terminal.
#pragma once

#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace tensorgrad::test {

struct ProgramResult {
  int status = -1;  ///< exit status; 128 + the signal's number if one ended it
  std::string out, err;
};

namespace detail {

/// In a child process: becomes the program of the build's folder.
[[noreturn]] inline void become(const std::string& name, const std::vector<std::string>& args) {
  const std::string path = std::string(TENSORGRAD_BIN_DIR) + "/" + name;
  std::vector<char*> words{const_cast<char*>(path.c_str())};
  for (const std::string& arg : args) words.push_back(const_cast<char*>(arg.c_str()));
  words.push_back(nullptr);
  execv(path.c_str(), words.data());
  _exit(127);
}

inline int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

inline std::string read_file(const std::filesystem::path& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace detail

/// A folder of its own, removed at the end.
class ScratchFolder {
 public:
  explicit ScratchFolder(
      const std::filesystem::path& within = std::filesystem::temp_directory_path()) {
    std::string name = (within / "tensorgrad-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder");
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

/// A program without a terminal and without input.
class RunningProgram {
 public:
  RunningProgram(const std::string& name, const std::vector<std::string>& args) {
    child_ = fork();
    if (child_ < 0) throw std::runtime_error("cannot fork");
    if (child_ == 0) {
      dup2(open("/dev/null", O_RDONLY), STDIN_FILENO);
      dup2(open(out().c_str(), O_WRONLY | O_CREAT, 0600), STDOUT_FILENO);
      dup2(open(err().c_str(), O_WRONLY | O_CREAT, 0600), STDERR_FILENO);
      detail::become(name, args);
    }
  }
  ~RunningProgram() {
    if (child_ > 0) send(SIGKILL), detail::wait_for(child_);
  }
  RunningProgram(const RunningProgram&) = delete;
  RunningProgram& operator=(const RunningProgram&) = delete;

  void send(int signal) const { kill(child_, signal); }
  /// What it has printed so far.
  std::string printed() const { return detail::read_file(out()); }
  /// Waits for its end.
  ProgramResult finish() {
    ProgramResult result;
    result.status = detail::wait_for(std::exchange(child_, -1));
    result.out = detail::read_file(out());
    result.err = detail::read_file(err());
    return result;
  }

 private:
  std::filesystem::path out() const { return folder_ / "out"; }
  std::filesystem::path err() const { return folder_ / "err"; }

  ScratchFolder folder_;
  pid_t child_ = -1;
};

/// Runs a program without a terminal and without input, to its end.
inline ProgramResult run_program(const std::string& name, const std::vector<std::string>& args) {
  return RunningProgram(name, args).finish();
}

/// Runs a program on a terminal of 80 columns. When `cue` appears, Ctrl-C is typed (an empty cue:
/// never). All that the terminal got is in `out`.
inline ProgramResult run_on_terminal(const std::string& name, const std::vector<std::string>& args,
                                     const std::string& cue = "") {
  winsize size{};
  size.ws_row = 24;
  size.ws_col = 80;
  int terminal = -1;
  const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
  if (child < 0) throw std::runtime_error("cannot open a terminal");
  if (child == 0) {
    setenv("TERM", "xterm-256color", 1);
    unsetenv("NO_COLOR");
    detail::become(name, args);
  }
  ProgramResult result;
  bool typed = cue.empty();
  char buffer[4096];
  // Reading fails once the program has closed its side.
  for (ssize_t n = 0; (n = read(terminal, buffer, sizeof buffer)) > 0;) {
    result.out.append(buffer, static_cast<std::size_t>(n));
    if (!typed && result.out.find(cue) != std::string::npos) {
      typed = write(terminal, "\x03", 1) == 1;
    }
  }
  close(terminal);
  result.status = detail::wait_for(child);
  return result;
}

}  // namespace tensorgrad::test
