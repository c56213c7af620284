#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "inspect/open_model.hpp"
#include "results/results.hpp"

// The changes of the weights from one model to another, as results.
namespace attnctl::inspect {

/// The columns of the tables of compared weights.
[[nodiscard]] std::span<const Definition> change_definitions();

struct ChangesRequest {
  forward::Selection selection;         // heads of model a
  std::optional<std::size_t> top = {};  // largest number of rows of a table in text
  bool match = false;                   // compare each head with the best match among the selected heads of b
  std::uint64_t seed = 0;               // of the random matches
};

/// Compares the weights of two models of the same shape: the selected heads, all weights, and the
/// configurations. Throws the errors of analysis::compare_weights().
[[nodiscard]] Results compare_models(const OpenModel& a, const OpenModel& b, const ChangesRequest& request,
                                     Pool& pool);

}  // namespace attnctl::inspect
