#pragma once

#include <optional>
#include <span>

#include "inspect/open_model.hpp"
#include "results/results.hpp"

// The changes of the weights from one model to another, as results.
namespace attnctl::inspect {

/// The columns of the tables of compared weights.
[[nodiscard]] std::span<const Definition> change_definitions();

/// Compares the weights of two models of the same shape: the selected heads, all weights, and the
/// configurations. `top` is the largest number of rows of a table in text. Throws the errors of
/// analysis::compare_weights().
[[nodiscard]] Results compare_models(const OpenModel& a, const OpenModel& b,
                                     const forward::Selection& selection, std::optional<std::size_t> top,
                                     Pool& pool);

}  // namespace attnctl::inspect
