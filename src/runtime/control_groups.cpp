#include "runtime/control_groups.hpp"

#include <fstream>

namespace tensorgrad {

void for_each_control_group(
    const std::string& controller,
    const std::function<void(const std::string& folder, bool unified)>& visit) {
  std::ifstream groups("/proc/self/cgroup");  // lines hierarchy:controllers:path
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && ("," + controllers + ",").find("," + controller + ",") == std::string::npos)
      continue;
    const std::string root = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/" + controller;
    std::string path = line.substr(second + 1);
    for (;;) {
      if (path == "/") path.clear();
      visit(root + path, unified);
      if (path.empty()) break;
      path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
    }
  }
}

}  // namespace tensorgrad
