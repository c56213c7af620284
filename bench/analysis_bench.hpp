#pragma once

#include <cstddef>
#include <functional>

#include "model/model.hpp"

namespace attnctl::bench {

/// Returns the minimum of several runs, in milliseconds.
double best_ms(int runs, const std::function<void()>& work);

/// A bare attention model with random weights.
struct Shapes {
  std::size_t layers = 12;
  std::size_t heads = 12;
  std::size_t d = 768;
};
model::Model random_model(const Shapes& shapes);

void weights(std::size_t threads);
/// Measures both circuits of a single layer, for several widths.
void weights_layer(std::size_t threads);
void pattern_metrics(std::size_t threads);

}  // namespace attnctl::bench
