#pragma once

#include <cstddef>

#include "attnctl/input.hpp"
#include "attnctl/matrix_view.hpp"
#include "attnctl/model.hpp"

namespace attn {

/// Consecutive rows of the attention pattern of one head for one input.
struct Panel {
  std::size_t input = 0;  // index in Batch::sequences()
  Head head;
  std::size_t first_row = 0;  // position of the query of row 0
  MatrixView<const float>
      weights;  // [rows, keys]; row r belongs to query first_row + r. Valid during the call
};

/// Receives the attention patterns of a run (run.hpp). Patterns arrive in panels, so that no pattern must fit
/// into memory. A row sums to 1; to less if the model has attention sinks, and to 0 if its input hides all
/// keys.
class Observer {
 public:
  virtual ~Observer() = default;

  /// Called once, before the first panel.
  virtual void begin(const Batch& /*batch*/) {}

  /// Called for every panel of every selected head. Different heads come in parallel from several threads.
  /// The panels of one head come in order (by input, then by row), one at a time, so that state per head
  /// needs no lock. An exception ends the run, which throws it.
  virtual void panel(const Panel& panel) = 0;
};

}  // namespace attn
