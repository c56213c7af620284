#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "inspect/catalogue.hpp"

namespace attnctl::cli {

/// Returns the positions of --rollout-from in each input that the results describe: all positions if the
/// option is not given, and every piece of a word. Adds the warning from_not_found for an input without it.
/// Throws Error(usage) if no input contains it.
[[nodiscard]] std::vector<std::vector<std::size_t>> rollout_positions(const PartInput& input);

/// Returns the rows of a matrix [n, n] at `positions`, in that order, in float32.
[[nodiscard]] Array rows_of(MatrixView<const double> values, const std::vector<std::size_t>& positions);

/// Returns positions as an array for an NPZ.
[[nodiscard]] Array positions_array(const std::vector<std::size_t>& positions);

/// Adds a heatmap of the requested positions to the page, and creates the page for the first input.
void add_heatmap(std::optional<HeatmapPage>& page, const std::string& title,
                 const std::vector<std::string>& labels, const std::vector<std::size_t>& positions,
                 const Array& rows);

/// Adds the record {"input", "from", "values"} for each row of an array [positions, n].
void add_rows_from(List& items, const Sequence& sequence, const std::vector<std::size_t>& positions,
                   const Array& rows);

/// Returns "position:token value" for the five largest values of a row.
[[nodiscard]] std::string strongest(const Array& rows, std::size_t row,
                                    const std::vector<std::string>& labels);

/// Returns the plain text of the tokens, or positions if the input has none.
[[nodiscard]] std::vector<std::string> labels_of(const PartInput& input, const Sequence& sequence);

}  // namespace attnctl::cli
