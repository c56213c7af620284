#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "cli/analyses/analysis_part.hpp"

namespace attnctl::cli {

/// The positions of --rollout-from in each input that results are about: all of them where it was not given,
/// every piece of a word, none where an input does not have it (warning from_not_found). Error(usage) where
/// no input has it.
[[nodiscard]] std::vector<std::vector<std::size_t>> rollout_positions(const PartInput& input);

/// Rows of [n, n] in the order of `positions`, in float32.
[[nodiscard]] Array rows_of(MatrixView<const double> values, const std::vector<std::size_t>& positions);

/// Positions as an array of an NPZ.
[[nodiscard]] Array positions_array(const std::vector<std::size_t>& positions);

/// A heatmap of the asked positions, added to the page of the inputs before.
void add_heatmap(std::optional<HeatmapPage>& page, const std::string& title,
                 const std::vector<std::string>& labels, const std::vector<std::size_t>& positions,
                 const Array& rows);

/// {"input", "from", "values"} of each row of an array [positions, n].
void add_rows_from(List& items, const Sequence& sequence, const std::vector<std::size_t>& positions,
                   const Array& rows);

/// "position:token value" of the largest values of a row.
[[nodiscard]] std::string strongest(const Array& rows, std::size_t row,
                                    const std::vector<std::string>& labels);

/// Tokens as people read them; positions where there are none.
[[nodiscard]] std::vector<std::string> labels_of(const PartInput& input, const Sequence& sequence);

}  // namespace attnctl::cli
