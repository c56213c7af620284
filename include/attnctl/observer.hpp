#pragma once

#include <cstddef>

#include "attnctl/input.hpp"
#include "attnctl/matrix_view.hpp"
#include "attnctl/model.hpp"

namespace attn {

/// Some consecutive rows of an attention pattern. The pattern belongs to one head and one input.
struct Panel {
  std::size_t input = 0;  // index in Batch::sequences()
  Head head;
  std::size_t first_row = 0;  // query position of row 0
  /// Attention weights [rows, keys]. Row r belongs to the query at position first_row + r. The view is valid
  /// only during the call of Observer::panel.
  MatrixView<const float> weights;
};

/// Receives the attention patterns of a run (run.hpp). Each pattern arrives in panels, so that a whole
/// pattern need not fit into memory. The weights of a row sum to 1 (up to rounding), or to less than 1 if the
/// model has attention sinks. They are 0 if no key is visible to the query. They are NaN if the scores of the
/// row contain NaN or +inf, or if all visible keys have the score -inf.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Is called once, before the first panel.
  virtual void begin(const Batch& /*batch*/) {}

  /// Is called for every panel of every selected head. Several threads may call it at once with different
  /// heads. The panels of one head arrive one at a time, ordered by input and then by row, so that data kept
  /// per head needs no lock. If panel() throws, the run stops and throws the same exception.
  virtual void panel(const Panel& panel) = 0;
};

}  // namespace attn
