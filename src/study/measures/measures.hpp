#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "study/measure.hpp"

// The factories of the measures, one source file per measure. The catalogue is in measure.cpp.
namespace attnctl {

[[nodiscard]] std::unique_ptr<Measure> make_metrics_measure(const StudyShape& shape);
[[nodiscard]] std::unique_ptr<Measure> make_positional_measure(const StudyShape& shape);
[[nodiscard]] std::unique_ptr<Measure> make_special_measure(const StudyShape& shape);
[[nodiscard]] std::unique_ptr<Measure> make_repeats_measure(const StudyShape& shape);
[[nodiscard]] std::unique_ptr<Measure> make_distance_measure(const StudyShape& shape);

[[nodiscard]] std::span<const Metric> metrics_metrics();
[[nodiscard]] std::span<const Metric> positional_metrics();
[[nodiscard]] std::span<const Metric> special_metrics();
[[nodiscard]] std::span<const Metric> repeats_metrics();
[[nodiscard]] std::span<const Metric> distance_metrics();

[[nodiscard]] std::unique_ptr<Measure> make_syntax_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> syntax_metrics();

[[nodiscard]] std::unique_ptr<Measure> make_coreference_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> coreference_metrics();
[[nodiscard]] std::unique_ptr<Measure> make_probe_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> probe_metrics();

[[nodiscard]] std::unique_ptr<Measure> make_rare_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> rare_metrics();
[[nodiscard]] std::unique_ptr<Measure> make_roles_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> roles_metrics();
/// Largest number of heads for the measure `pairs`: half a million pairs, a state of 25 MB.
constexpr std::size_t kMostPairedHeads = 1024;
[[nodiscard]] std::unique_ptr<Measure> make_pairs_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> pairs_metrics();
[[nodiscard]] std::unique_ptr<Measure> make_rollout_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> rollout_metrics();

}  // namespace attnctl
