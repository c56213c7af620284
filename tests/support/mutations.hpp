#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/families/family.hpp"

// Mutations of single properties of a family's row or of the resolved configuration
// (tests/forward/mutation_test.cpp).
namespace attnctl::test {

/// The subject of a mutation: the family's row, which still determines tensor names, and the resolved
/// configuration.
struct Subject {
  model::FamilySpec& row;
  model::ModelConfig& config;
};

/// A change of one property. `apply` returns false if the model does not have the property.
struct Mutation {
  std::string name;
  std::function<bool(Subject&)> apply;
};

/// Return a mutation that makes the same change in every layer that has the property.
[[nodiscard]] Mutation in_layers(std::string name, std::function<bool(model::LayerConfig&)> change);
[[nodiscard]] Mutation in_attention(std::string name, std::function<bool(model::AttentionConfig&)> change);

/// Return false if there is no norm.
[[nodiscard]] bool flip_kind(model::NormConfig& norm);
[[nodiscard]] bool remove_norm(model::NormConfig& norm);
/// Increases a value by a third. Returns false if it is 0.
[[nodiscard]] bool grow(float& value);
[[nodiscard]] bool grow(double& value);

[[nodiscard]] std::vector<Mutation> attention_mutations();
[[nodiscard]] std::vector<Mutation> distance_mutations();
[[nodiscard]] std::vector<Mutation> layer_mutations();
[[nodiscard]] std::vector<Mutation> other_mutations();

}  // namespace attnctl::test
