#include "base/error.hpp"
#include "model/config/resolve.hpp"

namespace attnctl {
namespace {

[[noreturn]] void refuse(const ConfigReader& config, const SizeKey& key, std::size_t value,
                         const std::string& need) {
  fail(Status::bad_input, "{}: {}: got {}, need {}", escaped(config.file()),
       config.pointer(key.names.empty() ? "relative_attention_num_buckets" : key.names.front()), value, need);
}

}  // namespace

RelativeBuckets resolve_relative_buckets(const RelativeBucketSpec& spec, const ConfigReader& config) {
  RelativeBuckets relative;
  relative.bidirectional = spec.bidirectional;
  relative.buckets = config.size(spec.buckets);
  relative.max_distance = config.size(spec.max_distance);
  relative.rows = spec.rows.names.empty() ? relative.buckets : config.size(spec.rows);
  const std::size_t fewest = spec.bidirectional ? 4 : 2;
  if (relative.buckets < fewest) {
    refuse(config, spec.buckets, relative.buckets, fmt::format("at least {}", fewest));
  }
  const std::size_t near = relative.buckets / fewest;  // distances with a bucket of their own
  if (relative.max_distance <= near) {
    refuse(config, spec.max_distance, relative.max_distance,
           fmt::format("more than {}, the distances that have a bucket of their own", near));
  }
  if (relative.rows < relative.buckets) {
    refuse(config, spec.rows, relative.rows, fmt::format("at least {}", relative.buckets));
  }
  return relative;
}

}  // namespace attnctl
