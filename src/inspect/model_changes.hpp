#pragma once

#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "analysis/similarity/head_match.hpp"
#include "inspect/open_model.hpp"
#include "results/results.hpp"

// The changes of the weights from one model to another, as results.
namespace attnctl::inspect {

/// The columns of the tables of compared weights.
[[nodiscard]] std::span<const Definition> change_definitions();

struct ChangesRequest {
  forward::Selection selection;              // heads of model a
  std::optional<std::size_t> top = {};       // largest number of rows of a table in text
  std::vector<model::HeadId> partners = {};  // heads of b to compare with; empty: those of the same names
  std::set<std::string> changed_roles = {};  // names of heads with a role in only one of the models
};

/// Adds the score of a match of heads by `by`, "weights" or "behaviour", to a document, and to text after its
/// first line.
void add_match(Results& results, const char* by, const analysis::HeadMatch& match);

/// Compares the weights of two models of the same shape: the selected heads, all weights, and the
/// configurations. Throws the errors of analysis::compare_weights().
[[nodiscard]] Results compare_models(const OpenModel& a, const OpenModel& b, const ChangesRequest& request,
                                     Pool& pool);

}  // namespace attnctl::inspect
