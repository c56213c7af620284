#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "forward/observer.hpp"
#include "model/model.hpp"

namespace attnctl::test {

/// A golden model, for observers that want one.
Model open_golden(const std::string& name);

/// Shows an observer the rows of one head in panels of `panel_rows`; the other fields are `where`'s. Rows
/// that are all zero are fully masked.
void show(Observer& observer, const AttentionPanel& where, MatrixView<const float> pattern,
          std::size_t panel_rows);

}  // namespace attnctl::test
