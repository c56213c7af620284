#pragma once

#include <functional>
#include <string>
#include <vector>

#include "model/config/config.hpp"
#include "model/families/family.hpp"

// Changes of single properties of a family's row, or of what it resolved to
// (tests/forward/mutation_test.cpp).
namespace attnctl::test {

/// What a mutation works on: the row before it is resolved to nothing but names, and what it resolved to.
struct Subject {
  FamilySpec& row;
  ModelConfig& config;
};

/// Changes one property, or returns false where the model does not have it.
struct Mutation {
  std::string name;
  std::function<bool(Subject&)> apply;
};

/// The same change in every layer that it fits.
[[nodiscard]] Mutation in_layers(std::string name, std::function<bool(LayerConfig&)> change);
[[nodiscard]] Mutation in_attention(std::string name, std::function<bool(AttentionConfig&)> change);

/// False where there is no norm.
[[nodiscard]] bool flip_kind(NormConfig& norm);
[[nodiscard]] bool remove_norm(NormConfig& norm);
/// By a third; false where it is 0.
[[nodiscard]] bool grow(float& value);
[[nodiscard]] bool grow(double& value);

[[nodiscard]] std::vector<Mutation> attention_mutations();
[[nodiscard]] std::vector<Mutation> distance_mutations();
[[nodiscard]] std::vector<Mutation> layer_mutations();
[[nodiscard]] std::vector<Mutation> other_mutations();

}  // namespace attnctl::test
