#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "base/matrix_view.hpp"
#include "model/model.hpp"
#include "results/result.hpp"

namespace attnctl::cli {

/// Item `index` of an array whose last `axes` axes make an item: the rest is counted through. Shares the
/// values.
[[nodiscard]] Array item_of(const Array& array, std::size_t index, std::size_t axes);

/// As float32, which all formats have. kUndefined stays what it is.
[[nodiscard]] Array float_array(Shape shape, std::span<const double> values);
[[nodiscard]] Array float_array(const OwnedMatrix<double>& matrix);

/// ["0.0", "0.1", ...], or ["enc.0.0", ...]
[[nodiscard]] List names_of(const ModelConfig& config, std::span<const HeadId> heads);

/// "enc", "dec", "cross", or null of a model with one stack; of `layer` null: null.
[[nodiscard]] Value component_of(const ModelConfig& config, const std::optional<std::size_t>& layer);
/// A layer's number in its component, or null.
[[nodiscard]] Value number_of(const ModelConfig& config, const std::optional<std::size_t>& layer);
[[nodiscard]] Cell number_cell(const ModelConfig& config, std::size_t layer);
/// What names of arrays of a component begin with: "enc_", or nothing.
[[nodiscard]] std::string prefix_of(Component component);

[[nodiscard]] Value or_null(const std::optional<double>& value);
[[nodiscard]] Value or_null(const std::optional<std::size_t>& value);

/// A cell of a table; undefined if there is no number, or if it is kUndefined. Reals are float32, as in every
/// format.
[[nodiscard]] Cell cell_of(std::size_t number);
[[nodiscard]] Cell cell_of(double number);
[[nodiscard]] Cell cell_of(const std::optional<double>& number);
[[nodiscard]] Cell cell_of(const std::optional<std::size_t>& number);

}  // namespace attnctl::cli
