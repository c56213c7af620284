#pragma once

#include "attnctl/study/measure.hpp"

#include <memory>
#include <span>

// The measures, a file each; measure.cpp has their catalogue.
namespace attnctl {

[[nodiscard]] std::unique_ptr<Measure> make_metrics_measure(const StudyShape& shape);
[[nodiscard]] std::span<const Metric> metrics_of_rows();

}  // namespace attnctl
