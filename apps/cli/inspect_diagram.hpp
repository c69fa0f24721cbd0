// Boxes and arrows: what a picture of a program shows, before anybody knows where it stands.
#pragma once

#include <string>
#include <vector>

#include "tensorgrad/tensorgrad.hpp"

namespace tensorgrad::cli {

enum class BoxKind { Param, Input, Work, View, Update, Result };

struct Box {
  BoxKind kind = BoxKind::Work;
  std::string title;
  std::string detail;   ///< a second line
  std::string tooltip;  ///< more, for those who ask
};

struct Arrow {
  int from = 0, to = 0;  ///< boxes
  std::string label;     ///< what goes along it
};

struct Diagram {
  std::string title;
  std::vector<Box> boxes;
  std::vector<Arrow> arrows;
};

/// The kernels of a step, what they read and what they make.
Diagram kernel_diagram(const Plan& plan);
/// The nodes of a graph. Constants are written into the nodes that use them.
Diagram graph_diagram(const Graph& graph);

/// For Graphviz.
std::string to_dot(const Diagram& diagram);

}  // namespace tensorgrad::cli
