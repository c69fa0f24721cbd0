// Which elements of its inputs an element of an op's output is made of.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "api/debug/values.hpp"

namespace tensorgrad::debug {

/// Called with the number of an input and an element of it.
using Visit = std::function<void(std::size_t input, std::size_t element)>;

/// One node, asked about the elements of its outputs. What an element is made of comes in bundles,
/// because many share some: the elements of a product's row all read the same row.
class Reads {
 public:
  /// `tensors` holds the values of the node's inputs and must outlive this.
  Reads(const Graph& graph, const Node& node, const std::vector<Values>& tensors);

  /// The bundles that `element` of an output is made of: one or two, numbered from 0.
  struct Bundles {
    std::size_t first = 0, second = 0;  ///< the same where there is one
  };
  Bundles bundles(std::size_t element) const;
  std::size_t bundle_count() const;
  /// Visits the elements of a bundle. A branch that `where` does not take is none. For ops that
  /// this file does not know, there is one bundle of every element of every input.
  void visit_bundle(std::size_t bundle, const Visit& visit) const;

 private:
  enum class Manner : std::uint8_t { Nothing, SamePlace, Moved, Grouped, Product, Everything };

  Manner manner() const;
  void trace_movement();
  void group_elements();
  void visit_all(std::size_t k, const Visit& visit) const;
  std::size_t out_rows() const;  // Product: of all batches
  const Values& input(std::size_t k) const;
  const Shape& shape(std::size_t k) const { return graph_.type(node_.inputs[k]).shape; }
  const Shape& out_shape() const { return graph_.type(node_.output()).shape; }

  const Graph& graph_;
  const Node& node_;
  const std::vector<Values>& tensors_;
  const Manner manner_;

  struct Origin {
    double first_number = 0;
    std::size_t input = 0;
  };
  std::vector<Origin> origins_;                   // Moved: which numbers belong to which input
  Values sources_;                                // Moved: by output element, the number there
  std::vector<std::vector<std::size_t>> groups_;  // Grouped: by output element
};

}  // namespace tensorgrad::debug
