#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/matrix_view.hpp"
#include "model/model.hpp"
#include "results/results.hpp"

namespace attnctl::cli {

/// Returns item `index` of an array. An item consists of the last `axes` axes; the other axes are flattened
/// into `index`. The item shares the values of the array.
[[nodiscard]] Array item_of(const Array& array, std::size_t index, std::size_t axes);

/// Return an array in float32, the type that all formats support. kUndefined is preserved.
[[nodiscard]] Array float_array(Shape shape, std::span<const double> values);
[[nodiscard]] Array float_array(const OwnedMatrix<double>& matrix);

/// Returns the names of heads: ["0.0", "0.1", ...], or ["enc.0.0", ...] for a model with components.
[[nodiscard]] List names_of(const ModelConfig& config, std::span<const HeadId> heads);

/// Returns "enc", "dec" or "cross"; null for a model with one stack or if `layer` is nullopt.
[[nodiscard]] Value component_of(const ModelConfig& config, const std::optional<std::size_t>& layer);
/// Return the number of a layer in its component, or null if `layer` is nullopt.
[[nodiscard]] Value number_of(const ModelConfig& config, const std::optional<std::size_t>& layer);
[[nodiscard]] Cell number_cell(const ModelConfig& config, std::size_t layer);
/// Returns the prefix of the array names of a component: "enc_", "dec_" or "cross_"; empty for a model with
/// one stack.
[[nodiscard]] std::string prefix_of(Component component);

[[nodiscard]] Value or_null(const std::optional<double>& value);
[[nodiscard]] Value or_null(const std::optional<std::size_t>& value);

/// Return a cell of a table: undefined if the number is missing or kUndefined. Reals are rounded to
/// float32, as in every format.
[[nodiscard]] Cell cell_of(std::size_t number);
[[nodiscard]] Cell cell_of(double number);
[[nodiscard]] Cell cell_of(const std::optional<double>& number);
[[nodiscard]] Cell cell_of(const std::optional<std::size_t>& number);

}  // namespace attnctl::cli
