#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "results/results.hpp"

// The studies of the checkpoints of one training, side by side.
namespace attnctl::study {

struct SeriesCheckpoint {
  std::string model;      // path or name
  std::int64_t step = 0;  // ascending
  Results study;          // study_results()
};

struct SeriesRequest {
  std::optional<std::size_t> top = {};  // largest number of rows of a table in text; nullopt: 12
  std::string plot = {};   // COLUMN or TABLE.COLUMN to draw, one line per head; empty: no picture
  std::string map = {};    // the same, as a map of layers and steps
  std::uint64_t seed = 0;  // of the shuffles
};

/// The columns of the tables of series_results().
[[nodiscard]] std::span<const Definition> series_definitions();

/// Returns the last number in the last part of a path or name, such as 300 for "run/checkpoint-300"; nullopt
/// if it has none.
[[nodiscard]] std::optional<std::int64_t> step_in_name(std::string_view model);

/// Number of random orders of the values of a series with which its change is compared.
inline constexpr std::size_t kShuffles = 999;

/// The step at which a series of values changes most: the split with the least sum of squared differences
/// from the means of both sides (Hinkley 1970).
struct ChangePoint {
  std::size_t first = 0;         // index of the first value after the change
  double before = 0, after = 0;  // means of both sides
  double explained = 0;          // share of the sum of squares that the split explains, from 0 to 1
  double p_value = 1;            // share of the random orders, with this one, that explain as much
};
/// Returns nullopt if there are fewer than three values, or if all are equal. `seed` gives the random orders.
[[nodiscard]] std::optional<ChangePoint> change_point(std::span<const double> values, std::uint64_t seed);

/// Joins the studies of the checkpoints: each real number of each head at each step, the change point of each
/// series, and the steps at which heads have roles. Throws Error(bad_input) if no number of a head is in all
/// studies, and Error(usage) if `plot` or `map` is not a column of them.
[[nodiscard]] Results series_results(std::span<const SeriesCheckpoint> checkpoints,
                                     const SeriesRequest& request);

}  // namespace attnctl::study
