#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "forward/run.hpp"
#include "model/model.hpp"

namespace attnctl::test {

/// Opens a golden model, for observers that need one.
model::Model open_golden(const std::string& name);

/// Passes the rows of one head to an observer in panels of `panel_rows` rows. The other fields are copied
/// from `where`. Rows of zeros are marked as fully masked.
void show(forward::Observer& observer, const forward::AttentionPanel& where, MatrixView<const float> pattern,
          std::size_t panel_rows);

}  // namespace attnctl::test
