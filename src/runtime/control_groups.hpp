// The control groups that confine this process on Linux: to fewer processors, or less memory, than
// the machine has.
#pragma once

#include <functional>
#include <string>

namespace tensorgrad {

/// Calls visit(folder, unified) for the group of this process that `controller` ("cpu", "memory")
/// belongs to and for all groups around it; `unified` says whether its files are those of the
/// second version. Does nothing where there are no control groups.
void for_each_control_group(
    const std::string& controller,
    const std::function<void(const std::string& folder, bool unified)>& visit);

}  // namespace tensorgrad
